"""Pages of a segment that is deleted between two pages, and whose name another one gets."""

from __future__ import annotations

from pathlib import Path

import pytest

import siltstone
from siltstone.container.reader import read_container
from siltstone.core.errors import SegmentNotFoundError
from siltstone.store.async_store import AsyncStore
from siltstone.store.handles import async_segment
from tests.support.stores import make_store


async def fill(store: AsyncStore, count: int) -> None:
    segment = await store.create("a")
    for _ in range(count):
        await segment.append(b"x" * 1_000)
        await segment.flush()


@pytest.mark.slow
@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("verb", ["chunks", "examine"])
async def test_runs_of_one_segment_are_never_followed_by_those_of_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, *, read_only: bool
) -> None:
    for name in ("PAGE_COUNT", "EXAMINED_COUNT"):
        monkeypatch.setattr(async_segment, name, 2)
    monkeypatch.setattr(read_container, "POLL_S", 0.0)  # each look reads anew
    folder = make_store(tmp_path / "store", chunk_bytes=1_000, containers=1)
    async with await siltstone.open_async(folder) as store:
        await fill(store, 4)
        async with await siltstone.open_async(folder, read_only=True) as reader:
            segment = (reader if read_only else store).segment("a")
            pages = getattr(segment, verb)()
            await anext(pages)
            await store.segment("a").delete()
            await fill(store, 6)
            with pytest.raises(SegmentNotFoundError, match="made again"):
                async for _ in pages:
                    pass
