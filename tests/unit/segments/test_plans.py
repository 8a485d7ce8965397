"""The plans of the segment layer as tables: no storage, no rows but those given."""

from __future__ import annotations

import pytest

from siltstone.core.constants import BLOCK_BYTES
from siltstone.core.errors import CorruptDataError
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent
from siltstone.core.records.layout import Layout
from siltstone.core.records.segment_state import SegmentState
from siltstone.segments.chunk_cuts import BufferCutter, Step, plan_steps
from siltstone.segments.concat import plan_concat
from siltstone.segments.concat_staging import Ends
from siltstone.segments.dropped_chunks import plan_dropping
from siltstone.segments.read import PART_BYTES, plan_extent, plan_read
from siltstone.segments.trim import plan_remove, plan_trim
from siltstone.segments.write import OpenChunk, Written, plan_commit

B = BLOCK_BYTES
P = PART_BYTES


def chunk(chunk_id: int, length: int = 10, references: int = 1, closed: bool = True) -> Chunk:
    return Chunk(
        chunk_id=chunk_id,
        name=f"c{chunk_id}",
        epoch=1,
        length=length,
        closed=closed,
        references=references,
    )


def extent(start: int, chunk_id: int, length: int = 10, offset: int = 0, of: int = 1) -> Extent:
    return Extent(segment_id=of, start=start, chunk_id=chunk_id, chunk_offset=offset, length=length)


@pytest.mark.parametrize(
    ("start", "end", "cuts", "room", "steps"),
    [
        (0, 0, [], 0, []),
        (0, 10, [], 0, [(0, 10, False)]),
        (0, 100, [], 0, [(0, 100, False)]),
        (0, 10, [], 10, [(0, 10, True)]),
        (0, 11, [], 10, [(0, 11, False)]),
        (0, 11, [5], 10, [(0, 5, True), (5, 11, False)]),
        (0, 11, [10], 10, [(0, 10, True), (10, 11, False)]),
        (0, 150, [], 10, [(0, 100, False), (100, 150, False)]),
        (
            0, 230, [120], 0,
            [(0, 100, False), (100, 120, False), (120, 220, False), (220, 230, False)],
        ),
        (
            0, 250, [20, 120, 240], 30,
            [(0, 20, True), (20, 120, False), (120, 220, False), (220, 250, False)],
        ),
        (50, 150, [10, 50, 150, 160], 99, [(50, 150, False)]),
        (50, 149, [10, 50, 99, 150, 160], 60, [(50, 99, True), (99, 149, False)]),
        (0, 101, [1], 0, [(0, 1, False), (1, 101, False)]),
        (0, 101, [100], 0, [(0, 100, False), (100, 101, False)]),
    ],
)  # fmt: skip
def test_steps(
    start: int, end: int, cuts: list[int], room: int, steps: list[tuple[int, int, bool]]
) -> None:
    found = plan_steps(start, end, cuts=cuts, room=room, chunk_bytes=100)
    assert found == [Step(*step) for step in steps]


@pytest.mark.parametrize(
    ("start", "end", "pieces"),
    [
        (5, 5, []),
        (5, 8, [b"abc"]),
        (6, 7, [b"b"]),
        (7, 10, [b"c", b"de"]),
        (8, 8, []),
        (8, 9, [b"d"]),
        (5, 12, [b"abc", b"de", b"fg"]),
        (11, 12, [b"g"]),
    ],
)
def test_cutter(start: int, end: int, pieces: list[bytes]) -> None:
    cutter = BufferCutter([b"abc", b"", bytearray(b"de"), memoryview(b"fg")], 5)
    assert cutter.end == 12
    assert [bytes(piece) for piece in cutter.cut(start, end)] == pieces


def test_cutter_of_nothing() -> None:
    assert BufferCutter([], 5).end == 5


@pytest.mark.parametrize(
    ("length", "start", "end", "parts"),
    [
        (5 * B, 0, 5 * B, [(0, 5 * B, True)]),
        (5 * B, B, 2 * B, [(B, 2 * B, True)]),
        (5 * B + 9, B, 5 * B + 9, [(B, 5 * B + 9, True)]),
        (5 * B + 9, B, 5 * B + 8, [(B, 5 * B, True), (5 * B, 5 * B + 8, False)]),
        (100, 0, 100, [(0, 100, True)]),
        (100, 1, 100, [(1, 100, False)]),
        (100, 0, 99, [(0, 99, False)]),
        (9 * B, 1, 2 * B + 1, [(1, 2 * B + 1, False)]),
        (9 * B, 1, 5 * B + 1, [(1, B, False), (B, 5 * B, True), (5 * B, 5 * B + 1, False)]),
        (9 * B, 1, 5 * B, [(1, B, False), (B, 5 * B, True)]),
        (9 * B, 0, 4 * B + 1, [(0, 4 * B, True), (4 * B, 4 * B + 1, False)]),
        (9 * B, 1, 5 * B - 1, [(1, 5 * B - 1, False)]),
        (3 * P, 0, 3 * P, [(0, P, True), (P, 2 * P, True), (2 * P, 3 * P, True)]),
        (3 * P, B, P + 2 * B, [(B, P + 2 * B, True)]),
        (3 * P, 0, 2 * P - 1, [(0, 2 * P - B, True), (2 * P - B, 2 * P - 1, False)]),
        (3 * P - B, 0, 3 * P - B, [(0, P, True), (P, 3 * P - B, True)]),
        (2 * P, 0, 2 * P, [(0, P, True), (P, 2 * P, True)]),
    ],
)  # fmt: skip
def test_parts_of_an_extent(
    length: int, start: int, end: int, parts: list[tuple[int, int, bool]]
) -> None:
    found = list(plan_extent(chunk(1, length), start, end, 1_000))
    assert [(part.offset, part.offset + part.length, part.whole) for part in found] == parts
    assert [part.position for part in found] == [1_000 + begin - start for begin, _, _ in parts]


def test_a_read_maps_the_segment_to_its_chunks() -> None:
    chunks = {1: chunk(1, 30), 2: chunk(2, 8)}
    extents = [extent(100, 1, length=10, offset=20), extent(110, 2, length=5, offset=3)]
    found = plan_read(extents, chunks.__getitem__, 104, 113)
    assert [(part.chunk.chunk_id, part.offset, part.length, part.position) for part in found] == [
        (1, 24, 6, 0),
        (2, 3, 3, 6),
    ]


@pytest.mark.parametrize(
    "extents",
    [
        [],
        [extent(0, 1)],
        [extent(5, 1)],
        [extent(0, 1), extent(11, 1)],
        [extent(0, 1), extent(9, 1)],
        [extent(0, 1), extent(10, 1, offset=1)],
    ],
)
def test_a_read_refuses_extents_that_do_not_fit(extents: list[Extent]) -> None:
    with pytest.raises(CorruptDataError, match=r"^I[26]: "):
        plan_read(extents, lambda _: chunk(1), 4, 20)


@pytest.mark.parametrize(
    ("ids", "references", "rows_max", "taken", "kept", "dropped"),
    [
        ([], {}, 10, 0, {}, []),
        ([1, 2], {1: 1, 2: 1}, 10, 2, {}, [1, 2]),
        ([1, 2], {1: 2, 2: 1}, 10, 2, {1: 1}, [2]),
        ([1, 2, 1], {1: 2, 2: 1}, 10, 3, {}, [1, 2]),
        ([1, 2, 1], {1: 2, 2: 1}, 4, 2, {1: 1}, [2]),
        ([1, 2, 3], {1: 1, 2: 1, 3: 1}, 5, 2, {}, [1, 2]),
        ([1, 1, 1], {1: 3}, 3, 2, {1: 1}, []),
    ],
)
def test_dropping(
    ids: list[int],
    references: dict[int, int],
    rows_max: int,
    taken: int,
    kept: dict[int, int],
    dropped: list[int],
) -> None:
    extents = [extent(index * 10, chunk_id) for index, chunk_id in enumerate(ids)]
    found = plan_dropping(
        extents, lambda key: chunk(key, references=references[key]), rows_max=rows_max
    )
    assert len(found.extents) == taken
    assert {row.chunk_id: row.references for row in found.chunks_put} == kept
    assert [row.chunk_id for row in found.chunks_dropped] == dropped
    assert found.shared == bool(kept)


def test_dropping_more_extents_than_references() -> None:
    told = r"^I17: fewer references than extents where=c1 references=1 extents=2$"
    with pytest.raises(CorruptDataError, match=told):
        plan_dropping([extent(0, 1), extent(10, 1)], lambda key: chunk(key))


@pytest.mark.parametrize(
    ("start", "dropped", "storage_start", "last"),
    [(0, 0, 0, 3), (9, 0, 0, 3), (10, 1, 10, 3), (29, 2, 20, 3), (30, 3, 30, 0), (99, 3, 30, 0)],
)
def test_trim(start: int, dropped: int, storage_start: int, last: int) -> None:
    layout = Layout(segment_id=1, storage_length=30, last_chunk_id=3)
    extents = [extent(0, 1), extent(10, 2), extent(20, 3)]
    change, _ = plan_trim(layout, extents, chunk, start)
    if dropped == 0:
        assert change is None
        return
    assert change is not None
    assert change.after == Layout(
        segment_id=1, storage_start=storage_start, storage_length=30, last_chunk_id=last
    )
    assert len(change.extents_removed) == len(change.chunks_dropped) == dropped
    assert change.live


def test_remove_keeps_the_layout_until_its_last_slice() -> None:
    layout = Layout(segment_id=1, storage_length=30, last_chunk_id=3)
    extents = [extent(0, 1), extent(10, 2), extent(20, 3)]
    change, _ = plan_remove(layout, extents, chunk, (), rows_max=4)
    assert change.after == Layout(
        segment_id=1, storage_start=20, storage_length=30, last_chunk_id=3
    )
    change, _ = plan_remove(layout, extents, chunk, (), rows_max=6)
    assert change.after is None
    assert not change.live


def written(start: int, end: int, chunk_id: int, *, append: bool = False) -> Written:
    return Written(step=Step(start, end, append), chunk_id=chunk_id, name=f"c{chunk_id}", sums=())


OPEN = chunk(1, 20, closed=False)
SHARED = chunk(1, 20, references=2, closed=False)
GROWS = OpenChunk(chunk=OPEN, extent=extent(0, 1, 20))


@pytest.mark.parametrize(
    ("last", "open_chunk", "steps", "appendable", "chunks", "extents", "last_id"),
    [
        # chunks: (id, length, closed); extents: (start, length)
        (None, None, [written(20, 30, 2)], True, [(2, 10, False)], [(20, 10)], 2),
        (None, None, [written(20, 30, 2)], False, [(2, 10, True)], [(20, 10)], 0),
        (None, None, [written(20, 120, 2)], True, [(2, 100, True)], [(20, 100)], 0),
        (OPEN, GROWS, [written(20, 30, 1, append=True)], True, [(1, 30, False)], [(0, 30)], 1),
        (OPEN, GROWS, [written(20, 100, 1, append=True)], True, [(1, 100, True)], [(0, 100)], 0),
        (
            OPEN, GROWS, [written(20, 30, 1, append=True), written(30, 35, 2)], True,
            [(1, 30, True), (2, 5, False)], [(0, 30), (30, 5)], 2,
        ),
        (OPEN, GROWS, [written(20, 30, 2)], True, [(1, 20, True), (2, 10, False)], [(20, 10)], 2),
        (OPEN, None, [written(20, 30, 2)], True, [(1, 20, True), (2, 10, False)], [(20, 10)], 2),
        (SHARED, None, [written(20, 30, 2)], True, [(2, 10, False)], [(20, 10)], 2),
    ],
)  # fmt: skip
def test_commit(
    last: Chunk | None,
    open_chunk: OpenChunk | None,
    steps: list[Written],
    appendable: bool,
    chunks: list[tuple[int, int, bool]],
    extents: list[tuple[int, int]],
    last_id: int,
) -> None:
    layout = Layout(segment_id=1, storage_length=20, last_chunk_id=1 if last else 0)
    change = plan_commit(
        layout,
        last,
        open_chunk,
        steps,
        epoch=1,
        chunk_bytes=100,
        appendable=appendable,
        writers=(),
    )
    assert [(row.chunk_id, row.length, row.closed) for row in change.chunks_put] == chunks
    assert [(row.start, row.length) for row in change.extents_put] == extents
    assert change.after is not None
    assert change.after.last_chunk_id == last_id
    assert change.after.storage_length == steps[-1].step.end
    assert change.after.storage_start == 0


def test_concat_moves_extents_and_cuts_the_dead_head() -> None:
    target = Layout(segment_id=1, storage_start=3, storage_length=50, last_chunk_id=9)
    source = Layout(segment_id=2, storage_start=0, storage_length=30, last_chunk_id=3)
    extents = [extent(0, 1, of=2), extent(10, 2, offset=5, of=2), extent(20, 3, of=2)]
    state = SegmentState(segment_id=2, name="source", start_offset=12, sealed_length=30)
    ends = Ends(target=target, source=source, source_state=state)
    change = plan_concat(ends, extents, lambda key: chunk(key, 50, closed=key < 3), ())
    assert change.states == (state,)
    assert change.extents_removed == tuple(extents)
    assert change.extents_put == (extent(50, 2, length=8, offset=7), extent(58, 3))
    assert [row.chunk_id for row in change.chunks_dropped] == [1]
    assert sorted((row.chunk_id, row.closed) for row in change.chunks_put) == [(3, True), (9, True)]
    assert change.after == Layout(segment_id=1, storage_start=3, storage_length=68)
    assert change.layouts_removed == (2,)
