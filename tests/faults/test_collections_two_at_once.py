"""A process that works on a collection stands still at any call, and another one acts meanwhile.

What may happen: the first process stands still before a call or after it, and then goes on; or it
dies there; or the call has its effect when the other process has ended, its caller being dead, or
having no answer; or it sleeps until all leases ended. What must hold: who goes on is told what is
so, by a typed error at most where the other one dropped what it works with; who repeats reaches
the end; each append that was acknowledged is there once, also one that both made; no other row
comes or goes; in the end nothing is damaged, and nothing leaks.
"""

from __future__ import annotations

from functools import cache
from itertools import product

import pyarrow
import pytest

from siltstone.collections.state.rollups import ROLLUP_EVERY
from siltstone.core.errors import (
    ChunkUnavailableError,
    CollectionExistsError,
    CollectionNotFoundError,
    LeaseExpiredError,
)
from siltstone.testing.faults.faulty_chunk_storage import Fate, StorageCall
from tests.support.collections.collections_world import (
    NAME,
    SCHEMA,
    SETTINGS,
    called,
    many_rows,
    rows,
)
from tests.support.collections.failing_life import Life
from tests.support.collections.paused_life import (
    LEASES_S,
    NEW,
    PAUSES,
    Act,
    Actor,
    Beginning,
    draws,
)
from tests.support.soak import shared

SAMPLE = 1
"""Plays of each pair without ``soak``."""

SHARED = many_rows(450, 90_000)


async def everything_is_due(life: Life) -> None:
    """Batches to merge; garbage; a truncation that died in its middle; an upload and a rollup of
    the dead; and a rollup is due with the next appends."""
    world = life.world
    await life.append(pyarrow.Table.from_pylist(rows(("few", 1)), schema=SCHEMA), 0)
    gusts = await life.collection()
    await life.append(many_rows(400), 1)
    for number in range(130):
        done = await gusts.append(many_rows(1, 20_000 + number))
        life.model.add(done.time, [(f"key-{20_000 + number:08}", 20_000 + number)])
        await world.sleep(0.01)
    await gusts.compact()
    dying = world.open(settings=SETTINGS, plan=no_rollup_is_deleted)
    with pytest.raises(ChunkUnavailableError):
        await (await dying.collection()).collect()
    await (await dying.collection()).batch(many_rows(400, 70_000))
    dying.place.consensus.put_rollup(gusts.id, 3, b"never linked")
    dying.die()
    await world.sleep(LEASES_S)
    await life.append(many_rows(400, 400), 2)
    await gusts.compact()
    await life.append(many_rows(400, 800), 3)
    while (await gusts.info()).seqno % ROLLUP_EVERY != ROLLUP_EVERY - 4:
        await gusts.append([])
    await world.sleep(1)  # Times of entries run ahead where they are made at one time.


def no_rollup_is_deleted(call: StorageCall) -> Fate:
    """A plan under which truncations fail."""
    return Fate.REFUSED if called(call) == "delete_many rollups" else Fate.DONE


def row_of(actor: Actor, key: str) -> pyarrow.Table:
    return pyarrow.Table.from_pylist(rows((f"{key}-{actor.who}", None)), schema=SCHEMA)


async def append_inline(actor: Actor) -> None:
    await actor.append(row_of(actor, "inline"), 7, actor.who)


async def append_parts(actor: Actor) -> None:
    await actor.append(many_rows(400, 30_000 if actor.who == "a" else 40_000), 7, actor.who)


async def append_alike(actor: Actor) -> None:
    await actor.append_shared(SHARED, 7)


async def truncate(actor: Actor) -> None:
    """A rollup is made at its time, and then all before it is deleted."""
    for sequence in range(7, 11):
        await actor.append(row_of(actor, str(sequence)), sequence, actor.who)
        await actor.world.sleep(1)
    await collect(actor)


async def replace(actor: Actor) -> None:
    """Batches are merged, and then those that they were are deleted."""
    await compact(actor)
    await actor.world.sleep(1)
    await collect(actor)


async def collect(actor: Actor) -> None:
    async def step() -> None:
        await actor.process().collections.collect()

    await actor.do(step)


async def compact(actor: Actor) -> None:
    async def step() -> None:
        await (await actor.collection()).compact()

    await actor.do(step)


async def sweep(actor: Actor) -> None:
    async def step() -> None:
        await actor.process().collections.sweep()

    await actor.do(step)


async def drop(actor: Actor) -> None:
    async def step() -> None:
        try:
            await actor.process().collections.drop(NAME)
        except CollectionNotFoundError:
            assert NAME not in await actor.process().collections.list()

    await actor.do(step)


async def create(actor: Actor) -> None:
    """Both make one collection, and both append to it."""

    async def step() -> None:
        try:
            await actor.process().collections.create(NEW, SCHEMA, key=["k"], times="count")
        except CollectionExistsError:
            assert NEW in await actor.process().collections.list()

    await actor.do(step)
    actor.turn_to(NEW)
    await actor.append(row_of(actor, "new"), 0, actor.who)


async def read(actor: Actor) -> None:
    """All rows at one time, by a reader that has a lease; without the lease it begins again."""
    as_of = 131

    async def step() -> None:
        while True:
            gusts = await actor.collection()
            try:
                async with await gusts.snapshot(as_of, lease=True) as snapshot:
                    assert (await snapshot.to_arrow()).num_rows == 531
                async with await gusts.subscribe(as_of, until=as_of + 1) as changes:
                    assert [one.updates.num_rows async for one in changes] == [531]
            except LeaseExpiredError:
                continue
            return

    await actor.do(step)


ACTS: dict[str, Act] = {
    act.__name__: act
    for act in (
        append_alike,
        append_inline,
        append_parts,
        collect,
        compact,
        create,
        drop,
        read,
        replace,
        sweep,
        truncate,
    )
}
PAIRS = [
    (first, second) for first, second in product(sorted(ACTS), sorted(ACTS)) if second != "read"
]
"""Who reads changes little for others: that is left to the soak."""


@cache
def beginning() -> Beginning:
    """The bucket in which all plays begin."""
    return Beginning.of(everything_is_due)


@cache
def calls_of(first: str) -> list[str]:
    """The calls of an act that nobody disturbs."""
    return beginning().play(ACTS[first], ACTS["read"])


def test_acts_make_calls_of_every_kind() -> None:
    seen = {call for first in ACTS for call in calls_of(first)}
    assert seen >= {
        "create entries",
        "create parts",
        "create rollups",
        "stat rollups",
        "read_into entries",
        "read_into rollups",
        "read_into parts",
        "delete_many entries",
        "delete_many parts",
        "delete_many rollups",
        "list parts",
        "list rollups",
        "list entries",
    }
    assert len(PAUSES) == 7


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_one_stands_still_at_some_calls(first: str, second: str) -> None:
    for number, how in draws(f"{first} {second}", len(calls_of(first)), SAMPLE):
        beginning().play(ACTS[first], ACTS[second], number, how)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("first", sorted(ACTS))
def test_one_stands_still_at_every_call(first: str) -> None:
    calls = range(1, len(calls_of(first)) + 1)
    for number, how, second in shared(product(calls, PAUSES, sorted(ACTS))):
        beginning().play(ACTS[first], ACTS[second], number, how)
