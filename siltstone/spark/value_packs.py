"""Which records of a keyspace one task reads, in the order in which they lie. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from siltstone.spark.ranges import TAIL_RANGE_BYTES

PACK_ROWS: Final = 65_536
"""Heads of one task travel with it."""


class ValuePlace(NamedTuple):
    """Where a value lies, in the order of places.

    Attributes:
        segment: its name. Those of large values come before those of records.
        offset: first byte of it that is read.
        length: bytes of it that are read.
        row_key: of the head.
        row: of the head.
    """

    segment: str
    offset: int
    length: int
    row_key: bytes
    row: bytes

    @property
    def end(self) -> int:
        """Offset after the last byte."""
        return self.offset + self.length


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """What one task reads.

    Attributes:
        places: in order.
        spans: by segment the first offset and the one after the last.
    """

    places: tuple[ValuePlace, ...]
    spans: Mapping[str, tuple[int, int]]


def pack_places(
    places: Iterable[ValuePlace], flushed: Callable[[str], int], pack_bytes: int
) -> Iterator[Pack]:
    """Put neighbouring places into packs.

    Args:
        places: in order.
        flushed: of a segment the offset from which on nothing is in a chunk. What lies above
            travels inside of the task, so a pack has little of that.
        pack_bytes: about how many bytes of records a pack has at most; one at least.
    """
    packed: list[ValuePlace] = []
    length = carried = 0
    for place in places:
        before = packed[-1] if packed else None
        begin = before.end if before and before.segment == place.segment else place.offset
        tail = max(0, place.end - max(begin, flushed(place.segment)))
        full = length + place.length > pack_bytes or len(packed) == PACK_ROWS
        if packed and (full or carried + tail > TAIL_RANGE_BYTES):
            yield _pack(packed)
            packed, length, carried = [], 0, 0
            tail = max(0, place.end - max(place.offset, flushed(place.segment)))
        packed.append(place)
        length += place.length
        carried += tail
    if packed:
        yield _pack(packed)


def _pack(places: list[ValuePlace]) -> Pack:
    spans: dict[str, tuple[int, int]] = {}
    for place in places:
        first, _ = spans.get(place.segment, (place.offset, 0))
        spans[place.segment] = (first, place.end)
    return Pack(places=tuple(places), spans=spans)
