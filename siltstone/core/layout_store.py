"""The contract between the segment layer and what keeps layouts.

Two implementations exist: table rows (``siltstone.metadata``) for the segments of applications, and
the pinned, journalled one (``siltstone.journal``) for system segments. An operation on a system
segment gets the second and therefore cannot write the table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent
from siltstone.core.records.layout import Layout
from siltstone.core.records.layout_change import LayoutChange as LayoutChange
from siltstone.core.records.segment_state import SegmentState


@dataclass(frozen=True, slots=True, kw_only=True)
class NewChunk:
    """A reserved id and the name that goes with it. Never used before, never used again."""

    chunk_id: int
    name: str


class LayoutStore(Protocol):
    """Layouts of segments. Reads show what was acknowledged, quickly and without network I/O."""

    @property
    def epoch(self) -> int:
        """The epoch that new chunks belong to; chunks of other epochs are never appended to."""
        ...

    def state(self, segment_id: int) -> SegmentState | None:
        """The segment's newest assigned state, or ``None`` when its rows are gone."""
        ...

    def layout(self, segment_id: int) -> Layout:
        """The layout row; an empty layout at 0 when there is none yet."""
        ...

    def floor(self, segment_id: int, offset: int) -> Extent | None:
        """The extent with the greatest start that is not above ``offset``, which is from 0 on."""
        ...

    def extents(self, segment_id: int, start: int, end: int, limit: int) -> list[Extent]:
        """Extents that intersect ``[start, end)``, in order, at most ``limit``."""
        ...

    def chunk(self, chunk_id: int) -> Chunk | None:
        """The chunk row."""
        ...

    def sums(self, chunk_id: int, group: int) -> tuple[int, ...]:
        """CRC32C of the blocks of one group, the last one up to the chunk's committed length."""
        ...

    async def new_chunk(self, segment_id: int, start: int) -> NewChunk:
        """Reserve a chunk for bytes of the segment from ``start`` on. Durable before it returns."""
        ...

    async def commit(self, change: LayoutChange) -> bool:
        """Apply ``change``, acknowledged; ``False`` if it needs a live segment and has none.

        Raises:
            LogError: the log failed; the change may or may not be durable, this owner must stop.
        """
        ...


class PackingLayoutStore(LayoutStore, Protocol):
    """A ``LayoutStore`` whose segments may share chunks: that of the segments of applications.

    The chunks of a system segment are its own, so its store has no such methods.
    """

    async def new_shared_chunk(self, count: int) -> NewChunk:
        """Reserve a chunk for ``count`` runs of segments. Durable before it returns."""
        ...

    async def commit_all(
        self, plan: Callable[[], tuple[LayoutChange, ...]]
    ) -> tuple[LayoutChange, ...]:
        """Apply the changes that ``plan`` returns, all in one transaction, acknowledged.

        ``plan`` is called at the moment of the transaction, so that the transaction rests on
        exactly the states that it reads; it may be called again if that one had no room. Without
        changes there is no transaction.

        Returns:
            What was applied.

        Raises:
            LogError: the log failed; the changes may or may not be durable, this owner must stop.
        """
        ...
