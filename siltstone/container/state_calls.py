"""The calls of a container that change the state of a segment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from siltstone.container.changes.segment_changes import NewSegment
from siltstone.container.imports.record_sums import keep_sums, record_sums
from siltstone.container.models.segments import SegmentInfo, WriterInfo
from siltstone.core.records.segment_state import SegmentState

if TYPE_CHECKING:
    from siltstone.container.assembly import OwnerParts
    from siltstone.container.imports.adoptions import Adoptions
    from siltstone.container.imports.sessions import Imports
    from siltstone.container.models.legacy import LegacyLayout, LegacySegment
    from siltstone.core.records.chunk import Chunk


class StateCalls:
    """What an owned container does with segments but for their bytes; a part of ``Container``."""

    _parts: OwnerParts

    def _timed(self, verb: str) -> AbstractContextManager[None]:
        return self._parts.storage.metrics.timed(verb)

    async def create(
        self, name: str, *, exist_ok: bool = False, attributes: Mapping[str, str] | None = None
    ) -> SegmentInfo:
        """Make an empty segment, and tell of it; see ``SegmentVerbs.create``."""
        parts = self._parts
        made = await self.make(name, exist_ok=exist_ok, attributes=attributes)
        if made is None or parts.legacy.is_on:
            return parts.reading.info(name)
        segment_id, created_ms = made
        state = SegmentState(segment_id=segment_id, name=name, created_ms=created_ms)
        return parts.reading.info_of_new(state, attributes or {})

    async def make(
        self, name: str, *, exist_ok: bool = False, attributes: Mapping[str, str] | None = None
    ) -> NewSegment | None:
        """See ``SegmentVerbs.create``."""
        with self._timed("create"):
            return await self._parts.verbs.create(name, exist_ok=exist_ok, attributes=attributes)

    async def rename(self, name: str, new_name: str) -> None:
        """See ``SegmentVerbs.rename``."""
        await self._parts.verbs.rename(name, new_name)

    async def seal(self, name: str) -> SegmentInfo:
        """See ``SegmentVerbs.seal``."""
        with self._timed("seal"):
            await self._parts.verbs.seal(name)
        return self._parts.reading.info(name)

    async def truncate(self, name: str, offset: int) -> None:
        """See ``SegmentVerbs.truncate``."""
        if offset < 0:
            raise ValueError(f"offset must be at least 0, not {offset}")
        with self._timed("truncate"):
            await self._parts.verbs.truncate(name, offset)

    async def delete(self, name: str) -> None:
        """See ``SegmentVerbs.delete``."""
        with self._timed("delete"):
            await self._parts.verbs.delete(name)

    @property
    def imports(self) -> Imports:
        """The sessions in which others bring chunks."""
        return self._parts.imports

    @property
    def adoptions(self) -> Adoptions:
        """The objects that import sessions took in place."""
        return self._parts.adoptions

    async def record_sums(self, name: str, progress: Callable[[int], None]) -> int:
        """See ``record_sums.record_sums``."""
        parts = self._parts
        parts.pipeline.check_alive()
        return await record_sums(
            parts.pipeline, parts.reading, parts.segments, parts.storage, name, progress
        )

    async def keep_sums(self, chunk: Chunk, sums: Sequence[int]) -> None:
        """See ``record_sums.keep_sums``."""
        self._parts.pipeline.check_alive()
        await keep_sums(self._parts.pipeline, chunk, sums)

    async def begin_legacy(self, layout: LegacyLayout, segments: Sequence[LegacySegment]) -> None:
        """See ``LegacyWriter.begin``."""
        await self._parts.legacy.begin(layout, segments, self._parts.storage)

    async def end_legacy(self) -> None:
        """See ``LegacyWriter.end``."""
        await self._parts.legacy.end()

    async def legacy_adoption(self) -> str | None:
        """See ``LegacyWriter.adoption``."""
        return self._parts.legacy.adoption

    async def register_writer(self, name: str, writer: str) -> WriterInfo:
        """See ``SegmentVerbs.register_writer``."""
        return await self._parts.verbs.register_writer(name, writer)
