"""Tails: bytes and table records that are acknowledged and not in chunks yet."""

from __future__ import annotations

import pytest

from siltstone.container.state.tail import TableTail, TableTailRecord, Tail, TailPiece


def tail_of(*lengths: int, start: int = 0) -> Tail:
    tail = Tail()
    for index, length in enumerate(lengths):
        data = bytes([index + 1]) * length
        tail.add(TailPiece(start, data, index, float(index)))
        start += length
    return tail


def test_pieces_are_contiguous() -> None:
    tail = tail_of(3, 4)
    assert (tail.size, tail.end, tail.first.offset) == (7, 7, 0)
    with pytest.raises(AssertionError):
        tail.add(TailPiece(8, b"x", 3, 0.0))


@pytest.mark.parametrize(
    ("below", "dropped", "first"),
    [(0, 0, 0), (2, 0, 0), (3, 3, 3), (6, 3, 3), (7, 7, 7), (9, 7, 7)],
)
def test_only_whole_pieces_are_dropped(below: int, dropped: int, first: int) -> None:
    tail = tail_of(3, 4, 5)
    assert tail.drop_below(below) == dropped
    assert (tail.first.offset, tail.size) == (first, 12 - dropped)


@pytest.mark.parametrize("offset", [0, 3, 8])
def test_a_thread_that_looks_during_a_drop_or_an_add_gets_right_bytes_or_none(offset: int) -> None:
    tail = tail_of(3, 4, 5)
    assert tail.read_whole(offset, 2) is not None
    for count in range(1, 4):
        tail = tail_of(3, 4, 5)
        del tail._pieces[:count]  # as ``drop_below`` does first
        assert tail.read_whole(offset, 2) is None
    tail = tail_of(3, 4)
    tail._offsets.append(7)  # as ``add`` does first
    assert tail.read_whole(8, 2) is None


@pytest.mark.parametrize(
    ("start", "length", "offsets"),
    [(0, 1, [0]), (0, 3, [0]), (0, 7, [0, 3]), (1, 100, [0, 3, 7]), (3, 1, [3]), (5, 9, [3, 7])],
)
def test_head_takes_whole_pieces(start: int, length: int, offsets: list[int]) -> None:
    assert [piece.offset for piece in tail_of(3, 4, 5).head(start, length)] == offsets


def test_reads_across_pieces() -> None:
    tail = tail_of(3, 4, 5, start=100)
    whole = b"\1" * 3 + b"\2" * 4 + b"\3" * 5
    for offset in range(100, 113):
        for length in range(14):
            buffer = bytearray(length)
            count = tail.read_into(offset, memoryview(buffer))
            assert bytes(buffer[:count]) == whole[offset - 100 : offset - 100 + length]
            one = tail.read_whole(offset, min(length, 112 - offset)) if offset < 112 else None
            assert one is None or one == whole[offset - 100 : offset - 100 + length]


def test_table_tail_is_cut_between_frames() -> None:
    tail = TableTail()
    for version, index in [(10, 1), (20, 1), (30, 2), (40, 3), (50, 3)]:
        tail.add(TableTailRecord(version, bytes(10), index, 0.0))
    assert [record.version for record in tail.head(1, 50)] == [10, 20]
    assert [record.version for record in tail.head(25, 50)] == [10, 20, 30]
    assert [record.version for record in tail.head(35, 50)] == [10, 20, 30, 40, 50]
    assert [tail.index_behind(version) for version in (0, 10, 20, 30, 49, 50)] == [
        1,
        1,
        2,
        3,
        3,
        None,
    ]
    assert tail.drop_to(30) == 30
    assert (tail.size, tail.first.version, tail.end) == (20, 40, 50)
