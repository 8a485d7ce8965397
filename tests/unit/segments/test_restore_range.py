"""A part of an extent moves into a new chunk; the rest of the extent stays in its place."""

from __future__ import annotations

import pytest

from siltstone.core.layout_store import NewChunk
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent
from siltstone.core.records.layout import Layout
from siltstone.segments import invariants
from siltstone.segments.restore_range import plan_put_back

OLD = Extent(segment_id=5, start=100, chunk_id=1, chunk_offset=30, length=50)


@pytest.mark.parametrize(
    ("start", "end", "left"),
    [
        (100, 150, []),
        (100, 120, [(120, 150, 50)]),
        (130, 150, [(100, 130, 30)]),
        (110, 120, [(100, 110, 30), (120, 150, 50)]),
    ],
)
@pytest.mark.parametrize("others", [0, 3])
def test_the_rest_of_an_extent(
    start: int, end: int, left: list[tuple[int, int, int]], others: int
) -> None:
    layout = Layout(segment_id=5, storage_start=100, storage_length=150, last_chunk_id=1)
    chunk = Chunk(chunk_id=1, name="old", epoch=1, length=80, references=1 + others)
    part = Extent(segment_id=5, start=start, chunk_id=2, chunk_offset=0, length=end - start)
    new = NewChunk(chunk_id=2, name="new")
    change = plan_put_back(layout, OLD, chunk, part, new, (), epoch=4)
    assert change.extents_removed == (OLD,)
    assert [(e.start, e.end, e.chunk_offset) for e in change.extents_put if e.chunk_id == 1] == left
    assert part in change.extents_put
    assert change.after is not None
    invariants.check_layout(change.after, change.extents_put)
    invariants.check_last_chunk(change.after, change.extents_put, None)
    rows = {row.chunk_id: row for row in change.chunks_put}
    assert (rows[2].length, rows[2].epoch, rows[2].closed) == (end - start, 4, True)
    references = others + len(left)
    assert (change.chunks_dropped == (chunk,)) == (references == 0)
    if references:
        assert (rows[1].references, rows[1].closed) == (references, True)
