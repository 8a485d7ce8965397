"""Two logs under one store: the copy of a log was claimed, and then the log itself again.

Each owner acknowledges into its own log, and no log tells of the other. Long-term storage does: the
journal of the newest epoch was written by an owner that had claimed its log in that epoch.
"""

from __future__ import annotations

import pytest

from siltstone.container.models.recovery_report import RecoveryReport, RecoveryState
from siltstone.container.recovery.lossy_recovery import recover_container
from siltstone.core.errors import FencedError, LogLostError, SiltstoneError
from siltstone.tier1.memory.fenced_log import MemoryFencedLog
from siltstone.tier1.memory.shared_log import SharedLog
from tests.support.container.container_world import (
    Owner,
    World,
    close_quietly,
    copied,
    pattern,
    world,
)

pytestmark = pytest.mark.virtual_time


def use(made: World, log: SharedLog) -> None:
    made.new_log = lambda: MemoryFencedLog("world", 0, shared=log)


async def settled(made: World) -> Owner:
    owner = await made.open()
    await owner.container.create("a")
    await owner.container.append("a", pattern(1, 900))
    await owner.container.flush()
    return owner


@pytest.mark.parametrize("late", [0, 1, 2, 9, 40])
@pytest.mark.parametrize("flush", [False, True])
@pytest.mark.parametrize("own", [0, 1, 9])
async def test_a_log_is_refused_once_a_copy_of_it_was_claimed(
    late: int, own: int, flush: bool
) -> None:
    async with world() as made:
        older = await settled(made)
        fork = copied(made.shared_log)
        use(made, fork)
        newer = await made.open(index="newer")
        for number in range(own):
            await newer.container.append("a", pattern(number, 100))
        if flush:
            await newer.container.flush()
        expected = await newer.container.read("a", 0, 10**6)
        # The older owner cannot be told before it looks at long-term storage.
        for number in range(late):
            await older.container.append("a", pattern(100 + number, 100))
        await made.crash(older)
        await newer.container.close()
        use(made, made.shared_log)
        with pytest.raises(LogLostError):
            await made.open()
        with pytest.raises(LogLostError):
            await made.open_reader()
        use(made, fork)
        again = await made.open(index="newer")
        assert await again.container.read("a", 0, 10**6) == expected
        await close_quietly(again)


async def test_an_owner_stops_when_it_sees_that_a_copy_of_its_log_was_claimed() -> None:
    async with world() as made:
        older = await settled(made)
        use(made, copied(made.shared_log))
        newer = await made.open(index="newer")
        await older.container.append("a", pattern(2, 900))
        before = made.names()
        with pytest.raises(SiltstoneError):
            await older.container.checkpoint()
        assert isinstance(older.container.failure, FencedError)
        assert set(before) <= set(made.names())
        await close_quietly(older)
        assert await newer.container.read("a", 0, 10**6) == pattern(1, 900)
        await close_quietly(newer)


@pytest.mark.parametrize("tries", [0, 3])
async def test_a_recovery_of_a_copied_log_leaves_out_what_the_copy_holds(tries: int) -> None:
    async def recovered(made: World, *, accept_loss: bool) -> RecoveryReport:
        return await recover_container(
            container=0,
            new_log=made.new_log,
            storage=made.new_storage(),
            environment=made.environment,
            settings=made.settings,
            owner="a person",
            accept_loss=accept_loss,
        )

    async with world() as made:
        older = await settled(made)
        use(made, copied(made.shared_log))
        newer = await made.open(index="newer")
        await newer.container.append("a", pattern(2, 100))
        await newer.container.flush()
        for number in range(20):
            await older.container.append("a", pattern(number, 100))
        await made.crash(older)
        await made.crash(newer)
        use(made, made.shared_log)
        for _ in range(tries):  # looking at it, and refusing it, leave no claim in it
            with pytest.raises(LogLostError):
                await made.open()
            assert (await recovered(made, accept_loss=False)).state is RecoveryState.LOST
        report = await recovered(made, accept_loss=True)
        assert report.done
        assert "copy" in report.reason
        owner = await made.open(index="recovered")
        assert await owner.container.read("a", 0, 10**6) == pattern(1, 900) + pattern(2, 100)
        await made.check(owner)
        await close_quietly(owner)
