"""Every call of an import meets every fault, and an owner is overtaken at every one of them.

What may fail: one call to long-term storage or the log while a session is opened, committed,
aborted or swept; or the owner is paused there until a newer one has committed or aborted the
session. What must hold: the segments get all of it once, or nothing; a caller that repeats reaches
the end; no chunk that a segment needs is gone, and no other one stays for ever.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random

import pytest

from siltstone.container.container import Container
from siltstone.container.models.imports import (
    ImportBatch,
    ImportMode,
    ImportOutput,
    ImportSessionError,
    ImportTicket,
)
from siltstone.core.errors import SegmentSealedError
from tests.support.container.container_world import (
    Owner,
    World,
    close_quietly,
    pattern,
    small_slices,
    with_settings,
    world,
)
from tests.support.container.imported_chunks import bring, content, gives, left
from tests.support.faults.failing_calls import (
    DAYS_S,
    Mortal,
    Operation,
    a_source,
    open_chunk,
    play_every,
    play_some,
)
from tests.support.faults.import_calls import NEVER, Given, brought, given
from tests.support.faults.zombie import OldOwner, PausingEnvironment
from tests.support.model.container_model import ModelSegment
from tests.support.soak import shared

SAMPLE = 4
"""Runs of each operation without ``soak``."""
LIFETIME_S = DAYS_S


async def opened(life: Mortal) -> ImportTicket:
    found: list[ImportTicket] = []

    async def step(container: Container) -> None:
        found.append(await container.imports.open("job", lifetime_s=LIFETIME_S))

    await life.do(step)
    assert len({ticket.session_id for ticket in found}) == 1
    return found[-1]


async def committed(life: Mortal, *every: Given) -> None:
    outputs = [output for output, _ in every]

    async def step(container: Container) -> None:
        batch = ImportBatch(query="q", number=1)
        await container.imports.commit("job", outputs, batch)

    await life.do(step)
    segments = life.model.segments
    for output, data in every:
        if output.mode is ImportMode.APPEND:
            segments[output.segment].data += data
        else:
            sealed = output.mode is ImportMode.CREATE
            segments[output.segment] = ModelSegment(data=bytearray(data), sealed=sealed)


async def import_new(life: Mortal) -> None:
    chunks = brought(life, await opened(life), 900, 1_300, 20)
    await committed(life, given("new", chunks))
    await life.sweep()
    assert len(left(life.world)) == len(chunks), "what lost attempts left is gone"


async def import_joined(life: Mortal) -> None:
    await life.append("a", 80)
    chunks = brought(life, await opened(life), 500, 600, 700, 800, 900)
    await committed(
        life,
        given("a", chunks[:3], ImportMode.APPEND),
        given("source", chunks[3:4], ImportMode.REPLACE),
        given("new", chunks[4:]),
    )
    await life.append("a", 50)


async def import_appended(life: Mortal) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("siltstone.container.imports.publisher.SMALL_BYTES", 10_000)
        chunks = brought(life, await opened(life), 500, 600)
        await committed(life, given("a", chunks, ImportMode.APPEND))
    await life.append("a", 50)
    await life.sweep()
    assert left(life.world) == []


async def import_aborted(life: Mortal) -> None:
    chunks = brought(life, await opened(life), 500, 600)
    await life.seal("a")
    output, _ = given("a", chunks, ImportMode.APPEND)

    async def step(container: Container) -> None:
        # It is refused, when it has built its hidden segments.
        with suppress(SegmentSealedError, ImportSessionError):
            await container.imports.commit("job", [output])
        await container.imports.abort("job")

    async def closed(container: Container) -> None:
        with pytest.raises(ImportSessionError):
            await container.imports.commit("job", [output])

    await life.do(step)
    await life.do(closed)
    await life.flush()
    await life.wait(10)
    await life.sweep()
    await life.do(lambda c: c.garbage.run())
    assert left(life.world) == []


OPERATIONS = {
    "import new": Operation(before=open_chunk, act=import_new),
    "import joined": Operation(before=a_source, act=import_joined),
    "import joined in slices": Operation(before=a_source, act=import_joined, slices=2),
    "import appended": Operation(before=open_chunk, act=import_appended),
    "import aborted": Operation(before=open_chunk, act=import_aborted),
}


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_some_calls_fail(name: str) -> None:
    play_some(name, OPERATIONS[name], SAMPLE)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_every_call_fails(name: str) -> None:
    play_every(OPERATIONS[name])


# --- an owner is overtaken ------------------------------------------------------------------------

SETTINGS = with_settings(garbage_delay_s=1.0, garbage_interval_s=2.0, storage_deadline_s=5_000.0)
PARTS = [pattern(1, 3_000), pattern(2, 2_000), pattern(3, 10)]


async def _commit(owner: Owner, outputs: list[ImportOutput]) -> None:
    await owner.container.imports.commit("job", outputs)


async def _abort(owner: Owner, outputs: list[ImportOutput]) -> None:
    await owner.container.imports.abort("job")


async def _sweep(owner: Owner, outputs: list[ImportOutput]) -> None:
    async for _ in owner.container.garbage.sweep(delete=True):
        pass


Act = Callable[[Owner, list[ImportOutput]], Awaitable[None]]
ACTS: dict[str, Act] = {"commit": _commit, "abort": _abort, "sweep": _sweep}


def overtake(number: int, act: Act, *, old: Act, after: bool) -> range:
    """Stop an owner at a call of ``old``, let a newer one do ``act``, and resume the older one.

    Returns the numbers of the calls of ``old``; if ``number`` is none of them, no one takes over.
    """

    async def lived(made: World) -> range:
        environment = PausingEnvironment(made, number, after=after)
        outputs: list[ImportOutput] = []

        async def life(owner: Owner) -> None:
            await owner.container.create("a")
            await owner.container.append("a", b"before ")
            ticket = await owner.container.imports.open("job", lifetime_s=LIFETIME_S)
            bring(made.new_storage(), ticket, [b"lost"], attempt=7)
            chunks = bring(made.new_storage(), ticket, PARTS)
            outputs.append(gives("a", chunks[:2], ImportMode.APPEND))
            outputs.append(gives("new", chunks[2:]))
            first.append(environment.calls)
            await old(owner, outputs)

        first: list[int] = []
        older = OldOwner(made, environment, life)
        last = await older.begin()
        calls = range(first[0] + 1, last + 1)
        if number not in calls:
            environment.resume.set()
            assert older.owner is not None, "its life is over"
            await close_quietly(older.owner)
            return calls
        newer = await made.open(index="newer", takeover=True)
        imported = await _imported(newer)
        with suppress(ImportSessionError):
            await act(newer, outputs)
        now = await _imported(newer)
        assert now or not imported, "a commit was undone"
        await older.resume()
        await made.environment.sleep(20)
        assert await _imported(newer) == now
        with suppress(ImportSessionError):
            await newer.container.imports.commit("job", outputs)
        now = await _imported(newer)
        await newer.container.flush()
        await newer.container.garbage.run()
        await made.environment.sleep(20)
        async for _ in newer.container.garbage.sweep(delete=True):
            pass
        await newer.container.garbage.run()
        await made.check(newer)
        assert await _imported(newer) == now
        assert len(left(made)) == (len(PARTS) if now else 0)
        await close_quietly(newer)
        return calls

    with small_slices(100), world(settings=SETTINGS) as made:
        found = made.run(lived(made))
    assert isinstance(found, range)
    return found


async def _imported(owner: Owner) -> bool:
    """Whether both segments have what the session brought; neither may have it alone."""
    found = await content(owner, "a")
    names = [info.name for info in await owner.container.list_segments()]
    if found == b"before ":
        assert names == ["a"], "half an import"
        return False
    assert found == b"before " + PARTS[0] + PARTS[1]
    assert await content(owner, "new") == PARTS[2]
    return True


OLD_ACTS: dict[str, Act] = {"commit": _commit, "abort": _abort}


def stops(old: Act) -> list[tuple[int, bool]]:
    """Every call of ``old``, before it and after it."""
    calls = overtake(NEVER, _commit, old=old, after=False)
    assert len(calls) > 5, "it makes calls"
    return [(number, after) for number in calls for after in (False, True)]


@pytest.mark.parametrize("name", sorted(ACTS))
@pytest.mark.parametrize("old", sorted(OLD_ACTS))
def test_an_owner_is_overtaken_at_some_calls(old: str, name: str) -> None:
    every = stops(OLD_ACTS[old])
    for number, after in Random(f"{old} {name}").sample(every, SAMPLE):
        overtake(number, ACTS[name], old=OLD_ACTS[old], after=after)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", sorted(ACTS))
@pytest.mark.parametrize("old", sorted(OLD_ACTS))
def test_an_owner_is_overtaken_at_every_call(old: str, name: str) -> None:
    for number, after in shared(stops(OLD_ACTS[old])):
        overtake(number, ACTS[name], old=OLD_ACTS[old], after=after)
