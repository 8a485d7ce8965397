"""Where bytes read ahead are cut: few calls for each chunk, no block in two pieces."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.core.constants import BLOCK_BYTES
from siltstone.core.records.extent import Extent
from siltstone.segments.read_ahead import PIECE_BYTES, Room, piece_end

P, B = PIECE_BYTES, BLOCK_BYTES


def extents_of(lengths: Sequence[int], offset: int = 0) -> list[Extent]:
    found, start = [], 0
    for number, length in enumerate(lengths):
        found.append(
            Extent(segment_id=1, start=start, chunk_id=number, chunk_offset=offset, length=length)
        )
        start += length
    return found


def cut(extents: Sequence[Extent], start: int = 0) -> list[int]:
    """The ends of all pieces."""

    def floor(offset: int) -> Extent | None:
        return next((found for found in reversed(extents) if found.start <= offset), None)

    end, ends = extents[-1].end, [start]
    while ends[-1] < end:
        ends.append(piece_end(floor, ends[-1], end))
        assert ends[-1] > ends[-2]
        assert len(ends) < 10_000
    assert ends[-1] == end
    return ends[1:]


@pytest.mark.parametrize(
    ("lengths", "start", "ends"),
    [
        ([5], 0, [5]),
        ([P], 0, [P]),
        ([2 * P - 1], 0, [2 * P - 1]),
        ([2 * P], 0, [P, 2 * P]),
        ([3 * P + 7], 0, [P, 2 * P, 3 * P + 7]),
        ([3 * P], B + 1, [P + B, 3 * P]),
        ([3 * P, 3 * P + B], 0, [P, 2 * P, 3 * P, 4 * P, 5 * P, 6 * P + B]),
        ([P // 4] * 4 + [4 * P], 0, [P, 2 * P, 3 * P, 4 * P, 5 * P]),
        ([P // 4, 4 * P], 0, [P // 4, P + P // 4, 2 * P + P // 4, 3 * P + P // 4, 4 * P + P // 4]),
        ([P // 4, P, P // 4], 0, [P + P // 4, P + P // 2]),
        ([1] * 130, 0, [64, 128, 130]),
    ],
)  # fmt: skip
def test_pieces(lengths: list[int], start: int, ends: list[int]) -> None:
    assert cut(extents_of(lengths), start) == ends


@given(
    lengths=st.lists(st.integers(1, 5 * P), min_size=1, max_size=9),
    offset=st.integers(0, 3 * B),
)
def test_a_chunk_takes_no_call_more_than_it_has_pieces(lengths: list[int], offset: int) -> None:
    extents = extents_of(lengths, offset)
    ends = cut(extents)
    for start, end in zip([0, *ends], ends, strict=False):
        assert end - start < 2 * P + max(0, P)
    for extent in extents:
        inside = [end for end in ends if extent.start < end < extent.end]
        for end in inside:
            assert (end + extent.chunk_offset - extent.start) % B == 0
        # A block at the edge may move a border by less than its length.
        assert len(inside) <= max(0, -(-(extent.length + B) // P) - 1)
        if not offset:
            assert len(inside) + 1 <= max(1, extent.length // P)


def test_rows_with_a_gap_are_left_to_the_reader() -> None:
    assert piece_end(lambda _: None, 5, 10) == 10
    assert piece_end(lambda _: None, 5, 9 * P) == 5 + P


def test_spare_memory_is_the_least_that_fits_and_is_bounded() -> None:
    room = Room()
    assert room.spare(4) is None
    view, longer, other = (memoryview(bytearray(length)) for length in (4, 7, 4))
    room.give_back(longer)
    room.give_back(view)
    assert room.spare_bytes == 11
    assert room.spare(8) is None
    assert room.spare(3) is view
    assert room.spare(3) is None, "more than twice as much is too much"
    room.give_back(other)
    assert room.spare(4) is other, "and not an equal one"
    assert room.spare(4) is longer
    for _ in range(9):
        room.give_back(memoryview(bytearray(4)))
    assert room.spare_bytes == 16
    for _ in range(4):
        room.give_back(memoryview(bytearray(50)))
    assert room.spare(4) is None, "memory that is not used any more does not stay for ever"
    assert room.spare_bytes == 200
    room.give_back(view)
    room.shrink(110)
    assert room.spare_bytes == 104
    assert room.spare(4) is view
    room.clear()
    assert room.spare_bytes == 0
