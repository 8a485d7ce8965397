"""Every call that collections make to long-term storage meets every fault.

What may fail: one call of one operation: refused; lost; applied with its reply lost; a part of an
object is there; it has its effect when nobody waits any more; the process dies before it or after
it; or storage is away from it on, for longer than a commit tries. What must hold: the caller is
told by a typed error, and that what it does may be repeated; who repeats reaches the end with the
same handle, or in the next process; each append that was acknowledged is there once, and one that
nobody may repeat once at most; compactions and garbage change no row; nothing leaks.
"""

from __future__ import annotations

from functools import cache

import pyarrow
import pytest

from siltstone.core.errors import CollectionExistsError, CollectionNotFoundError
from tests.support.collections.collections_world import NAME, SCHEMA, many_rows, rows
from tests.support.collections.failing_life import (
    FATES,
    CollectionOperation,
    Life,
    Prepared,
    play_every,
    play_some,
)

SAMPLE = 6
"""Runs of each operation without ``soak``."""

FEW = pyarrow.Table.from_pylist(rows(("few", 1), ("rows", None)), schema=SCHEMA)
MANY = many_rows(400, 10_000)


async def nothing(life: Life) -> None:
    """The collection is empty."""


async def some_rows(life: Life) -> None:
    """Rows in the state, and rows in objects."""
    await life.append(FEW, 0)
    await life.append(many_rows(400), 1)
    await life.append(many_rows(400, 500), 2)


async def much_garbage(life: Life) -> None:
    """Parts that were replaced, and entries and rollups that nothing needs."""
    await some_rows(life)
    gusts = await life.collection()
    for number in range(150):
        done = await gusts.append(many_rows(1, 20_000 + number))
        life.model.add(done.time, [(f"key-{20_000 + number:08}", 20_000 + number)])
        await life.world.sleep(0.01)
    await gusts.compact()
    await life.world.sleep(1)


async def due_rollup(life: Life) -> None:
    """The next append or the one after it makes a rollup due."""
    await some_rows(life)
    gusts = await life.collection()
    while (await gusts.info()).seqno < 63:
        await gusts.append([])


async def append_inline(life: Life) -> None:
    await life.append(FEW, 7)


async def append_parts(life: Life) -> None:
    await life.append(MANY, 7)


async def append_both_unnamed(life: Life) -> None:
    await life.append_unnamed(many_rows(3, 50_000))
    await life.append_unnamed(MANY)
    await life.append_unnamed(many_rows(2, 30_000))


async def append_a_batch(life: Life) -> None:
    """A batch is built by one call and appended by the next; without the first it is built anew."""

    async def step() -> None:
        gusts = await life.collection()
        batch = await gusts.batch(MANY)
        done = await gusts.writer("job").append_batches([batch], sequence=0)
        life.model.add(done.time, many_pairs())

    await life.do(step)


def many_pairs() -> list[tuple[str, int]]:
    return [(f"key-{n:08}", n) for n in range(10_000, 10_400)]


async def compact(life: Life) -> None:
    async def step() -> None:
        await (await life.collection()).compact()

    await life.do(step)


async def collect(life: Life) -> None:
    async def step() -> None:
        await (await life.collection()).collect()

    await life.do(step)


async def sweep(life: Life) -> None:
    async def step() -> None:
        await (await life.collection()).sweep()

    await life.do(step)


async def roll_up(life: Life) -> None:
    for sequence in range(7, 11):
        await life.append(many_rows(1, 40_000 + sequence), sequence)
        await life.world.sleep(1)


async def create(life: Life) -> None:
    async def step() -> None:
        try:
            await life.process().collections.create("new", SCHEMA, key=["k"], times="count")
        except CollectionExistsError:
            return  # by an earlier try

    await life.do(step)
    life.name = "new"
    life.model.updates.clear()
    await life.append(FEW, 0)


async def rename(life: Life) -> None:
    async def step() -> None:
        try:
            await life.process().collections.rename(NAME, "new")
        except CollectionNotFoundError:
            assert await life.process().collections.list() == ["new"]

    await life.do(step)
    life.name = "new"
    await life.append(FEW, 7)


async def drop(life: Life) -> None:
    async def step() -> None:
        try:
            await life.process().collections.drop(NAME)
        except CollectionNotFoundError:
            return  # by an earlier try

    await life.do(step)


async def change_history(life: Life) -> None:
    """What may be repeated blindly: a bookmark, the since, a schema."""

    async def step() -> None:
        gusts = await life.collection()
        mark = await gusts.bookmark("m")
        await mark.advance(1)
        assert await gusts.advance_since(1) == 1
        await gusts.evolve(SCHEMA.append(pyarrow.field("w", pyarrow.int64())))
        await mark.remove()

    await life.do(step)


async def read(life: Life) -> None:
    async def step() -> None:
        gusts = await life.collection()
        async with await gusts.snapshot(lease=True) as snapshot:
            assert (await snapshot.to_arrow()).num_rows == 802
        async with await gusts.subscribe(1, until=3) as changes:
            assert [one.updates.num_rows async for one in changes] == [402, 400]

    await life.do(step)


OPERATIONS = {
    "append a batch": CollectionOperation(before=some_rows, act=append_a_batch),
    "append inline": CollectionOperation(before=some_rows, act=append_inline),
    "append parts": CollectionOperation(before=some_rows, act=append_parts),
    "append to nothing": CollectionOperation(before=nothing, act=append_parts),
    "append unnamed": CollectionOperation(before=some_rows, act=append_both_unnamed),
    "change history": CollectionOperation(before=some_rows, act=change_history),
    "collect": CollectionOperation(before=much_garbage, act=collect),
    "compact": CollectionOperation(before=some_rows, act=compact),
    "create": CollectionOperation(before=nothing, act=create),
    "drop": CollectionOperation(before=much_garbage, act=drop, is_gone=True),
    "read": CollectionOperation(before=some_rows, act=read),
    "rename": CollectionOperation(before=some_rows, act=rename),
    "roll up": CollectionOperation(before=due_rollup, act=roll_up),
    "sweep": CollectionOperation(before=much_garbage, act=sweep),
}


@cache
def prepared(name: str) -> Prepared:
    """The bucket in which an operation begins."""
    return Prepared.of(OPERATIONS[name])


def test_calls_of_every_kind_meet_faults() -> None:
    names = ("append parts", "collect", "compact", "drop", "roll up")
    seen = {call for name in names for call in prepared(name).play()}
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
    }
    assert len(FATES) == 10


def test_a_collector_that_dies_at_any_deletion_is_followed_by_another() -> None:
    calls = prepared("collect").play()
    deletions = [n for n, call in enumerate(calls, 1) if call.startswith("delete_many")]
    assert len(deletions) >= 3, "parts, rollups, entries"
    for number in deletions:
        for fate in ("dies torn", "dies after"):
            prepared("collect").play(number, fate)


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_some_calls_fail(name: str) -> None:
    play_some(name, prepared(name), SAMPLE)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_every_call_fails(name: str) -> None:
    play_every(prepared(name))
