"""Sealing closed chunks on the service, so that not even a paused owner appends to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from siltstone.core.chunk_storage import Capabilities
from siltstone.core.errors import SiltstoneError
from siltstone.core.layout_store import LayoutChange
from siltstone.core.records.chunk import Chunk
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.segments.chunk_state import Mishaps


def newly_closed(
    change: LayoutChange, chunk_of: Callable[[int], Chunk | None], capabilities: Capabilities
) -> tuple[Chunk, ...]:
    """Chunks that ``change`` closes and that the service can seal.

    Where nothing can be appended anyhow there is nothing to seal; adopted chunks are not ours.

    Args:
        change: not committed yet.
        chunk_of: rows before it.
        capabilities: of the service.
    """
    if not capabilities.seal or not capabilities.append:
        return ()
    found = []
    for chunk in change.chunks_put:
        if chunk.closed and not chunk.adopted:
            before = chunk_of(chunk.chunk_id)
            if before is None or not before.closed:
                found.append(chunk)
    return tuple(found)


async def seal_all(storage: AsyncChunkStorage, chunks: Iterable[Chunk], mishaps: Mishaps) -> None:
    """Seal chunks whose rows say closed. A failure is noted and is no error: the rows decide."""
    for chunk in chunks:
        try:
            await storage.seal(chunk.name)
        except SiltstoneError as error:
            mishaps.seal_failed(error)
        else:
            mishaps.seal_error = None
