"""How an owner ends: what it frees in which order, and what it says when something hangs."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import Final

from siltstone.container.close.last_statement import state_end
from siltstone.container.owner_parts import OwnerParts
from siltstone.core.errors import ChunkUnavailableError, Outcome
from siltstone.core.storage.uncancellable import closed_in_time
from siltstone.metadata.checkpoint import INDEX_POOL

logger = logging.getLogger(__name__)

NAMES_MAX: Final = 3
"""Segments that an error names; more names would add nothing."""


async def end_owner(
    parts: OwnerParts, background: asyncio.Future[None] | None, pipeline: asyncio.Future[None]
) -> None:
    """Send what was assigned, then free everything, also when a part of it fails or hangs.

    Args:
        parts: of the container.
        background: its background work, which was told to stop.
        pipeline: runs the commit pipeline.

    Raises:
        LogError: a call to tier 1 hangs: what was on its way there may be durable.
        ChunkUnavailableError: a call to long-term storage hangs, and not everything is flushed.
    """
    ended = asyncio.ensure_future(_ended(parts, background, pipeline))
    await parts.pipeline.calls.wait(ended)
    _tell(parts, await ended)


async def _ended(
    parts: OwnerParts, background: asyncio.Future[None] | None, pipeline: asyncio.Future[None]
) -> int:
    """End an owner; return how many calls to long-term storage hung before the last statement."""
    hanging = 0

    async def state() -> None:
        nonlocal hanging
        hanging = parts.storage.hanging
        await state_end(parts)

    async with AsyncExitStack() as stack:
        stack.push_async_callback(parts.storage.close)
        stack.push_async_callback(
            closed_in_time, parts.environment, INDEX_POOL, parts.index.close, "the local index"
        )
        stack.push_async_callback(parts.pipeline.close_log)
        stack.callback(parts.pipeline.shut)
        stack.push_async_callback(parts.segments.close)
        stack.push_async_callback(state)
        stack.push_async_callback(_sent, parts, pipeline)
        if background is not None:
            await background
            # Cancelled work may have made chunks that nothing names.
            await parts.segment_flusher.hand_over_abandoned()
    return hanging


async def _sent(parts: OwnerParts, pipeline: asyncio.Future[None]) -> None:
    """Send what was assigned, then end."""
    parts.pipeline.stop()
    await pipeline


def _tell(parts: OwnerParts, hanging: int) -> None:
    """Say what calls that hang have left in tier 1, if anything."""
    replica, storage = parts.pipeline.replica, parts.storage
    if not hanging:
        return
    dirty = list(replica.dirty.values())
    error = ChunkUnavailableError(
        "closed while calls to long-term storage hang; "
        "what is acknowledged and not flushed is safe in tier 1",
        chunk="",
        operation="close",
        outcome=Outcome.UNKNOWN,
        container=parts.container,
        calls=hanging,
        unflushed_bytes=replica.unflushed_bytes,
        unflushed_table_bytes=replica.table_tail.size,
        segments=",".join(segment.name for segment in dirty[:NAMES_MAX]),
        storage=storage.place,
    )
    if not dirty and not replica.table_tail.size:
        logger.warning("%s", error)
        return
    raise error
