"""Callers that went away do no harm: cancelled ones, and those of a keyspace that was closed.

What they asked for may still be on its way, or they may be at work next to the keyspace as it was
opened after that, whose snapshots and uploads they do not know.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from siltstone.container.models.segments import Condition, Operation, SetAttribute
from siltstone.core.errors import ClosedError
from siltstone.objects.async_keyspace import AsyncKeyspace
from siltstone.objects.async_keyspaces import check_async
from siltstone.objects.open_spaces import space_closed
from siltstone.objects.space_names import SegmentFate
from siltstone.objects.value_tasks import do_tasks
from siltstone.store.settings.objects_section import ObjectsSection
from siltstone.testing.virtual_time import jittered
from tests.support import inside
from tests.support.container.container_world import World
from tests.support.objects.compaction_life import imports_into
from tests.support.objects.small_segments import values_of
from tests.support.objects.space_world import NAMES, Opened, open_owner

pytestmark = pytest.mark.virtual_time

Commit = Callable[[Sequence[Operation], Sequence[Condition]], Awaitable[Any]]


async def opened_with_garbage(world: World) -> tuple[Opened, AsyncKeyspace]:
    """A process with a keyspace of which several value segments are worth a compaction."""
    opened = await open_owner(world)
    await opened.make()
    photos = await opened.keyspace(settings=ObjectsSection())
    for number in range(60):
        await photos.put("b", f"k{number % 7 if number % 8 else number}", b"%d" % number * 20)
    await world.environment.sleep(5)
    await opened.store.flush()
    return opened, photos


def says(operations: Sequence[Operation]) -> set[str | None]:
    """The fates of value segments that a commit tells."""
    return {each.value for each in operations if isinstance(each, SetAttribute)}


async def damage_in(opened: Opened) -> list[str]:
    """What a check of everything finds."""
    return [str(each) async for each in check_async(opened.store, NAMES.name, deep=True)]


@pytest.mark.parametrize("turns", [1, 3, 8])
async def test_what_a_cancelled_compaction_has_just_named_stays(
    monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    async with World(1, latency=jittered(0.02)) as world:
        imports_into(world, monkeypatch)
        opened, photos = await opened_with_garbage(world)
        model = await values_of(photos)
        commit: Commit = opened.store.commit
        cancelled: list[bool] = []

        async def cancelling(operations: Sequence[Operation], conditions: Any = ()) -> Any:
            if SegmentFate.NAMED.value not in says(operations) or cancelled:
                return await commit(operations, conditions)
            task = asyncio.ensure_future(commit(operations, conditions))
            for _ in range(turns):
                await asyncio.sleep(0)
            cancelled.append(compaction.cancel())
            return await task

        monkeypatch.setattr(opened.store, "commit", cancelling)
        compaction = asyncio.ensure_future(photos.compact())
        await asyncio.wait([compaction])
        assert cancelled == [True]
        assert compaction.cancelled()
        await photos.compact()
        assert await values_of(photos) == model
        assert await damage_in(opened) == []
        await opened.store.close()


async def test_what_is_named_while_a_keyspace_is_opened_again_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with World(1, latency=jittered(0.02)) as world:
        imports_into(world, monkeypatch)
        opened, photos = await opened_with_garbage(world)
        model = await values_of(photos)
        commit: Commit = opened.store.commit
        held, goes_on = asyncio.Event(), asyncio.Event()

        async def in_turn(operations: Sequence[Operation], conditions: Any = ()) -> Any:
            if SegmentFate.NAMED.value in says(operations):
                held.set()
                await goes_on.wait()  # for room, say
            elif operations and says(operations) == {SegmentFate.REPLACED.value}:
                goes_on.set()
                await asyncio.sleep(0)
            return await commit(operations, conditions)

        monkeypatch.setattr(opened.store, "commit", in_turn)
        compaction = asyncio.ensure_future(photos.compact())
        await held.wait()
        async with space_closed(opened.store, NAMES):
            pass
        again = await opened.keyspace()
        assert goes_on.is_set()
        await asyncio.wait([compaction])
        assert await values_of(again) == model
        assert await damage_in(opened) == []
        await opened.store.close()


async def test_an_upload_of_a_closed_keyspace_deletes_nothing_of_the_opened_one() -> None:
    async with World(1, latency=jittered(0.02)) as world:
        opened = await open_owner(world)
        await opened.make()
        old = await opened.keyspace()
        await old.put("b", "large", b"x" * 5_000)
        left_over = await old.begin_upload()
        await left_over.push(bytes(500))
        async with space_closed(opened.store, NAMES):
            pass
        new = await opened.keyspace()
        upload = await new.begin_upload()
        await upload.push(bytes(500))
        async with await new.snapshot() as before:
            await new.delete("b", "large")
            with pytest.raises(ClosedError):
                await left_over.push(bytes(500))
            await left_over.abort()
            assert [each.value async for each in before.objects("b")] == [b"x" * 5_000]
        await upload.push(bytes(500))
        await upload.push(bytes(500))
        await upload.abort()
        assert await damage_in(opened) == []
        await opened.store.close()


async def test_a_closed_keyspace_deletes_no_value_segment_that_a_snapshot_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with World(1, latency=jittered(0.02)) as world:
        imports_into(world, monkeypatch)
        opened, photos = await opened_with_garbage(world)
        old = inside.open_space(photos)
        async with space_closed(opened.store, NAMES):
            pass
        new = await opened.keyspace(settings=ObjectsSection())
        async with await new.snapshot() as before:
            shown = await values_of(new)
            for key in shown:
                await new.put("b", key, b"")
            await world.environment.sleep(5)
            await opened.store.flush()
            assert (await new.compact()).run
            with pytest.raises(ClosedError):  # a compaction that began before ends by this
                await do_tasks(old.parts)
            assert {each.head.key: each.value async for each in before.objects("b")} == shown
        await opened.store.close()
