"""Deleting many chunks: in few requests where the service can, else one by one, some at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from siltstone.core.errors import ChunkError, ChunkNotFoundError
from siltstone.core.storage.async_storage import AsyncChunkStorage

DELETIONS_PARALLEL = 8


async def delete_chunks(storage: AsyncChunkStorage, names: Sequence[str]) -> dict[str, ChunkError]:
    """Delete chunks; return the error of each one that may still be there.

    What is not there any more was deleted by an earlier attempt.
    """
    step = storage.capabilities.bulk_delete_max
    if step == 1:
        return await _one_by_one(storage, names)
    failed: dict[str, ChunkError] = {}
    for begin in range(0, len(names), step):
        part = names[begin : begin + step]
        try:
            failed.update(await storage.delete_many(part))
        except ChunkError as error:
            failed.update(dict.fromkeys(part, error))
    return failed


async def delete_in_order(
    storage: AsyncChunkStorage, names: Sequence[str]
) -> dict[str, ChunkError]:
    """Delete chunks one after the other, so that what is left at any moment are the last ones."""
    failed: dict[str, ChunkError] = {}
    for name in names:
        failed.update(await delete_chunks(storage, [name]))
    return failed


async def _one_by_one(storage: AsyncChunkStorage, names: Sequence[str]) -> dict[str, ChunkError]:
    limit = asyncio.Semaphore(DELETIONS_PARALLEL)
    failed: dict[str, ChunkError] = {}

    async def one(name: str) -> None:
        async with limit:
            try:
                await storage.delete(name)
            except ChunkNotFoundError:
                return
            except ChunkError as error:
                failed[name] = error

    try:
        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(one(name))
    except ExceptionGroup as ended:
        # Not a failed deletion, but the end of the container: the caller gets that error.
        raise ended.exceptions[0] from ended
    return failed
