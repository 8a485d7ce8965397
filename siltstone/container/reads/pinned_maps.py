"""Maps of segments that stay true for a time: a pin first, then what there is after it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from siltstone.container.models.segments import WriterInfo, writer_info
from siltstone.container.reads.pins import FoundPin, make_pin, new_pin, remove_pin
from siltstone.container.state.segment_map import BegunMap, SegmentMap
from siltstone.core.environment import Environment
from siltstone.core.errors import SiltstoneError, StoreError

if TYPE_CHECKING:
    from siltstone.container.reads.reads import Reading
    from siltstone.core.storage.async_storage import AsyncChunkStorage

logger = logging.getLogger(__name__)

_TRIES: Final = 3
"""How often a pin is made again because the container was, which takes an operator each time."""

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


class PinVerbs:
    """What a container, owned or not, lets others read by themselves for a time.

    By maps of its segments they read its chunks; a pin keeps those from being deleted.

    Args:
        container: its index.
        storage: long-term storage.
        environment: gives time and randomness.
        now: what is shown now; raises once the container is closed.
        later: all that is acknowledged at some moment after the call began.
    """

    def __init__(
        self,
        container: int,
        storage: AsyncChunkStorage,
        environment: Environment,
        now: Callable[[], object],
        later: Callable[[], Awaitable[Reading]],
    ) -> None:
        self._container = container
        self._storage = storage
        self._environment = environment
        self._now = now
        self._later = later

    async def pinned_maps(self, wanted: Wanted, ttl_s: float) -> PinnedMaps | None:
        """Map segments, and keep the chunks of their bytes for ``ttl_s`` seconds.

        The pin is durable before the look at the rows that the maps are made of. What they name is
        dropped after that look, if ever; so its deletion lists pins later than that.

        Args:
            wanted: called with what there is now, perhaps twice.
            ttl_s: above 0, from the moment on at which the owner sees the pin.

        Returns:
            ``None``, and nothing is pinned, when ``wanted`` chooses nothing.

        Raises:
            SegmentNotFoundError, SegmentTruncatedError, OffsetError: as ``wanted`` asks.
            StoreError: the container was recovered with loss meanwhile, again and again.
            ChunkError: the pin could not be written, or storage did not answer.
        """
        reading = await self._later()
        if not wanted(reading):
            return None
        async with self.pinned(reading, ttl_s) as (made, pinned):
            return PinnedMaps(
                container=self._container,
                lineage=made.pin.lineage,
                version=made.pin.version,
                pin=made.name,
                maps=await _maps(pinned, wanted),
            )

    @asynccontextmanager
    async def held_maps(
        self, wanted: Wanted, ttl_s: float
    ) -> AsyncIterator[tuple[SegmentMap, ...]]:
        """``pinned_maps`` for the block; at its end the pin is given back.

        Raises as ``pinned_maps``.
        """
        reading = await self._later()
        if not wanted(reading):
            yield ()
            return
        async with self.pinned(reading, ttl_s) as (made, pinned):
            maps = await _maps(pinned, wanted)
        try:
            yield maps
        finally:
            await _give_back(self._storage, made)

    @asynccontextmanager
    async def pinned(
        self, reading: Reading, ttl_s: float
    ) -> AsyncIterator[tuple[FoundPin, Reading]]:
        """Pin what ``reading`` shows; give the block the pin, and what there is after it.

        When the look after it fails, or shows another lineage, or the block fails, the pin is
        given back at once: nothing refers to it.
        """
        self._now()
        index, storage, environment = self._container, self._storage, self._environment
        for _ in range(_TRIES):
            tables = reading.replica.tables
            pin = new_pin(environment, tables.lineage, tables.applied_version, ttl_s)
            made = await make_pin(storage, environment, index, pin)
            async with AsyncExitStack() as stack:
                stack.push_async_callback(_give_back, storage, made)
                reading = await self._later()
                if reading.replica.tables.lineage == pin.lineage:
                    yield made, reading
                    stack.pop_all()
                    return
        raise StoreError(
            "the container was made again while it was pinned", container=index, tries=_TRIES
        )

    async def write_file_manifest(self, name: str, content: bytes) -> None:
        """Write a file manifest, durably; nothing refers to it."""
        self._now()
        await self._storage.create(name, [content])

    def uri_of(self, name: str) -> str | None:
        """See ``optional_verbs.Addresses``."""
        self._now()
        return self._storage.uri_of(name)


def writers_of(reading: Reading, name: str) -> list[WriterInfo]:
    """The exactly-once writers of a segment by name. Raises ``SegmentNotFoundError``."""
    rows = reading.replica.acknowledged_writers(reading.segment(name)).values()
    return sorted(map(writer_info, rows), key=lambda writer: writer.name)


async def _give_back(storage: AsyncChunkStorage, pin: FoundPin) -> None:
    try:
        await remove_pin(storage, pin)
    except SiltstoneError as error:
        logger.warning("%s stays until it expires: %s", pin.name, error)


async def _maps(reading: Reading, wanted: Wanted) -> tuple[SegmentMap, ...]:
    # All are of one moment: only then the log is asked for what is not flushed.
    begun = [_flushed(reading, *one) for one in wanted(reading)]
    return tuple([await one.whole(reading.kept) for one in begun])


def _flushed(reading: Reading, name: str, end: int | None) -> BegunMap:
    """Map a segment up to its flushed length, or to where it is to end."""
    info = reading.info(name)
    # What was truncated and is not flushed lies above the flushed length.
    flushed = max(info.flushed_length, info.start_offset)
    return reading.map(name, None, flushed if end is None else end)
