"""Places of recent reads: found by their bounds, forgotten with any change of a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from siltstone.container.state import recent_places
from siltstone.container.state.recent_places import RecentPlaces
from siltstone.core.errors import ClosedError, FencedError
from siltstone.core.records.chunk import Chunk
from siltstone.metadata.tables import Tables
from siltstone.segments.page_cache_reads import NearReads, ReadPlace
from tests.support.container.container_world import World

EXTENT = 10
CHUNK = Chunk(chunk_id=1, name="c", epoch=1, length=EXTENT)


class Rows:
    """Segments of extents that are each ten bytes long; counts what is looked up."""

    def __init__(self) -> None:
        self.moment = object()
        self.found = 0

    def find(self, segment_id: int, offset: int) -> ReadPlace | None:
        self.found += 1
        start = offset // EXTENT * EXTENT
        near = cast("NearReads", self)
        return ReadPlace(segment_id, start, start + EXTENT, -start, CHUNK, {}, near)

    def learn(self, place: ReadPlace, offset: int, end: int) -> None:
        assert place.start <= offset < end <= place.end
        place.sums[offset] = (end,)


def made() -> tuple[Rows, RecentPlaces]:
    rows = Rows()
    return rows, RecentPlaces(cast("Tables", rows), cast("NearReads", rows))


def start_of(places: RecentPlaces, *what: Any) -> int | None:
    place = places.find(*what)
    return None if place is None else place.start


def test_a_place_is_found_by_what_lies_in_it() -> None:
    rows, places = made()
    for offset in (35, 5, 15, 38):
        places.note("a", 1, offset, offset + 1)
    assert rows.found == 3
    assert [start_of(places, "a", offset, offset + 5) for offset in (0, 5, 10, 30)] == [
        0,
        0,
        10,
        30,
    ]
    assert [start_of(places, "a", *where) for where in ((-1, 5), (6, 11), (20, 21), (40, 41))] == [
        None
    ] * 4
    assert start_of(places, "b", 5, 6) is None
    assert start_of(places, "a", 5, 5) is None, "an empty range has no place"


def test_of_a_read_over_several_the_last_is_noted() -> None:
    rows, places = made()
    places.note("a", 1, 3, 27)
    assert (start_of(places, "a", 3, 27), start_of(places, "a", 5, 6)) == (None, None)
    place = places.find("a", 20, 30)
    assert place is not None
    assert place.sums == {20: (27,)}
    places.note("a", 1, 27, 30)
    assert place.sums == {20: (27,), 27: (30,)}
    assert rows.found == 1


def test_with_any_change_all_is_forgotten_and_noted_again_when_it_is_quiet() -> None:
    rows, places = made()
    places.note("a", 1, 5, 6)
    places.note("b", 2, 5, 6)
    rows.moment = object()
    assert start_of(places, "a", 5, 6) is None
    places.note("a", 1, 5, 6)
    assert start_of(places, "a", 5, 6) is None, "the next change may come at once"
    places.note("a", 1, 5, 6)
    assert start_of(places, "a", 5, 6) == 0
    assert start_of(places, "b", 5, 6) is None


def test_no_more_are_kept_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_places, "PLACES_MAX", 3)
    _, places = made()
    for number in range(3):
        places.note("a", 1, number * EXTENT, number * EXTENT + 1)
    places.note("a", 1, 3 * EXTENT, 3 * EXTENT + 1)
    assert [start_of(places, "a", at * EXTENT, at * EXTENT + 1) for at in range(4)] == [None] * 4


def test_where_nothing_tells_nothing_is_found() -> None:
    rows = Rows()
    places = RecentPlaces(cast("Tables", rows), None)
    for _ in range(3):
        places.note("a", 1, 5, 6)
    assert places.find("a", 5, 6) is None


def refused(kind: type[Exception], place: Callable[[str, int, int], ReadPlace | None]) -> None:
    with pytest.raises(kind):
        place("a", 0, 1)


def test_no_container_that_was_closed_or_fenced_tells_a_place() -> None:
    async def test() -> None:
        old = await world.open()
        await old.container.create("a")
        await old.container.append("a", b"data")
        reader = await world.open_reader()
        assert old.container.place("a", 0, 1) is None
        assert reader.place("a", 0, 1) is None
        await reader.close()
        refused(ClosedError, reader.place)
        new = await world.open(takeover=True, index="other")
        with pytest.raises(FencedError):
            await old.container.append("a", b"more")
        refused(FencedError, old.container.place)
        await new.container.close()
        refused(ClosedError, new.container.place)

    world = World()
    try:
        world.run(test())
    finally:
        world.close()
