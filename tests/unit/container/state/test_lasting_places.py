"""Places that outlive changes of rows: the newest wins, and there are never too many."""

from __future__ import annotations

from typing import cast

from siltstone.container.state.lasting_places import PLACES_MAX, LastingPlaces
from siltstone.core.records.chunk import Chunk
from siltstone.segments.page_cache_reads import NearReads, ReadPlace


class Rows:
    """Says where bytes lie: the place that is set."""

    def __init__(self) -> None:
        self.place: ReadPlace | None = None

    def find(self, segment_id: int, offset: int) -> ReadPlace | None:
        return self.place


def place(rows: Rows, start: int, end: int, chunk_id: int) -> ReadPlace:
    chunk = Chunk(chunk_id=chunk_id, name=f"c{chunk_id}", epoch=1, length=end - start)
    return ReadPlace(1, start, end, -start, chunk, {}, cast("NearReads", rows))


def noted(places: LastingPlaces, rows: Rows, start: int, end: int, chunk_id: int) -> ReadPlace:
    rows.place = place(rows, start, end, chunk_id)
    places.note("a", 1, start)
    return rows.place


def test_a_range_is_found_where_all_of_it_is_in_one_place() -> None:
    rows = Rows()
    places = LastingPlaces(cast("NearReads", rows))
    second = noted(places, rows, 200, 300, 2)
    first = noted(places, rows, 100, 200, 1)
    assert places.find("a", 100, 200) is first
    assert places.find("a", 299, 300) is second
    assert places.find("a", 199, 201) is None
    assert places.find("a", 99, 150) is None
    assert places.find("a", 300, 301) is None
    assert places.find("a", 150, 150) is None
    assert places.find("b", 100, 200) is None


def test_a_newer_place_replaces_those_that_it_overlaps() -> None:
    rows = Rows()
    places = LastingPlaces(cast("NearReads", rows))
    for number in range(3):
        noted(places, rows, 100 * number, 100 * number + 100, number)
    joined = noted(places, rows, 50, 200, 9)
    last = places.find("a", 200, 300)
    assert last is not None
    assert last.chunk.chunk_id == 2
    assert places.find("a", 60, 190) is joined
    assert places.find("a", 0, 10) is None


def test_what_the_rows_do_not_show_is_not_noted() -> None:
    rows = Rows()
    places = LastingPlaces(cast("NearReads", rows))
    places.note("a", 1, 0)
    assert places.find("a", 0, 1) is None
    LastingPlaces(None).note("a", 1, 0)


def test_places_are_bounded() -> None:
    rows = Rows()
    places = LastingPlaces(cast("NearReads", rows))
    for number in range(PLACES_MAX):
        noted(places, rows, number, number + 1, number)
    assert places.find("a", 0, 1) is not None
    newest = noted(places, rows, PLACES_MAX, PLACES_MAX + 1, 7)
    assert places.find("a", 0, 1) is None
    assert places.find("a", PLACES_MAX, PLACES_MAX + 1) is newest
