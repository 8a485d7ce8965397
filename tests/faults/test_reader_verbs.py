"""Verbs of a read-only open that stop at each of their calls, while the owner changes the store.

What may fail: a reader is paused before any call of a verb for as long as it takes the owner to
merge, delete, truncate, concat, checkpoint and collect, or another one to take over and do the
same. What must hold: the verb ends with what was true at some moment since it began. Nothing of a
sound store is reported as damaged, lost or missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar

import pytest

from siltstone.bindings.memory.chunk_storage import Profile
from siltstone.container.models.segments import Put
from siltstone.container.models.tables import KeyChange
from siltstone.container.reader.no_log import NoLog
from siltstone.container.reader.read_container import ReadContainer, open_reader
from siltstone.core.errors import SegmentNotFoundError, SegmentTruncatedError, TableTruncatedError
from tests.support import inside
from tests.support.container.container_world import Owner, World, pattern, with_settings, world
from tests.support.faults.zombie import PausingEnvironment
from tests.support.soak import shared

SETTINGS = with_settings(
    garbage_delay_s=0.0,
    garbage_interval_s=1e6,
    optimiser_interval_s=1e6,
    flush_age_s=1e6,
    table_flush_age_s=1e6,
    checkpoint_age_s=1e6,
    optimiser_chunks_min=2,
)
T = TypeVar("T")

PART = 700
STEP = 6
CALLS_MAX = 200
"""No verb makes more."""


@dataclass
class Stage:
    """A store at work.

    Attributes:
        made: its world.
        owner: the newest one.
        ever: all bytes that were ever appended to a segment, one for each life of its name.
        rows: values of the table in the order of their versions.
    """

    made: World
    owner: Owner
    ever: dict[str, list[bytes]] = field(default_factory=dict)
    rows: list[bytes] = field(default_factory=list)

    async def create(self, name: str) -> None:
        await self.owner.container.create(name)
        self.ever.setdefault(name, []).append(b"")

    async def append(self, name: str, parts: int) -> None:
        for _ in range(parts):
            lives = self.ever[name]
            data = pattern(len(lives) + len(lives[-1]), PART)
            await self.owner.container.append(name, data)
            lives[-1] += data
            await self.owner.container.flush()

    async def put(self) -> None:
        self.rows.append(b"%d" % len(self.rows))
        await self.owner.container.commit([Put("t", b"key", self.rows[-1])])

    async def clean(self) -> None:
        """Let nothing stay that is not needed now."""
        container = self.owner.container
        for _ in range(2):
            await self.put()
            await container.flush()
            await container.collect()
            await container.checkpoint()


Act = Callable[[Stage], Coroutine[Any, Any, None]]


async def merge(stage: Stage) -> None:
    await stage.append("a", 5)
    assert await inside.parts(stage.owner.container).optimiser.round()
    await stage.clean()


async def make_again(stage: Stage) -> None:
    await stage.owner.container.delete("b")
    await stage.create("b")
    await stage.append("b", 2)
    await stage.clean()


async def truncate(stage: Stage) -> None:
    await stage.append("a", 3)
    await stage.owner.container.truncate("a", len(stage.ever["a"][-1]) - PART - 1)
    await stage.clean()


async def concat(stage: Stage) -> None:
    container = stage.owner.container
    await stage.create("source")
    await stage.append("source", 2)
    await container.seal("source")
    await container.concat("a", "source")
    stage.ever["a"][-1] += stage.ever.pop("source")[-1]
    await stage.clean()


async def take_over(stage: Stage) -> None:
    before, stage.owner = (
        stage.owner,
        await stage.made.open(takeover=True, index=f"{stage.made.owners}"),
    )
    await before.container.close()
    await merge(stage)


async def everything(stage: Stage) -> None:
    for act in (truncate, make_again, concat, take_over):
        await act(stage)


ACTS: dict[str, Act] = {
    act.__name__: act for act in (merge, make_again, truncate, concat, take_over, everything)
}


async def reads(reader: ReadContainer, stage: Stage) -> None:
    for name in ("a", "b"):
        try:
            info = await reader.info(name)
            data = await reader.read(name, info.start_offset, info.length - info.start_offset)
        except (SegmentNotFoundError, SegmentTruncatedError):
            continue
        assert data
        lives = stage.ever[name]
        assert data in [life[info.start_offset : info.length] for life in lives]


async def examines(reader: ReadContainer, stage: Stage) -> None:
    for name in ("a", "b"):
        states = await reader.examine(name, 0, 1_000, deep=True)
        assert [state.message for state in states if state.problem is not None] == []
        ends = [state.info.start + state.info.length for state in states]
        assert ends == sorted(set(ends))


async def checks(reader: ReadContainer, stage: Stage) -> None:
    assert [f async for f in reader.check() if f.severity in ("damage", "warning")] == []


async def keeps(reader: ReadContainer, stage: Stage) -> None:
    pin = await reader.pin(3_600)
    image = await reader.image()
    assert image.lineage == pin.pin.lineage
    await everything(stage)
    assert {rows.chunk.name for rows in image.chunks} <= set(stage.made.names())
    await reader.unpin(pin)


async def maps(reader: ReadContainer, stage: Stage) -> None:
    pinned = await reader.pins.pinned_maps(lambda _: [("a", None)], 3_600.0)
    assert pinned is not None
    await everything(stage)
    named = {run.chunk.name for one in pinned.maps for run in one.extents}
    assert named
    assert named <= set(stage.made.names())


async def follows(reader: ReadContainer, stage: Stage) -> None:
    seen: list[bytes | None] = []
    position = 0
    while position < await reader.table_version():
        try:
            page = await reader.table_updates("t", position)
        except TableTruncatedError:
            return  # two checkpoints let the first chunk of the table log go
        changes = [change for update in page.updates for change in update.changes]
        seen += [change.value for change in changes if isinstance(change, KeyChange)]
        position = page.position
    assert seen == stage.rows[: len(seen)]
    assert len(seen) >= 3


async def tells(reader: ReadContainer, stage: Stage) -> None:
    status = await reader.garbage.status()
    assert status.failed_count == 0
    assert not [f async for f in reader.garbage.sweep(all_epochs=True) if f.kind == "foreign"]
    assert reader.stats().warnings == ()
    assert (await reader.rows(b"", 1_000, kind=None, segment=None)).rows
    assert await reader.chunk_rows(system_now=True)


Verb = Callable[[ReadContainer, Stage], Coroutine[Any, Any, None]]
VERBS: dict[str, Verb] = {
    verb.__name__: verb for verb in (reads, examines, checks, keeps, maps, follows, tells)
}


async def staged(made: World) -> Stage:
    stage = Stage(made, await made.open())
    for name in ("a", "b"):
        await stage.create(name)
        await stage.append(name, 3)
    await stage.owner.container.create_table("t")
    for _ in range(3):
        await stage.put()
    await stage.owner.container.flush()
    return stage


async def stopped(
    work: Coroutine[Any, Any, T], environment: PausingEnvironment, stage: Stage, act: Act
) -> tuple[T, bool]:
    """Run ``work``, and ``act`` where it stops; return also whether it did."""
    working = asyncio.create_task(work)
    reached = asyncio.create_task(environment.reached.wait())
    await asyncio.wait([working, reached], return_when=asyncio.FIRST_COMPLETED)
    is_reached = reached.done()
    if is_reached:
        await act(stage)
    environment.resume.set()
    result = await working
    reached.cancel()
    return result, is_reached


async def story(made: World, verb: Verb, act: Act, number: int) -> bool:
    """Whether the verb made this many calls."""
    stage = await staged(made)
    environment = PausingEnvironment(made, 10**9, after=False)
    reader = await made.open_reader(environment)
    environment.stop_at(number)
    _, is_reached = await stopped(verb(reader, stage), environment, stage, act)
    await reader.close()
    await stage.owner.container.close()
    return is_reached


async def opening(made: World, act: Act, number: int) -> bool:
    """Whether it took this many calls to open what long-term storage alone holds."""
    stage = await staged(made)
    environment = PausingEnvironment(made, number, after=False)
    work = open_reader(
        container=0,
        log=NoLog(),
        storage=made.new_storage(),
        environment=environment,
        settings=made.settings,
        index_folders=[made.folder / "alone"],
    )
    reader, is_reached = await stopped(work, environment, stage, act)
    _, *doubts = reader.stats().warnings
    assert doubts == []
    await reads(reader, stage)
    await reader.close()
    await stage.owner.container.close()
    return is_reached


def play(numbers: Iterable[int], run: Callable[[World, int], Coroutine[Any, Any, bool]]) -> None:
    for number in numbers:
        try:
            with world(settings=SETTINGS, profile=Profile(append=False)) as made:
                if not made.run(run(made, number)):
                    return
        except BaseException as error:
            error.add_note(f"stopped at call {number}")
            raise


def some_calls(act: str) -> Iterable[int]:
    return count(1 + list(ACTS).index(act) % STEP, STEP)


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("verb", VERBS)
def test_verb_stops_at_some_calls(verb: str, act: str) -> None:
    play(some_calls(act), lambda made, number: story(made, VERBS[verb], ACTS[act], number))


@pytest.mark.parametrize("act", ACTS)
def test_opening_long_term_storage_alone_stops_at_some_calls(act: str) -> None:
    play(some_calls(act), lambda made, number: opening(made, ACTS[act], number))


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("verb", VERBS)
def test_verb_stops_at_every_call(verb: str, act: str) -> None:
    calls = shared(range(1, CALLS_MAX))
    play(calls, lambda made, number: story(made, VERBS[verb], ACTS[act], number))


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("act", ACTS)
def test_opening_long_term_storage_alone_stops_at_every_call(act: str) -> None:
    calls = shared(range(1, CALLS_MAX))
    play(calls, lambda made, number: opening(made, ACTS[act], number))
