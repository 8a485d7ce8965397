"""A listing of long-term storage comes page by page, each chunk once."""

from __future__ import annotations

from typing import cast

import pytest

from siltstone.core.chunk_storage import ChunkStat
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.core.storage.listings import listed, listed_pages


class Listing:
    """The listing of long-term storage; it notes where each call began."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.begun: list[str] = []

    async def list(self, prefix: str, start_after: str, limit: int) -> list[ChunkStat]:
        self.begun.append(start_after)
        found = [n for n in self.names if n.startswith(prefix) and n > start_after]
        return [
            ChunkStat(name=name, length=1, version="1", modified_s=0.0) for name in found[:limit]
        ]


@pytest.mark.parametrize("count", range(6))
async def test_every_chunk_comes_once_and_no_call_is_made_after_a_page_that_is_not_full(
    count: int,
) -> None:
    names = [f"a/{index}" for index in range(count)]
    storage = Listing([*names, "b/9"])

    stats = listed(cast("AsyncChunkStorage", storage), "a/", 2)
    assert [stat.name async for stat in stats] == names
    assert len(storage.begun) == count // 2 + 1


async def test_what_goes_while_a_page_is_looked_at_is_not_listed_again() -> None:
    storage = Listing(["a/1", "a/2", "a/3"])

    pages = []
    async for page in listed_pages(cast("AsyncChunkStorage", storage), "a/", 2):
        pages.append([stat.name for stat in page])
        storage.names.clear()
    assert pages == [["a/1", "a/2"]]
    assert storage.begun == ["", "a/2"]
