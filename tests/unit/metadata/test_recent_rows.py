"""Remembered rows: only while the table is unchanged, and only those that were asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent
from siltstone.core.records.layout import Layout
from siltstone.metadata.recent_rows import RecentRows

ROWS_MAX = 1_024


class Table:
    """The calls of ``Rows`` that are used here; each answer contains its version."""

    def __init__(self) -> None:
        self.version = 7
        self.asked: list[tuple[object, ...]] = []
        self.is_empty = False

    def layout(self, segment_id: int) -> Layout:
        self.asked.append(("layout", segment_id))
        return Layout(segment_id=segment_id, storage_length=self.version)

    def extents(self, segment_id: int, start: int, end: int, limit: int) -> list[Extent]:
        """An extent of ten bytes at each multiple of ten."""
        self.asked.append(("extents", segment_id, start, end, limit))
        if self.is_empty:
            return []
        firsts = range(start - start % 10, end, 10)
        return [
            Extent(
                segment_id=segment_id,
                start=first,
                chunk_id=self.version,
                chunk_offset=0,
                length=10,
            )
            for first in firsts
        ][:limit]

    def chunk(self, chunk_id: int) -> Chunk | None:
        self.asked.append(("chunk", chunk_id))
        if self.is_empty:
            return None
        return Chunk(chunk_id=chunk_id, name="c", epoch=1, length=self.version)

    def sums(self, chunk_id: int, group: int) -> tuple[int, ...]:
        self.asked.append(("sums", chunk_id, group))
        return () if self.is_empty else (chunk_id, group, self.version)


@pytest.fixture
def table() -> Table:
    return Table()


@pytest.fixture
def recent(table: Table) -> RecentRows:
    return RecentRows(table)  # type: ignore[arg-type]


Look = Callable[[RecentRows], Any]
LOOKS: dict[str, Look] = {
    "layout": lambda rows: rows.layout(3),
    "extents": lambda rows: rows.extents(3, 12, 18, 9),
    "chunk": lambda rows: rows.chunk(3),
    "sums": lambda rows: rows.sums(3, 1),
}
OTHERS: dict[str, Look] = {
    "layout": lambda rows: rows.layout(4),
    "extents": lambda rows: rows.extents(4, 12, 18, 9),
    "chunk": lambda rows: rows.chunk(4),
    "sums": lambda rows: rows.sums(3, 2),
}


@pytest.mark.parametrize("kind", LOOKS)
def test_a_row_is_asked_for_once(table: Table, recent: RecentRows, kind: str) -> None:
    assert (recent.hits, recent.misses) == (0, 0)
    first = LOOKS[kind](recent)
    for hits in (1, 2):
        assert LOOKS[kind](recent) == first
        assert (len(table.asked), recent.hits, recent.misses) == (1, hits, 1)


@pytest.mark.parametrize("kind", LOOKS)
@pytest.mark.parametrize("version", [6, 8])
def test_no_row_of_another_version_is_shown(
    table: Table, recent: RecentRows, kind: str, version: int
) -> None:
    older = LOOKS[kind](recent)
    table.version = version
    newer = LOOKS[kind](recent)
    assert newer != older
    assert newer == LOOKS[kind](RecentRows(table))  # type: ignore[arg-type]
    assert (recent.hits, recent.misses) == (0, 2)
    # Rows of the other kinds are not remembered either.
    for look in LOOKS.values():
        look(recent)
    table.version += 1
    hits = recent.hits
    for look in LOOKS.values():
        assert look(recent) == look(RecentRows(table))  # type: ignore[arg-type]
    assert recent.hits == hits


@pytest.mark.parametrize("kind", LOOKS)
def test_a_row_is_not_taken_for_another(table: Table, recent: RecentRows, kind: str) -> None:
    first = LOOKS[kind](recent)
    assert OTHERS[kind](recent) == OTHERS[kind](RecentRows(table))  # type: ignore[arg-type]
    assert LOOKS[kind](recent) == first
    assert (recent.hits, recent.misses) == (1, 2)


@pytest.mark.parametrize(
    ("start", "end", "limit", "is_known"),
    [
        (10, 20, 1, True),
        (10, 11, 1, True),
        (19, 20, 9, True),
        (9, 20, 9, False),
        (10, 21, 9, False),
        (12, 12, 9, False),
        (14, 12, 9, False),
        (12, 18, 0, False),
        (20, 21, 9, False),
    ],
)
def test_an_extent_answers_for_what_lies_in_it(
    table: Table, recent: RecentRows, start: int, end: int, limit: int, is_known: bool
) -> None:
    recent.extents(3, 12, 18, 9)
    found = recent.extents(3, start, end, limit)
    assert (len(table.asked) == 1) is is_known
    assert found == table.extents(3, start, end, limit)


def test_the_last_extent_of_several_is_remembered(table: Table, recent: RecentRows) -> None:
    found = recent.extents(3, 12, 38, 9)
    assert recent.extents(3, 30, 40, 9) == [found[-1]]
    assert recent.hits == 1
    recent.extents(3, 10, 20, 9)
    assert recent.misses == 2


def test_what_is_not_there_is_asked_for_again(table: Table, recent: RecentRows) -> None:
    table.is_empty = True
    for _ in range(2):
        assert (recent.chunk(3), recent.extents(3, 12, 18, 9)) == (None, [])
    assert (recent.hits, recent.misses) == (0, 4)
    # The lack of sums of a chunk is remembered while the table is unchanged.
    assert (recent.sums(3, 1), recent.sums(3, 1)) == ((), ())
    assert (recent.hits, recent.misses) == (1, 5)


@pytest.mark.parametrize("kind", ["layout", "chunk", "sums", "extents"])
def test_only_a_bounded_number_of_rows_is_remembered(
    table: Table, recent: RecentRows, kind: str
) -> None:
    looks: dict[str, Callable[[int], object]] = {
        "layout": recent.layout,
        "chunk": recent.chunk,
        "sums": lambda number: recent.sums(number, 0),
        "extents": lambda number: recent.extents(number, 12, 18, 9),
    }
    look = looks[kind]
    for number in range(ROWS_MAX - 1):
        look(number)
    look(0)
    assert (recent.hits, recent.misses) == (1, ROWS_MAX - 1)
    look(ROWS_MAX)
    look(0)
    assert (recent.hits, recent.misses) == (1, ROWS_MAX + 1)
