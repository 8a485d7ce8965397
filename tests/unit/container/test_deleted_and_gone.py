"""Deleted segments, empty segments, and chunks that are gone too early."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from siltstone.container.container import Container
from siltstone.core.chunk_names import data_prefix
from siltstone.core.errors import SegmentNotFoundError
from siltstone.core.records.task import TaskKind
from tests.support.container.container_world import Owner, World, pattern, with_settings, world

pytestmark = pytest.mark.virtual_time

SETTINGS = with_settings(
    chunk_bytes=300, garbage_delay_s=1.0, garbage_interval_s=1e6, flush_age_s=1e6
)

Call = Callable[[Container], Coroutine[Any, Any, object]]
CALLS: dict[str, Call] = {
    "append": lambda c: c.append("a", b"x"),  # type: ignore[dict-item, return-value]
    "read": lambda c: c.read("a", 0, 1),
    "info": lambda c: c.info("a"),
    "chunks": lambda c: c.chunks("a"),
    "flush": lambda c: c.flush("a"),
    "seal": lambda c: c.seal("a"),
    "truncate": lambda c: c.truncate("a", 0),
    "delete": lambda c: c.delete("a"),
    "writer": lambda c: c.register_writer("a", "w"),
    "concat to it": lambda c: c.concat("a", "b"),
    "concat of it": lambda c: c.concat("b", "a"),
}


@pytest.mark.parametrize("when", ["at once", "collected", "by the next owner"])
async def test_every_verb_on_a_deleted_segment(when: str) -> None:
    async with world(settings=SETTINGS) as there:
        owner = await there.open()
        for name in ("a", "b"):
            await owner.container.create(name)
            await owner.container.append(name, pattern(1, 700))
        await owner.container.seal("b")
        await owner.container.flush()
        await owner.container.delete("a")
        if when == "collected":
            await owner.container.collect()
        if when == "by the next owner":
            await there.crash(owner)
            owner = await there.open()
        for name, call in CALLS.items():
            if name == "concat of it":
                await owner.container.create("c")
                with pytest.raises(SegmentNotFoundError):
                    await owner.container.concat("c", "a")
                continue
            with pytest.raises(SegmentNotFoundError):
                await call(owner.container)
        await owner.container.create("a")
        assert await owner.container.append("a", b"again") == 0
        assert await owner.container.read("a", 0, 9) == b"again"
        await there.check(owner)
        await owner.container.close()


async def deleted(there: World) -> tuple[Owner, list[str]]:
    """An owner whose segment was deleted, and the chunks that it had."""
    owner = await there.open()
    await owner.container.create("a")
    await owner.container.append("a", pattern(1, 700))
    await owner.container.flush()
    await owner.container.delete("a")
    await owner.container.collect()
    names = there.names(data_prefix(0))
    assert len(names) == 3
    await owner.container.flush()
    await there.environment.sleep(5)
    return owner, names


def chunk_tasks(owner: Owner) -> int:
    return sum(task.kind is TaskKind.DELETE_CHUNK for task in owner.rows.tasks(2**62))


@pytest.mark.parametrize("gone", [[1], [0, 1, 2], []])
async def test_a_chunk_that_is_gone_already_needs_no_deletion(gone: list[int]) -> None:
    async with world(settings=SETTINGS) as there:
        owner, names = await deleted(there)
        assert chunk_tasks(owner) == 3
        for index in gone:
            there.new_storage().delete(names[index])
        assert await owner.container.collect() == 3
        assert chunk_tasks(owner) == 0
        assert there.names(data_prefix(0)) == []
        await there.check(owner)
        await owner.container.close()


async def test_owners_follow_one_another_over_a_segment_without_a_byte() -> None:
    async with world(settings=SETTINGS) as there:
        owner = await there.open()
        await owner.container.create("a")
        for number in range(3):
            await owner.container.flush("a")
            if number % 2:
                await owner.container.close()
            else:
                await there.crash(owner)
            reader = await there.open_reader()
            assert await reader.read("a", 0, 9) == b""
            await reader.close()
            owner = await there.open()
            assert (await owner.container.info("a")).length == 0
            assert await owner.container.chunks("a") == []
        assert there.names(data_prefix(0)) == []
        assert await owner.container.append("a", b"at last") == 0
        await owner.container.flush("a")
        (chunk,) = await owner.container.chunks("a")
        assert chunk.epoch == owner.container.epoch == 4
        await owner.container.close()
