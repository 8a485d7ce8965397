"""What a store asks of a container to read from it: of an owner, and of a read-only open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from siltstone.container.garbage.garbage import GarbageVerbs, ReadGarbage
    from siltstone.container.health.monitor import ContainerHealth
    from siltstone.container.models.check import CheckOptions, ChunkState
    from siltstone.container.models.segments import (
        ChunkInfo,
        ContainerStats,
        Finding,
        SegmentInfo,
        TableValue,
        WriterInfo,
    )
    from siltstone.container.models.settings import CloseFlush
    from siltstone.container.models.tables import UpdatePage
    from siltstone.container.reads.pinned_maps import PinVerbs
    from siltstone.container.reads.reads import Reading
    from siltstone.container.reads.row_pages import RowPage
    from siltstone.container.retention.retention import ReadRetention, Retention
    from siltstone.container.state.table_snapshots import LivingSnapshot
    from siltstone.core.records.keys import RowKind
    from siltstone.segments.page_cache_reads import ReadPlace


class ReadCalls(Protocol):
    """The calls that both kinds of containers answer; for each see ``Container``.

    Attributes:
        pins: maps of segments, and the pins that keep their chunks.
    """

    pins: PinVerbs

    async def info(self, name: str) -> SegmentInfo:
        """What is acknowledged of a segment."""
        ...

    async def read(self, name: str, offset: int, length: int) -> bytes:
        """What there is of ``[offset, offset + length)``."""
        ...

    async def read_into(self, name: str, offset: int, buffer: memoryview) -> int:
        """Fill ``buffer`` from ``offset`` on; return the count."""
        ...

    def place(self, name: str, offset: int, end: int) -> ReadPlace | None:
        """Where flushed bytes lie, if that is known."""
        ...

    def tables_now(self) -> Reading | None:
        """What shows the tables, if it is as fresh as a call would be."""
        ...

    def moment(self) -> object:
        """Another object after every change of a row."""
        ...

    async def wait_for_length(self, name: str, offset: int, timeout_s: float) -> SegmentInfo:
        """Wait until the segment is longer than ``offset``, or sealed, or the time is over."""
        ...

    async def list_segments(
        self, prefix: str = "", start_after: str = "", limit: int = 1_000
    ) -> list[SegmentInfo]:
        """A page of segments."""
        ...

    async def chunks(self, name: str, start: int = 0, limit: int = 1_000) -> list[ChunkInfo]:
        """A page of a segment's chunks."""
        ...

    async def examine(self, name: str, start: int, limit: int, *, deep: bool) -> list[ChunkState]:
        """A page of a segment's chunks as storage has them."""
        ...

    async def writers(self, name: str) -> list[WriterInfo]:
        """The exactly-once writers of a segment."""
        ...

    async def offset_at(self, name: str, time_ms: int) -> int:
        """Where what was appended since a time begins."""
        ...

    async def table_get(self, table: str, key: bytes) -> TableValue | None:
        """The value of a key."""
        ...

    async def table_scan(
        self,
        table: str,
        start: bytes = b"",
        end: bytes | None = None,
        *,
        reverse: bool = False,
        limit: int = 1_000,
    ) -> list[tuple[bytes, TableValue]]:
        """A page of a table's rows."""
        ...

    async def table_snapshot(self, table: str, ttl_s: float) -> LivingSnapshot:
        """A table as it is now, for a while."""
        ...

    async def table_updates(self, table: str, after: int) -> UpdatePage:
        """A page of a table's updates."""
        ...

    async def wait_for_version(self, after: int, timeout_s: float) -> None:
        """Wait until something is acknowledged after ``after``, or the time is over."""
        ...

    async def table_version(self) -> int:
        """The newest table version that is acknowledged."""
        ...

    async def list_tables(
        self, prefix: str = "", start_after: str = "", limit: int = 1_000
    ) -> list[str]:
        """A page of tables."""
        ...

    async def rows(
        self, start: bytes, limit: int, *, kind: RowKind | None, segment: str | None
    ) -> RowPage:
        """A page of the metadata table."""
        ...

    async def written_adoption(self) -> str | None:
        """The adoption of the layout that is written; ``None`` when none is."""
        ...

    def check(self, wish: CheckOptions = ...) -> AsyncIterator[Finding]:
        """What is wrong, or worth knowing."""
        ...

    @property
    def garbage(self) -> GarbageVerbs | ReadGarbage:
        """What may be asked about garbage."""
        ...

    @property
    def retention(self) -> Retention | ReadRetention:
        """The rules by which segments are shortened."""
        ...

    @property
    def health(self) -> Callable[[], Awaitable[ContainerHealth]]:
        """The health of long-term storage."""
        ...

    def stats(self) -> ContainerStats:
        """The container at a glance."""
        ...

    async def close(self, flush: CloseFlush | None = None) -> None:
        """Free what it holds."""
        ...
