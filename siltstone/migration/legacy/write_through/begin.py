"""The beginning of write-through: rows say which segments continue in the layout, and how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from siltstone.container.commit.pipeline import Pipeline
from siltstone.container.flush.write_through_hooks import WriteThroughHooks, WriteThroughOwner
from siltstone.core.checksums import crc32c
from siltstone.core.constants import ROWS_PER_SLICE
from siltstone.core.errors import CapabilityError, SegmentNotFoundError, StoreError
from siltstone.core.records.adoption_row import AdoptionRow
from siltstone.core.records.keys import CounterKind
from siltstone.core.records.legacy_row import NEW_SEGMENTS, LegacyRow
from siltstone.core.records.table_record import TableEntry
from siltstone.metadata.adoption_rows import adoption_pages, put_adoption
from siltstone.metadata.changes import put_counter
from siltstone.metadata.legacy_rows import put_legacy
from siltstone.migration.legacy.write_through.hooks import LegacyWriter
from siltstone.migration.legacy.write_through.layout import can_be_written
from siltstone.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacySegment:
    """A segment whose files are chunks in place, and how its layout continues.

    Attributes:
        name: in the store.
        source: in the layout.
        rolling_bytes: a file with this many bytes gets no more; at least 1.
        suffix: what stands after the names of its files.
        header: the bytes of its header; ``None`` when it has none.
        listed: key, below the prefix, of an empty last file that the header lists; else empty.
        bare: whether it has bytes and no header lists them.
        sealed: whether the files say that it is sealed.
    """

    name: str
    source: str
    rolling_bytes: int
    suffix: str = ""
    header: bytes | None = None
    listed: str = ""
    bare: bool = False
    sealed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyLayout:
    """A legacy layout in which a store is to continue to write.

    Attributes:
        adoption: that its files belong to.
        prefix: of their keys on long-term storage; empty, or with ``/`` at its end.
        under: what names in the store begin with.
        rolling_bytes: of new segments.
        suffix: of the files of new segments.
    """

    adoption: str
    prefix: str
    under: str
    rolling_bytes: int
    suffix: str = ""


def begin_write_through(
    store: Store, layout: LegacyLayout, segments: Sequence[LegacySegment]
) -> None:
    """Write in a legacy layout from now on, segments that are made later too. Repeatable.

    Args:
        store: open, and owned with all of its containers.
        layout: where, and how names begin that belong to it.
        segments: those that are there, all of them in place.

    Raises:
        CapabilityError: this service cannot do what that takes; nothing was done.
        StoreError: another layout is written already.
        SegmentNotFoundError: a segment is not there.
        LogError, OutcomeUnknownError: whether it took place is unknown; a repeat continues.
    """

    async def begin(owner: WriteThroughOwner, hooks: WriteThroughHooks) -> WriteThroughHooks:
        index = owner.container
        mine = [one for one in segments if store.container_index(one.name) == index]
        return await _begun(owner, hooks, layout, mine)

    store.begin_write_through(begin)


async def _begun(
    owner: WriteThroughOwner,
    hooks: WriteThroughHooks,
    layout: LegacyLayout,
    segments: Sequence[LegacySegment],
) -> WriteThroughHooks:
    """State the rows of one container; return its hooks."""
    pipeline = owner.context.pipeline
    if not can_be_written(owner.context.storage.capabilities):
        raise CapabilityError(
            "this service cannot write a legacy layout: files of it grow, and are sealed"
        )
    if hooks.adoption is not None:
        if hooks.adoption != layout.adoption:
            raise StoreError("the store writes another legacy layout", adoption=hooks.adoption)
        await pipeline.barrier()
        return hooks
    session_id = await _session(pipeline, layout.adoption)
    entries: list[TableEntry] = []
    for one in segments:
        segment_id = pipeline.replica.rows.pending_find(one.name)
        if segment_id is None:
            raise SegmentNotFoundError("no such segment", segment=one.name)
        entries.append(put_legacy(_row(layout, one, segment_id, session_id)))
    new = LegacyRow(
        segment_id=NEW_SEGMENTS,
        session_id=session_id,
        rolling_bytes=layout.rolling_bytes,
        prefix=layout.prefix,
        source=layout.under,
        suffix=layout.suffix,
    )
    # Last, for this one lets the others count.
    entries.append(put_legacy(new))
    for begin in range(0, len(entries), ROWS_PER_SLICE):
        await pipeline.update(entries[begin : begin + ROWS_PER_SLICE])
    return LegacyWriter(owner, new)


async def _session(pipeline: Pipeline, adoption: str) -> int:
    """A session whose objects belong to the adoption; made if there is none."""
    for page in adoption_pages(pipeline.replica.tables):
        for row in page:
            if row.adoption == adoption:
                return row.session_id
    session_id = pipeline.replica.rows.pending_counter(CounterKind.SEGMENT_ID)
    await pipeline.update(
        [
            put_counter(CounterKind.SEGMENT_ID, session_id + 1),
            put_adoption(AdoptionRow(session_id=session_id, adoption=adoption)),
        ]
    )
    return session_id


def _row(
    layout: LegacyLayout, segment: LegacySegment, segment_id: int, session_id: int
) -> LegacyRow:
    header = segment.header or b""
    return LegacyRow(
        segment_id=segment_id,
        session_id=session_id,
        rolling_bytes=segment.rolling_bytes,
        prefix=layout.prefix,
        source=segment.source,
        suffix=segment.suffix,
        header_length=len(header),
        header_crc=crc32c(header),
        listed=segment.listed,
        bare=segment.bare,
        sealed=segment.sealed,
    )
