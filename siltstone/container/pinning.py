"""Maps of segments that stay true for a time: a pin first, then what there is behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from siltstone.container.pins import make_pin
from siltstone.container.segment_map import SegmentMap
from siltstone.core.environment import Environment
from siltstone.core.errors import StoreError
from siltstone.core.records.pin import Pin

if TYPE_CHECKING:
    from siltstone.container.reading import Reading
    from siltstone.core.threads import AsyncChunkStorage

Wanted = Callable[["Reading"], Sequence[tuple[str, int | None]]]
"""Chooses segments, each with the offset at which it is to end; ``None`` means the flushed length.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedMaps:
    """Segments of one container at one table version, whose chunks a pin keeps.

    Attributes:
        container: its index.
        lineage: of its table log.
        version: that was pinned; the maps show this one or a later one.
        pin: key of the pin.
        maps: of flushed bytes only.
    """

    container: int
    lineage: bytes
    version: int
    pin: str
    maps: tuple[SegmentMap, ...]


class PinCalls:
    """The part of a container, owned or not, by which others read its chunks themselves."""

    async def _reading_now(self) -> Reading:
        """All that is acknowledged at some moment after this call began."""
        raise NotImplementedError

    def _pin_place(self) -> tuple[int, AsyncChunkStorage, Environment]:
        """The index of the container, long-term storage, and the environment."""
        raise NotImplementedError

    async def pinned_maps(self, wanted: Wanted, expires_ms: int) -> PinnedMaps | None:
        """Map segments, and keep the chunks of their bytes until ``expires_ms``.

        The pin is durable before the look at the rows that the maps are made of. Whatever they
        name is dropped behind that look, if ever; so whoever deletes it lists pins later than that.

        Args:
            wanted: called with what there is now, perhaps twice.
            expires_ms: milliseconds since 1970.

        Returns:
            ``None``, and nothing is pinned, when ``wanted`` chooses nothing.

        Raises:
            SegmentNotFoundError, SegmentTruncatedError, OffsetError: as ``wanted`` asks.
            StoreError: the container was recovered with loss meanwhile.
            ChunkError: the pin could not be written, or storage did not answer.
        """
        index, storage, environment = self._pin_place()
        reading = await self._reading_now()
        if not wanted(reading):
            return None
        tables = reading.replica.tables
        pin = Pin(lineage=tables.lineage, version=tables.applied_version, expires_ms=expires_ms)
        made = await make_pin(storage, environment, index, pin)
        reading = await self._reading_now()
        if reading.replica.tables.lineage != pin.lineage:
            raise StoreError("the container was recovered meanwhile; try again", container=index)
        return PinnedMaps(
            container=index,
            lineage=pin.lineage,
            version=pin.version,
            pin=made.name,
            maps=tuple(_flushed(reading, *one) for one in wanted(reading)),
        )

    async def write_file_manifest(self, name: str, content: bytes) -> None:
        """Write a file manifest, durably; nothing knows of it."""
        await self._pin_place()[1].create(name, [content])

    def uri_of(self, name: str) -> str | None:
        """See ``chunk_care.Addresses``."""
        return self._pin_place()[1].uri_of(name)


def _flushed(reading: Reading, name: str, end: int | None) -> SegmentMap:
    """Map a segment up to its flushed length, or to where it is to end."""
    info = reading.info(name)
    # What was truncated and is not flushed lies above the flushed length.
    flushed = max(info.flushed_length, info.start_offset)
    return reading.map(name, None, flushed if end is None else end)
