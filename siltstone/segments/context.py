"""What every operation is given, and the few steps that several of them share."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from siltstone.core.chunk_storage import UNLIMITED
from siltstone.core.constants import TABLE_LOG_ID
from siltstone.core.errors import CorruptDataError, OffsetError, SegmentNotFoundError
from siltstone.core.layout_store import LayoutChange, LayoutStore
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.layout import Layout
from siltstone.core.records.segment_state import SegmentState
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.core.storage.block_reads import SCRATCH, Scratch
from siltstone.core.storage.late_work import finish
from siltstone.segments.chunk_state import ChunkMemory, Mishaps
from siltstone.segments.read_ahead import ReadAhead
from siltstone.segments.seal import newly_closed, seal_all
from siltstone.segments.settings import SegmentStorageSettings
from siltstone.segments.verified_blocks import VerifiedBlocks


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The tools of an operation.

    Attributes:
        storage: where chunks lie.
        layouts: the rows.
        settings: how to cut and how to verify.
        blocks: blocks that were verified a short while ago.
        memory: what is known of chunks beyond their rows.
        mishaps: what went wrong without being an error.
        ahead: what is read ahead for sequential readers.
        scratch: buffers for blocks of which only a part is wanted.
        sharing: held from plan to commit by an operation that changes the references of a chunk
            that extents of several segments name; their own locks do not keep them apart.
    """

    storage: AsyncChunkStorage
    layouts: LayoutStore
    settings: SegmentStorageSettings
    blocks: VerifiedBlocks
    memory: ChunkMemory
    ahead: ReadAhead
    mishaps: Mishaps = field(default_factory=Mishaps)
    scratch: Scratch = SCRATCH
    sharing: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def chunk_bytes(self) -> int:
        """A chunk of this many bytes is full."""
        return min(self.settings.chunk_bytes, self.storage.capabilities.chunk_bytes_max)

    def moved(self, length: int) -> int:
        """Bytes that a write of ``length`` moves, there and back if it is read back."""
        return 2 * length if self.settings.read_back else length

    def takes_appends(self, chunk_id: int) -> bool:
        """Whether the service lets a chunk of this owner be written again."""
        capabilities = self.storage.capabilities
        if not capabilities.append:
            return False
        if capabilities.appends_max == UNLIMITED:
            return True
        writes = self.memory.writes(chunk_id)
        return writes is not None and writes < capabilities.appends_max

    def live_state(self, segment_id: int) -> SegmentState:
        """The state of a segment that is not deleted. Raises ``SegmentNotFoundError``."""
        state = self.layouts.state(segment_id)
        if state is None or state.deleted:
            raise self.not_found(segment_id)
        return state

    def layout_ending_at(self, state: SegmentState, offset: int) -> Layout:
        """The layout of a segment that is flushed up to ``offset``. Raises ``OffsetError``."""
        layout = self.layouts.layout(state.segment_id)
        if offset != layout.storage_length:
            raise OffsetError(
                "write is not at the flushed length",
                segment=state.name,
                expected=layout.storage_length,
                actual=offset,
            )
        return layout

    def not_found(self, segment_id: int) -> SegmentNotFoundError:
        """The error for a segment that is deleted or gone."""
        state = self.layouts.state(segment_id)
        name = f"#{segment_id}" if state is None else state.name
        return SegmentNotFoundError("segment was deleted", segment=name, id=segment_id)

    def chunk(self, chunk_id: int) -> Chunk:
        """The row of a chunk that an extent names. Raises ``CorruptDataError`` without one."""
        chunk = self.layouts.chunk(chunk_id)
        if chunk is None:
            raise CorruptDataError("I17: an extent names no chunk", where=f"chunk {chunk_id}")
        return chunk

    async def commit(self, change: LayoutChange) -> bool:
        """Commit ``change``; on success forget what its rows now say, and seal what it closed.

        A cancelled caller waits for the end first, so that what it does next starts from the truth.
        """
        closed = newly_closed(change, self.layouts.chunk, self.storage.capabilities)
        committed = await finish(asyncio.ensure_future(self._commit(change)))
        if committed:
            await seal_all(self.storage, closed, self.mishaps)
        return committed

    async def _commit(self, change: LayoutChange) -> bool:
        segments = "system" if change.segment_id == TABLE_LOG_ID else "user"
        with self.storage.metrics.timed("commit", segments=segments):
            committed = await self.layouts.commit(change)
        if committed:
            gone = [chunk.chunk_id for chunk in change.chunks_dropped]
            closed = [chunk.chunk_id for chunk in change.chunks_put if chunk.closed]
            self.memory.forget(gone + closed)
            after = change.after
            is_open = after is not None and after.last_chunk_id != 0
            self.memory.note_end(change.segment_id, is_open=is_open)
            for segment_id in change.layouts_removed:
                self.memory.note_end(segment_id, is_open=False)
        return committed
