"""Where the bytes lie that were read last, for as long as no row changes.

The loop notes places; any thread looks them up. It may find the neighbour of a place that is just
being noted, and sees from its bounds that it is another one.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from siltstone.metadata.tables import Tables
from siltstone.segments.page_cache_reads import NearReads, ReadPlace

PLACES_MAX: Final = 256
"""Of all segments together; then all are forgotten. Each holds 10 KiB of sums for every 64 MiB."""


class _Page:
    """The places of one moment: by segment, where each begins, and they themselves in order."""

    __slots__ = ("count", "moment", "segments")

    def __init__(self, moment: object) -> None:
        self.moment = moment
        self.segments: dict[str, tuple[list[int], list[ReadPlace]]] = {}
        self.count = 0


class RecentPlaces:
    """Places by the names of segments.

    Args:
        tables: tell when a row has changed.
        near: finds places; ``None`` finds none.
    """

    def __init__(self, tables: Tables, near: NearReads | None) -> None:
        self._tables = tables
        self._near = near
        self._page = _Page(tables.moment)

    @property
    def moment(self) -> object:
        """Another object after every change of a row. On any thread."""
        return self._tables.moment

    def find(self, name: str, offset: int, end: int) -> ReadPlace | None:
        """The place of ``[offset, end)``, if it is known and right now. On any thread."""
        page = self._page
        if page.moment is not self._tables.moment:
            return None
        found = page.segments.get(name)
        if found is None:
            return None
        place = found[1][bisect_right(found[0], offset) - 1]
        return place if place.start <= offset < end <= place.end else None

    def note(self, name: str, segment_id: int, offset: int, end: int) -> None:
        """Note where the last of the bytes ``[offset, end)`` lies, just read. On the loop.

        A reader in order continues there. Of two reads with no change of a row between them the
        second one is noted: while rows change all the time, a place would be of no use.
        """
        near = self._near
        if near is None or offset >= end:
            return
        page = self._page
        if page.moment is not self._tables.moment or page.count >= PLACES_MAX:
            self._page = _Page(self._tables.moment)
            return
        place = self.find(name, end - 1, end)
        if place is None:
            place = near.find(segment_id, end - 1)
            if place is None:
                return
            starts, places = page.segments.setdefault(name, ([], []))
            at = bisect_right(starts, place.start)
            places.insert(at, place)
            starts.insert(at, place.start)
            page.count += 1
        near.learn(place, max(offset, place.start), end)
