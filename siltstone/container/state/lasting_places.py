"""Where bytes lie that their readers verify, also after rows have changed.

A place of ``RecentPlaces`` is right as long as no row changes, and while an application writes,
rows change all the time. For a reader that compares what it gets with a sum of its own, an old
place is as good: bytes of a chunk never change, and what does not match is read again by the rows.

The loop notes places; any thread looks them up.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from siltstone.segments.page_cache_reads import NearReads, ReadPlace

PLACES_MAX: Final = 1_024
"""Of all segments together; then all are forgotten. Each is some hundred bytes."""


class LastingPlaces:
    """Places by the names of segments.

    Args:
        near: finds places; ``None`` finds none.
    """

    def __init__(self, near: NearReads | None) -> None:
        self._near = near
        # Never changed, always replaced: other threads look into it.
        self._places: dict[str, tuple[tuple[int, ...], tuple[ReadPlace, ...]]] = {}
        self._count = 0

    def find(self, name: str, offset: int, end: int) -> ReadPlace | None:
        """A place where ``[offset, end)`` was once. On any thread."""
        found = self._places.get(name)
        if found is None:
            return None
        index = bisect_right(found[0], offset) - 1
        if index < 0:
            return None
        place = found[1][index]
        return place if offset < end <= place.end else None

    def note(self, name: str, segment_id: int, offset: int) -> None:
        """Note where the flushed byte at ``offset`` lies, as the rows say now. On the loop."""
        place = None if self._near is None else self._near.find(segment_id, offset)
        if place is None:
            return
        old = self._places.get(name, ((), ()))[1]
        if place in old:
            return
        # What overlaps it is of older rows.
        kept = [each for each in old if each.end <= place.start or place.end <= each.start]
        if self._count >= PLACES_MAX:
            self._places, self._count, old, kept = {}, 0, (), []
        places = sorted([*kept, place], key=lambda each: each.start)
        self._places[name] = (tuple(each.start for each in places), tuple(places))
        self._count += len(places) - len(old)
