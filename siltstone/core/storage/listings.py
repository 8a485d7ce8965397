"""Listings of long-term storage, page by page: other work is done between two calls."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from siltstone.core.chunk_storage import ChunkStat
from siltstone.core.storage.async_storage import AsyncChunkStorage

LISTING_PAGE: Final = 1_000
"""As many as most services give by one request."""


async def listed_pages(
    storage: AsyncChunkStorage, prefix: str, limit: int = LISTING_PAGE
) -> AsyncIterator[list[ChunkStat]]:
    """Yield all chunks below ``prefix`` in the order of names, up to ``limit`` by one call.

    Raises:
        ChunkError: long-term storage did not answer.
    """
    start_after = ""
    while page := await storage.list(prefix, start_after, limit):
        yield page
        if len(page) < limit:
            return
        start_after = page[-1].name


async def listed(
    storage: AsyncChunkStorage, prefix: str, limit: int = LISTING_PAGE
) -> AsyncIterator[ChunkStat]:
    """Yield the same one by one."""
    async for page in listed_pages(storage, prefix, limit):
        for stat in page:
            yield stat
