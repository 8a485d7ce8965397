"""Long scans in a reader: it may start again meanwhile, and there may be much to scan."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, cast

import pytest

from siltstone.container.check.checker import ContainerSnapshot, _check_system
from siltstone.core.errors import ClosedError
from siltstone.core.records.checkpoint import SystemLayout
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.layout import Layout
from tests.support.container.container_world import pattern, world


@pytest.mark.parametrize("verb", ["check", "sweep"])
@pytest.mark.virtual_time
async def test_a_reader_that_starts_again_continues_looking(
    verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world() as made:
        for number in range(3):
            owner = await made.open()
            name = f"s{number}"
            await owner.container.create(name)
            await owner.container.append(name, pattern(number, 20_000))
            await owner.container.flush()
            await owner.container.close()
        reader = await made.open_reader()
        plain = reader._storage.list

        async def listing(*arguments: Any) -> Any:
            """Each listing of the scan ends with a fresh start by another call."""
            found = await plain(*arguments)
            if not reader._lock.locked():
                async with reader._lock:
                    await reader._start()
            return found

        async def starting() -> None:
            while True:
                await made.environment.sleep(0.3)
                async with reader._lock:
                    await reader._start()

        monkeypatch.setattr(reader._storage, "list", listing)
        made.environment.latency = lambda pool, chance: 1.0 if "chunks" in pool.name else 0.0
        others = asyncio.create_task(starting() if verb == "check" else asyncio.sleep(0))
        looked: Any = reader.check() if verb == "check" else reader.garbage.sweep(all_epochs=True)
        found = [finding async for finding in looked]
        assert reader._generation > 2
        others.cancel()
        await asyncio.gather(others, return_exceptions=True)
        assert not [f for f in found if getattr(f, "severity", "") == "damage"], found
        await reader.close()


@pytest.mark.virtual_time
async def test_a_reader_that_starts_again_continues_counting_garbage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with world() as made:
        owner = await made.open()
        await owner.container.create("a")
        await owner.container.append("a", pattern(1, 20_000))
        await owner.container.flush()
        await owner.container.delete("a")
        await owner.container.flush()
        reader = await made.open_reader()
        plain = reader._storage.list

        async def listing(*arguments: Any) -> Any:
            """The first listing ends with a fresh start by another call."""
            found = await plain(*arguments)
            if reader._generation == 1:
                async with reader._lock:
                    await reader._start()
            return found

        monkeypatch.setattr(reader._storage, "list", listing)
        status = await reader.garbage.status()
        assert reader._generation == 2
        assert status.due + status.delayed + status.uncovered > 0
        await reader.close()
        with pytest.raises(ClosedError):
            await reader.garbage.status()
        await owner.container.close()


class Counted(tuple[Chunk, ...]):
    """Chunks that count how often all of them are walked through."""

    walks = 0

    def __iter__(self) -> Iterator[Chunk]:
        Counted.walks += 1
        return super().__iter__()


async def test_chunks_of_the_table_log_are_not_gone_through_for_each_of_them() -> None:
    chunks = Counted(
        Chunk(chunk_id=number, name=f"c{number}", epoch=1, length=1, references=1)
        for number in range(1, 2_001)
    )
    layout = SystemLayout(layout=Layout(segment_id=1), extents=(), chunks=chunks, sums=())
    verified = []

    class Segments:
        async def verify_chunk(self, chunk: Chunk, *, deep: bool) -> None:
            verified.append(chunk.chunk_id)

    present = ContainerSnapshot(
        reading=cast(Any, None),
        segments=cast(Any, None),
        system=cast(Any, Segments()),
        layouts=(layout,),
        checkpoint=None,
    )

    async def look() -> ContainerSnapshot:
        return present

    findings = _check_system(look, present, cast(Any, None), deep=False)
    assert [finding async for finding in findings] == []
    assert verified == list(range(1, 2_001))
    assert Counted.walks <= 3
