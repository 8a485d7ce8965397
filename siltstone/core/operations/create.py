"""Making one new chunk, durably, under another name for as long as outcomes are unknown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from siltstone.core.block_sums import extend_sums
from siltstone.core.chunk_storage import Buffer, ChunkStorage
from siltstone.core.errors import (
    ChunkError,
    ChunkExistsError,
    ChunkReadBackError,
    ChunkStorageFullError,
    Outcome,
)
from siltstone.core.layout_store import NewChunk
from siltstone.core.operations.context import Context
from siltstone.core.operations.read_back import read_back

CREATE_ATTEMPTS = 3
"""Names that are burnt for one chunk before its write fails."""


async def create_chunk(
    context: Context, new_chunk: Callable[[], Awaitable[NewChunk]], buffers: Sequence[Buffer]
) -> tuple[NewChunk, list[int]]:
    """Make a chunk of ``buffers``; return it and the sums of its blocks.

    Args:
        context: the tools.
        new_chunk: reserves an id and a name.
        buffers: its bytes.

    Raises:
        ChunkError: storage failed, several times if the outcome was unknown. Names that may exist
            were abandoned.
    """
    length = sum(len(buffer) for buffer in buffers)
    attempts = 0
    while True:
        new = await new_chunk()
        attempts += 1

        def call(storage: ChunkStorage, name: str = new.name) -> list[int]:
            sums = extend_sums(buffers, 0, 0)
            storage.create(name, buffers)
            if context.settings.read_back:
                read_back(storage, name, 0, length, 0, sums)
            return sums

        try:
            return new, await context.storage.run(
                "create", new.name, call, length=length, moved=context.moved(length)
            )
        except ChunkError as error:
            burnt = error.outcome is Outcome.UNKNOWN
            if burnt:
                context.memory.abandon([new])
            if isinstance(error, ChunkReadBackError):
                context.mishaps.read_back_failed(error)
            again = burnt or isinstance(error, ChunkExistsError)
            full = isinstance(error, ChunkStorageFullError)
            if not again or full or attempts == CREATE_ATTEMPTS:
                raise
        except BaseException:  # cancelled: the call may still be on its way
            context.memory.abandon([new])
            raise
