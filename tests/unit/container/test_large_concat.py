"""Concats of any number of extents in a container: no byte moves; each is done or undone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from siltstone.bindings.memory.chunk_storage import Profile
from siltstone.core.errors import BackPressureError, Outcome, SegmentNotFoundError
from siltstone.core.records.task import TaskKind
from tests.support import inside
from tests.support.container.container_world import (
    Owner,
    World,
    pattern,
    small_slices,
    with_settings,
    world,
)

WRITE_ONCE = Profile(append=False, concat=False, seal=False)
STILL = with_settings(
    optimiser_enabled=False, flush_age_s=10**4, chunk_bytes=100, garbage_interval_s=10**5
)


async def two(
    owner: Owner, source_bytes: int = 5_000, target_bytes: int = 250
) -> tuple[bytes, bytes]:
    """A target of 250 bytes, and a sealed source with a chunk for each 100 bytes."""
    contents = pattern(1, target_bytes), pattern(2, source_bytes)
    for name, content in zip(("a", "b"), contents, strict=True):
        await owner.container.create(name)
        if content:
            await owner.container.append(name, content)
        await owner.container.flush(name)
    await owner.container.seal("b")
    return contents


def undo_tasks(owner: Owner) -> int:
    return sum(task.kind is TaskKind.UNDO_CONCAT for task in owner.rows.tasks(2**62))


async def settled(there: World, owner: Owner) -> None:
    for _ in range(2):
        await owner.container.collect()
        await owner.container.flush()
        await there.environment.sleep(20)
    await owner.container.collect()
    await there.check(owner)


@pytest.mark.slow
@pytest.mark.parametrize("profile", [Profile(), WRITE_ONCE])
def test_no_byte_moves_and_a_repeat_says_where_they_are(profile: Profile) -> None:
    with world(settings=STILL, profile=profile) as there, small_slices(7):

        async def test() -> None:
            owner = await there.open()
            target, source = await two(owner)
            calls: list[str] = []
            owner.storage.before = lambda operation, name: calls.append(operation)
            assert await owner.container.concat("a", "b") == 250
            assert set(calls) <= {"seal"}
            assert await owner.container.concat("a", "b") == 250
            assert undo_tasks(owner) == 0
            assert await owner.container.read("a", 0, 9_999) == target + source
            with pytest.raises(SegmentNotFoundError):
                await owner.container.info("b")
            assert await owner.container.append("a", b"more") == 5_250
            await settled(there, owner)
            await owner.container.close()
            again = await there.open()
            assert await again.container.read("a", 0, 9_999) == target + source + b"more"
            assert await again.container.concat("a", "b") == 250
            await settled(there, again)
            await again.container.close()

        there.run(test())


@pytest.mark.slow
def test_appends_wait_for_it_and_go_after_it() -> None:
    with world(settings=STILL) as there, small_slices(7):

        async def test() -> None:
            owner = await there.open()
            target, source = await two(owner)
            joining = asyncio.create_task(owner.container.concat("a", "b"))
            await asyncio.sleep(0)
            late = [asyncio.ensure_future(owner.container.append("a", b"x")) for _ in range(3)]
            assert await joining == 250
            assert await asyncio.gather(*late) == [5_250, 5_251, 5_252]
            assert await owner.container.read("a", 0, 9_999) == target + source + b"xxx"
            await settled(there, owner)
            await owner.container.close()

        there.run(test())


class Slow:
    """Tells the result of each table update a second late."""

    def __init__(self, there: World, owner: Owner) -> None:
        self._pipeline = inside.parts(owner.container).pipeline
        self._update = self._pipeline.update
        self._environment = there.environment
        self.seconds = 1.0
        self._pipeline.update = self.update  # type: ignore[method-assign]

    async def update(self, *arguments: object, **choices: object) -> int:
        version = await self._update(*arguments, **choices)  # type: ignore[arg-type]
        await self._environment.sleep(self.seconds)
        return version


@pytest.mark.slow
def test_past_the_deadline_nothing_was_joined_and_appends_continue() -> None:
    settings = with_settings(
        optimiser_enabled=False, flush_age_s=10**4, chunk_bytes=100, append_deadline_s=4.5
    )
    with world(settings=settings) as there, small_slices(7):

        async def test() -> None:
            owner = await there.open()
            target, source = await two(owner)
            slow = Slow(there, owner)
            joining = asyncio.create_task(owner.container.concat("a", "b"))
            await there.environment.sleep(2)
            late = asyncio.ensure_future(owner.container.append("a", b"late"))
            with pytest.raises(BackPressureError) as caught:
                await joining
            assert caught.value.outcome is Outcome.NOT_APPLIED
            assert await late == 250
            slow.seconds = 0.0
            await owner.container.flush("a")
            assert await owner.container.read("a", 0, 9_999) == target + b"late"
            assert await owner.container.read("b", 0, 9_999) == source
            await there.environment.sleep(10)
            assert undo_tasks(owner) == 0
            assert await owner.container.concat("a", "b") == 254
            assert await owner.container.read("a", 0, 9_999) == target + b"late" + source
            await settled(there, owner)
            await owner.container.close()

        there.run(test())


@pytest.mark.slow
@pytest.mark.parametrize("keep_index", [True, False])
def test_a_crash_at_each_step_leaves_it_done_or_undone(keep_index: bool) -> None:
    outcomes = set()
    for seconds in (0.5, 1.5, 2.5, 4.5, 6.5, 8.5, 9.5, 12.0):
        with world(settings=STILL) as there, small_slices(7):

            async def test(there: World = there, seconds: float = seconds) -> None:
                owner = await there.open()
                target, source = await two(owner)
                Slow(there, owner)
                joining = asyncio.create_task(owner.container.concat("a", "b"))
                await there.environment.sleep(seconds)
                done = joining.done()
                await there.crash(owner, keep_index=keep_index)
                joining.cancel()
                await asyncio.gather(joining, return_exceptions=True)
                again = await there.open()
                info = await again.container.info("a")
                shown = info.length > 250
                outcomes.add(shown)
                assert shown or not done
                found = await again.container.read("a", 0, 9_999)
                assert found == (target + source if shown else target)
                await again.container.append("a", b"more")
                await again.container.flush("a")
                if not shown:
                    assert await again.container.read("b", 0, 9_999) == source
                where = await again.container.concat("a", "b")
                assert where == (250 if shown else 254)
                await settled(there, again)
                assert undo_tasks(again) == 0
                await again.container.close()

            there.run(test())
    assert outcomes == {True, False}


@pytest.mark.slow
@pytest.mark.parametrize(
    "verb",
    ["delete a", "delete b", "truncate a", "truncate b", "truncate all of b", "seal a"],
)
@pytest.mark.parametrize("target_bytes", [250, 0])
def test_whatever_is_asked_meanwhile(verb: str, target_bytes: int) -> None:
    for seconds in (0.5, 3.5, 7.5):
        with world(settings=STILL) as there, small_slices(7):

            async def test(there: World = there, seconds: float = seconds) -> None:
                owner = await there.open()
                target, source = await two(owner, target_bytes=target_bytes)
                Slow(there, owner)
                joining = asyncio.create_task(owner.container.concat("a", "b"))
                await there.environment.sleep(seconds)
                container = owner.container
                calls: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
                    "delete a": lambda: container.delete("a"),
                    "delete b": lambda: container.delete("b"),
                    "truncate a": lambda: container.truncate("a", target_bytes // 2),
                    "truncate b": lambda: container.truncate("b", 120),
                    "truncate all of b": lambda: container.truncate("b", len(source)),
                    "seal a": lambda: container.seal("a"),
                }
                other = asyncio.create_task(calls[verb]())
                collecting = asyncio.create_task(container.collect())
                results = await asyncio.gather(joining, other, collecting, return_exceptions=True)
                errors = [result for result in results if isinstance(result, BaseException)]
                assert all(isinstance(error, SegmentNotFoundError) for error in errors), errors
                if verb != "delete a":
                    info = await container.info("a")
                    found = await container.read("a", info.start_offset, 9_999)
                    joined = isinstance(results[0], int)
                    assert joined or verb == "delete b"
                    whole = target + (source if joined else b"")
                    if verb.startswith("truncate") and verb.endswith("b") and not errors:
                        # It was acknowledged, so those bytes must not come back.
                        whole = target + (source[120:] if verb == "truncate b" else b"")
                    assert found == whole[info.start_offset :]
                await settled(there, owner)
                assert undo_tasks(owner) == 0
                await container.close()

            there.run(test())


@pytest.mark.slow
def test_two_concats_of_one_source_and_two_into_one_target() -> None:
    with world(settings=STILL) as there, small_slices(7):

        async def test() -> None:
            owner = await there.open()
            container = owner.container
            target, source = await two(owner)
            other = pattern(3, 2_000)
            for name in ("c", "d"):
                await container.create(name)
            await container.append("c", other)
            await container.seal("c")
            results = await asyncio.gather(
                container.concat("a", "b"),
                container.concat("d", "b"),
                container.concat("a", "c"),
                return_exceptions=True,
            )
            failed = [result for result in results if isinstance(result, BaseException)]
            assert len(failed) == 1
            assert isinstance(failed[0], SegmentNotFoundError)
            length = (await container.info("a")).length + (await container.info("d")).length
            assert length == len(target + source + other)
            await settled(there, owner)
            await container.close()

        there.run(test())


@pytest.mark.slow
def test_background_duties_do_not_wait_for_it_and_leave_its_segments_alone() -> None:
    larger = with_settings(flush_age_s=10**4, garbage_interval_s=10**5, optimiser_interval_s=10**5)
    with world(settings=STILL) as there, small_slices(7):

        async def test() -> None:
            owner = await there.open()
            target, source = await two(owner)
            await owner.container.close()
            owner = await there.open(settings=larger)
            optimiser = inside.parts(owner.container).optimiser
            Slow(there, owner)
            joining = asyncio.create_task(owner.container.concat("a", "b"))
            await there.environment.sleep(3.5)
            assert undo_tasks(owner) == 1
            await owner.container.collect()
            await optimiser.round()
            reader = await there.open_reader()
            for verbs in (owner.container, reader):
                assert await verbs.read("a", 0, 9_999) == target
                assert await verbs.read("b", 0, 9_999) == source
                found = [finding async for finding in verbs.check()]
                assert not [each for each in found if each.severity == "damage"]
            await reader.close()
            assert not joining.done()
            assert undo_tasks(owner) == 1
            assert optimiser.rewritten == 0
            assert await joining == 250
            await optimiser.round()
            assert optimiser.rewritten > 0
            assert await owner.container.read("a", 0, 9_999) == target + source
            await settled(there, owner)
            await owner.container.close()

        there.run(test())


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.5, 2.5, 4.5, 6.5, 8.5, 9.5])
def test_a_caller_that_goes_away_leaves_it_done_or_undone(seconds: float) -> None:
    with world(settings=STILL) as there, small_slices(7):

        async def test() -> None:
            owner = await there.open()
            target, source = await two(owner)
            slow = Slow(there, owner)
            joining = asyncio.create_task(owner.container.concat("a", "b"))
            await there.environment.sleep(seconds)
            joining.cancel()
            await asyncio.gather(joining, return_exceptions=True)
            slow.seconds = 0.0
            length = (await owner.container.info("a")).length
            assert length in (250, 5_250)
            assert await owner.container.append("a", b"more") == length
            whole = target + (source if length > 250 else b"") + b"more"
            assert await owner.container.read("a", 0, 9_999) == whole
            await settled(there, owner)
            assert undo_tasks(owner) == 0
            assert await owner.container.concat("a", "b") == (250 if length > 250 else 254)
            await settled(there, owner)
            await owner.container.close()

        there.run(test())
