"""One fault at every call of a concat in slices, and an owner overtaken at every call of it.

What may fail: a call to long-term storage or to the log, refused, lost, or applied with its reply
lost; or the owner stops before or after a call, for good or until a newer one has worked. What
must hold: the whole source is joined or nothing of it, a repeat says where, a concat that was
acknowledged stays, an owner that was overtaken changes nothing, and no row is left over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from siltstone.core.errors import SegmentNotFoundError, SiltstoneError
from siltstone.testing.faults.faulty_chunk_storage import Fate
from siltstone.testing.faults.faulty_fenced_log import Fault, FaultPlan
from tests.support import inside
from tests.support.container.container_world import (
    Owner,
    World,
    pattern,
    small_slices,
    with_settings,
    world,
)
from tests.support.faults.container_life import LOG_FAULTS, Counting, Life, play
from tests.support.faults.zombie import PausingEnvironment

SETTINGS = with_settings(
    chunk_bytes=300,
    garbage_delay_s=1.0,
    append_deadline_s=5.0,
    flush_age_s=1e6,
    table_flush_age_s=1e6,
    checkpoint_age_s=1e6,
    garbage_interval_s=1e6,
    optimiser_enabled=False,
    storage_deadline_s=1e6,
)
SLICE = 3


# --- one call fails -------------------------------------------------------------------------------


@dataclass
class Script:
    """A concat of eight extents in slices of three, from the middle of the first chunk on.

    Attributes:
        count: tells how many calls were made.
        marks: what it told before the concat and after the work that follows it.
    """

    count: Callable[[], int]
    marks: list[int] = field(default_factory=list)

    async def __call__(self, life: Life) -> None:
        await life.create("a")
        await life.create("b")
        await life.do(lambda c: c.create_table("table", exist_ok=True))
        await life.append("a", 700)
        await life.append("b", 2_400)
        await life.do(lambda c: c.flush())
        await life.append("a", 150)
        await life.truncate("b", 100)
        await life.seal("b")
        self.marks.append(self.count())
        await life.concat("a", "b")
        await life.append("a", 350)
        await life.do(lambda c: c.flush("a"))
        self.marks.append(self.count())
        await life.truncate("a", 900)
        await life.wait(20)
        await life.do(lambda c: c.collect())

    def calls(self) -> range:
        """Numbers of the calls between the marks."""
        return range(self.marks[0] + 1, self.marks[1] + 1)


@pytest.mark.parametrize("fate", [Fate.REFUSED, Fate.LOST_REPLY, Fate.LOST_CALL])
def test_one_storage_call_fails(fate: Fate) -> None:
    plan = Counting()
    script = Script(lambda: plan.count)
    with small_slices(SLICE):
        play(plan, None, script, SETTINGS)
        for number in script.calls():
            failing = Counting(number, fate)
            try:
                play(failing, None, script, SETTINGS)
            except BaseException as error:
                error.add_note(f"storage call {number} ({failing.hit}) was {fate.value}")
                raise


@pytest.mark.parametrize("fault", sorted(LOG_FAULTS))
def test_one_log_call_fails(fault: str) -> None:
    plan = FaultPlan()
    applied, failure = LOG_FAULTS[fault]
    script = Script(lambda: plan.counts["append"])
    with small_slices(SLICE):
        play(None, plan, script, SETTINGS)
        for number in script.calls():
            faults = {("append", number): Fault(applied=applied, error=failure)}
            try:
                play(None, FaultPlan(faults=faults), script, SETTINGS)
            except BaseException as error:
                error.add_note(f"append {number} was {fault}")
                raise


# --- an owner is overtaken ------------------------------------------------------------------------

TARGET = pattern(1, 700) + pattern(2, 150)
SOURCE = pattern(3, 2_400)


async def prepared(owner: Owner) -> None:
    container = owner.container
    for name in ("a", "b"):
        await container.create(name)
    await container.append("a", TARGET[:700])
    await container.append("b", SOURCE)
    await container.flush()
    await container.append("a", TARGET[700:])
    await container.seal("b")


async def _write(owner: Owner) -> None:
    await owner.container.append("a", b"newer")
    await owner.container.flush("a")


async def _concat(owner: Owner) -> None:
    await owner.container.concat("a", "b")


async def _truncate(owner: Owner) -> None:
    await owner.container.truncate("a", 800)
    await owner.container.collect()


async def _delete(owner: Owner) -> None:
    try:
        await owner.container.delete("b")
    except SegmentNotFoundError:
        return
    await owner.container.collect()


async def _duties(owner: Owner) -> None:
    await owner.container.flush()
    await owner.container.checkpoint()
    await inside.parts(owner.container).optimiser.round()
    await owner.container.garbage.run()


DEEDS: dict[str, Callable[[Owner], Awaitable[None]]] = {
    "write": _write,
    "concat": _concat,
    "truncate": _truncate,
    "delete": _delete,
    "duties": _duties,
}


async def overtaken(made: World, number: int, deed: str, *, after: bool) -> int:
    """Play it with the stop at a call of the concat; return how many there were."""
    environment = PausingEnvironment(made, 10**9, after=after)
    older = await made.open(index="older", environment=environment)
    await prepared(older)
    begin = environment.calls
    environment._number = begin + number
    concat = asyncio.create_task(older.container.concat("a", "b"))
    reached = asyncio.create_task(environment.reached.wait())
    await asyncio.wait([concat, reached], return_when=asyncio.FIRST_COMPLETED)
    reached.cancel()
    calls = environment.calls - begin
    acknowledged = concat.done()
    environment.stop_now()

    newer = await made.open(takeover=True, index="newer")
    content = await newer.container.read("a", 0, 9_999)
    names = {info.name for info in await newer.container.list_segments()}
    assert content == TARGET + (SOURCE if "b" not in names else b"")
    assert not acknowledged or "b" not in names
    if "b" in names:
        assert await newer.container.read("b", 0, 9_999) == SOURCE
    await DEEDS[deed](newer)
    found = await looked_at(newer)
    environment.resume.set()
    try:
        assert await concat == len(TARGET)
    except SiltstoneError:
        assert not acknowledged
    else:
        assert "b" not in names, "acknowledged, and not there"
    await older.container.close()
    assert await looked_at(newer) == found
    await made.environment.sleep(20)
    for _ in range(2):
        await newer.container.flush()
        await newer.container.collect()
    await made.check(newer)
    await newer.container.close()
    return calls


async def looked_at(owner: Owner) -> dict[str, tuple[int, bytes]]:
    """Every segment: where it begins, and what it holds."""
    container = owner.container
    return {
        info.name: (info.start_offset, await container.read(info.name, info.start_offset, 9_999))
        for info in await container.list_segments()
    }


@pytest.mark.parametrize("deed", sorted(DEEDS))
def test_an_overtaken_concat(deed: str) -> None:
    with small_slices(SLICE), world(settings=SETTINGS) as made:
        count: int = made.run(overtaken(made, 10**8, deed, after=False))
    assert count >= 5
    for number in range(1, count + 1):
        for after in (False, True):
            with small_slices(SLICE), world(settings=SETTINGS) as made:
                try:
                    made.run(overtaken(made, number, deed, after=after))
                except BaseException as error:
                    error.add_note(f"stopped {'after' if after else 'before'} call {number}")
                    raise
