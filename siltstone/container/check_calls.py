"""The calls of an owned container that look whether all is as it should be."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from siltstone.container.check.checker import ContainerSnapshot, check_container
from siltstone.container.check.examine import examine_chunks
from siltstone.container.models.check import CheckOptions, ChunkState
from siltstone.container.models.segments import ContainerStats, Finding
from siltstone.container.reads.row_pages import RowPage, row_page
from siltstone.core.records.keys import RowKind

if TYPE_CHECKING:
    from siltstone.container.assembly import OwnerParts
    from siltstone.container.reads.reads import Reading
    from siltstone.segments.segment_storage import ChunkedSegmentStorage

_DEEP = CheckOptions()


class CheckCalls:
    """What an owned container tells of its own state; a part of ``Container``."""

    _parts: OwnerParts

    def _reading(self) -> Reading:
        raise NotImplementedError

    def stats(self) -> ContainerStats:
        """The container at a glance."""
        raise NotImplementedError

    async def check(self, wish: CheckOptions = _DEEP) -> AsyncIterator[Finding]:
        """Check every row and every chunk; yield what is wrong or worth knowing."""
        if not wish.after:
            for warning in self.stats().warnings:
                yield Finding(severity="warning", where="journal", message=warning)
        async for finding in check_container(self._present, lambda: self._parts.ground, wish):
            yield finding

    async def examine(self, name: str, start: int, limit: int, *, deep: bool) -> list[ChunkState]:
        """See ``examine_chunks``."""
        parts = self._parts

        async def look() -> tuple[Reading, ChunkedSegmentStorage]:
            return self._reading(), parts.segments

        return await examine_chunks(look, parts.storage, name, start, limit, deep=deep)

    async def rows(
        self, start: bytes, limit: int, *, kind: RowKind | None, segment: str | None
    ) -> RowPage:
        """See ``row_page``."""
        index = self._parts.container
        return row_page(self._reading(), index, start, limit, kind=kind, segment=segment)

    async def _present(self) -> ContainerSnapshot:
        parts = self._parts
        checkpoints = parts.journal.checkpoints
        return ContainerSnapshot(
            reading=self._reading(),
            segments=parts.segments,
            system=parts.system,
            layouts=parts.pinned.snapshot(),
            checkpoint=checkpoints[-1].checkpoint if checkpoints else None,
        )
