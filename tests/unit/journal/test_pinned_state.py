"""What a change may do to a layout, as a table of cases."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from siltstone.core.constants import BLOCK_BYTES, GROUP_BLOCKS
from siltstone.core.records.block_sums import BlockSumsPatch
from siltstone.core.records.checkpoint import SystemLayout
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent
from siltstone.core.records.layout import Layout
from siltstone.core.records.layout_change import LayoutChange
from siltstone.journal.pinned_state import Pinned, apply_change, check_system_layout


def extent(start: int, chunk_id: int, length: int, chunk_offset: int = 0) -> Extent:
    return Extent(
        segment_id=0, start=start, chunk_id=chunk_id, chunk_offset=chunk_offset, length=length
    )


def chunk(chunk_id: int, length: int) -> Chunk:
    return Chunk(chunk_id=chunk_id, name=f"chunk-{chunk_id}", epoch=1, length=length)


def sums(chunk_id: int, *values: int, first: int = 0, group: int = 0) -> BlockSumsPatch:
    return BlockSumsPatch(chunk_id=chunk_id, group=group, first_block=first, sums=values)


ONE = SystemLayout(
    layout=Layout(segment_id=0, storage_start=10, storage_length=60, last_chunk_id=6),
    extents=(extent(10, 5, 30), extent(40, 6, 20)),
    chunks=(chunk(5, 30), chunk(6, 20)),
    sums=(sums(5, 55), sums(6, 66)),
)
PINNED: Pinned = (ONE,)
APPENDED = replace(ONE.layout, storage_length=70)
APPEND = LayoutChange(
    segment_id=0,
    before=ONE.layout,
    after=APPENDED,
    extents_put=(extent(40, 6, 30),),
    chunks_put=(chunk(6, 30),),
    sums=(sums(6, 67),),
)
TRIM = LayoutChange(
    segment_id=0,
    before=ONE.layout,
    after=replace(ONE.layout, storage_start=40),
    extents_removed=(ONE.extents[0],),
    chunks_dropped=(ONE.chunks[0],),
)


def test_append_and_trim() -> None:
    (appended,) = apply_change(PINNED, APPEND)
    assert appended.extents == (extent(10, 5, 30), extent(40, 6, 30))
    assert appended.sums == (sums(5, 55), sums(6, 67))
    (trimmed,) = apply_change(PINNED, TRIM)
    assert trimmed.chunks == (chunk(6, 20),)
    assert trimmed.sums == (sums(6, 66),)
    assert PINNED == (ONE,)


def test_a_second_segment_stands_next_to_the_first() -> None:
    change = LayoutChange(segment_id=7, before=Layout(segment_id=7), after=Layout(segment_id=7))
    assert [system.layout.segment_id for system in apply_change(PINNED, change)] == [0, 7]


def test_sums_of_a_large_chunk_stand_in_groups() -> None:
    blocks = GROUP_BLOCKS + 2
    length = blocks * BLOCK_BYTES - 1
    change = LayoutChange(
        segment_id=0,
        before=Layout(segment_id=0),
        after=Layout(segment_id=0, storage_length=length, last_chunk_id=1),
        extents_put=(extent(0, 1, length),),
        chunks_put=(chunk(1, length),),
        sums=(sums(1, *range(GROUP_BLOCKS)), sums(1, 7, 8, group=1)),
    )
    assert apply_change((), change)[0].sums == change.sums
    with pytest.raises(ValueError, match="do not cover"):
        apply_change((), replace(change, sums=change.sums[:1]))


CASES = {
    "another state": replace(APPEND, before=Layout(segment_id=0)),
    "removal of the layout": replace(APPEND, after=None),
    "layout of another segment": replace(APPEND, after=replace(ONE.layout, segment_id=1)),
    "gap at the end": replace(APPEND, after=replace(ONE.layout, storage_length=71)),
    "gap at the start": replace(TRIM, after=replace(ONE.layout, storage_start=39)),
    "overlap": replace(APPEND, extents_put=(extent(39, 6, 31),)),
    "extent of another segment": replace(
        APPEND, extents_put=(replace(extent(40, 6, 30), segment_id=3),)
    ),
    "extent beyond its chunk": replace(APPEND, chunks_put=()),
    "extent of an unknown chunk": replace(APPEND, extents_put=(extent(40, 9, 30),)),
    "removal of an extent that is not there": replace(TRIM, extents_removed=(extent(10, 5, 29),)),
    "removal of an extent at another start": replace(TRIM, extents_removed=(extent(11, 5, 29),)),
    "drop of an unknown chunk": replace(TRIM, chunks_dropped=(chunk(7, 30),)),
    "drop of a chunk that is not there": replace(TRIM, chunks_dropped=(chunk(5, 29),)),
    "chunk without an extent": replace(TRIM, chunks_dropped=()),
    "wrong references": replace(APPEND, chunks_put=(replace(chunk(6, 30), references=2),)),
    "shorter chunk": replace(APPEND, chunks_put=(chunk(6, 30), chunk(5, 29))),
    "another name": replace(APPEND, chunks_put=(replace(chunk(6, 30), name="other"),)),
    "another epoch": replace(APPEND, chunks_put=(replace(chunk(6, 30), epoch=2),)),
    "unknown last chunk": replace(APPEND, after=replace(APPENDED, last_chunk_id=9)),
    "gap in the sums": replace(APPEND, sums=(sums(6, 1, first=2),)),
    "too many sums": replace(APPEND, sums=(sums(6, 1, 2),)),
    "sums of an unknown chunk": replace(APPEND, sums=(sums(8, 1),)),
}


MESSAGES = {
    "another state": "planned on Layout(segment_id=0, storage_start=0,",
    "removal of the layout": "a system segment is never removed",
    "layout of another segment": "layout of another segment: Layout(segment_id=1,",
    "gap at the end": "extents end at 70, not at 71",
    "gap at the start": "extents are not contiguous at 39: Extent(segment_id=0, start=40,",
    "overlap": "extents are not contiguous at 40: Extent(segment_id=0, start=39,",
    "extent of another segment": "extents are not contiguous at 40: Extent(segment_id=3,",
    "extent beyond its chunk": "extent exceeds its chunk: Extent(segment_id=0, start=40,",
    "extent of an unknown chunk": "extent exceeds its chunk: Extent(segment_id=0, start=40,",
    "removal of an extent that is not there": "removes an extent that is not there: Extent(",
    "removal of an extent at another start": "removes an extent that is not there: Extent(",
    "drop of an unknown chunk": "drops a chunk that is not there: Chunk(chunk_id=7,",
    "drop of a chunk that is not there": "drops a chunk that is not there: Chunk(chunk_id=5,",
    "chunk without an extent": "wrong references: Chunk(chunk_id=5,",
    "wrong references": "wrong references: Chunk(chunk_id=6,",
    "shorter chunk": "takes bytes from a chunk, or adds some to a closed one: Chunk(chunk_id=5,",
    "another name": "makes another chunk of Chunk(chunk_id=6,",
    "another epoch": "makes another chunk of Chunk(chunk_id=6,",
    "unknown last chunk": "last chunk is not known: Layout(segment_id=0,",
    "gap in the sums": "leaves a gap in the sums of (6, 0): 2, 1",
    "too many sums": "sums do not cover the chunks: [(5, 0, 0, 1), (6, 0, 0, 2)]",
    "sums of an unknown chunk": "sums do not cover the chunks: [(5, 0, 0, 1), (6, 0, 0, 1), (8,",
}


@pytest.mark.parametrize("case", CASES)
def test_refused(case: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(MESSAGES[case])):
        apply_change(PINNED, CASES[case])


def test_a_chunk_may_be_closed_as_long_as_it_is() -> None:
    closed = replace(chunk(6, 20), closed=True)
    change = LayoutChange(
        segment_id=0, before=ONE.layout, after=ONE.layout, chunks_put=(closed,), sums=()
    )
    assert apply_change(PINNED, change)[0].chunks == (chunk(5, 30), closed)


def test_a_closed_chunk_does_not_grow() -> None:
    closed = replace(ONE, chunks=(ONE.chunks[0], replace(ONE.chunks[1], closed=True)))
    with pytest.raises(ValueError, match="closed"):
        apply_change((closed,), APPEND)


def test_chunks_are_in_order() -> None:
    with pytest.raises(ValueError, match="in order"):
        check_system_layout(replace(ONE, chunks=ONE.chunks[::-1]))


@pytest.mark.parametrize(("references", "fits"), [(1, False), (2, True), (3, False)])
def test_each_extent_counts_as_a_reference_however_short(references: int, fits: bool) -> None:
    system = SystemLayout(
        layout=Layout(segment_id=0, storage_length=2, last_chunk_id=5),
        extents=(extent(0, 5, 1, chunk_offset=1), extent(1, 5, 1)),
        chunks=(replace(chunk(5, 2), references=references),),
        sums=(sums(5, 55),),
    )
    if fits:
        check_system_layout(system)
    else:
        with pytest.raises(ValueError, match=r"^wrong references: .* 2 extents$"):
            check_system_layout(system)
