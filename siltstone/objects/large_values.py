"""Large values as they are read: each piece is compared with its sum, and the sums with the head.

A large value is a segment of its own, which has the value and then the sums of its pieces. It never
changes, and its number is never used for another one.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from siltstone.core.checksums import crc32c
from siltstone.core.constants import MIB, Buffer
from siltstone.core.errors import CorruptDataError, OffsetError, SegmentNotFoundError
from siltstone.objects.large_use import LargeUse
from siltstone.objects.object_views import lost
from siltstone.objects.records.large_place import SUM_BYTES, LargePlace
from siltstone.store.handles.self_checked import read_checked

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from siltstone.objects.records.head import Head
    from siltstone.objects.records.keys import ObjectKey
    from siltstone.objects.space_names import SpaceNames
    from siltstone.store.async_store import AsyncStore
    from siltstone.store.handles.async_segment import AsyncSegment

READ_BYTES: Final = 4 * MIB
"""Read at a time, and held in memory: several pieces, or one that is longer."""


class LargeValue:
    """One large value. It is to be held meanwhile: see ``LargeValues``.

    Args:
        segment: that it is.
        key: of its object.
        head: of its object.
        place: where the head says that it lies.

    Attributes:
        size: its bytes.
        name: of the segment.
    """

    def __init__(
        self, segment: AsyncSegment, key: ObjectKey, head: Head, place: LargePlace
    ) -> None:
        self.size = head.size
        self.name = segment.name
        self._segment = segment
        self._key = key
        self._head = head
        self._place = place
        self._sums = b""

    async def load(self) -> None:
        """Read the sums, once. Raises what ``read_around`` does."""
        try:
            if not self._sums:
                self._sums = await self._read_sums()
        except (CorruptDataError, OffsetError) as error:
            raise lost(self._key, self._head, self.name, str(error)) from error

    async def read_around(self, start: int, end: int) -> tuple[int, bytes]:
        """Read whole pieces from the one on that has ``start``, some of those before ``end``.

        Args:
            start: below the size.
            end: above ``start``, at most the size.

        Returns:
            Where they begin, and their bytes: up to 4 MiB, or one piece.

        Raises:
            LostObjectError: bytes are damaged or gone.
            SegmentNotFoundError, SegmentTruncatedError: the value was deleted.
            ChunkError: long-term storage refused, or did not answer.
        """
        await self.load()
        piece_bytes = self._place.piece_bytes
        first = start // piece_bytes
        count = max(1, READ_BYTES // piece_bytes)
        last = min(first + count, -(-end // piece_bytes))
        begin, after = first * piece_bytes, min(last * piece_bytes, self.size)

        def check(data: Buffer) -> bytes:
            view = memoryview(data)
            if len(view) != after - begin:
                raise CorruptDataError("large value is cut", where=self.name, at=begin)
            for number in range(first, last):
                position = (number - first) * piece_bytes
                self._compare(number, view[position : position + piece_bytes])
            return bytes(view)

        try:
            return begin, await read_checked(self._segment, begin, after - begin, check)
        except (CorruptDataError, OffsetError) as error:
            raise lost(self._key, self._head, self.name, str(error)) from error

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield all bytes, as many at a time as ``read_around`` gives. Raises what that does."""
        position = 0
        while position < self.size:
            _, data = await self.read_around(position, self.size)
            yield data
            position += len(data)

    def _compare(self, number: int, piece: Buffer) -> None:
        (expected,) = struct.unpack_from("<I", self._sums, SUM_BYTES * number)
        if crc32c(piece) != expected:
            raise CorruptDataError(
                "piece of a large value does not match its sum",
                where=self.name,
                at=number * self._place.piece_bytes,
            )

    async def _read_sums(self) -> bytes:
        def check(data: Buffer) -> bytes:
            sums = bytes(data)
            if crc32c(sums) != self._place.sums_crc:
                raise CorruptDataError("sums of a large value do not match theirs", where=self.name)
            return sums

        length = self._place.sums_bytes(self.size)
        return await read_checked(self._segment, self.size, length, check)


class LargeValues:
    """Reads the large values of one keyspace.

    Attributes:
        use: who reads which of them.
    """

    def __init__(self, store: AsyncStore, names: SpaceNames) -> None:
        self._store = store
        self._names = names
        self.use = LargeUse()

    def value(self, key: ObjectKey, head: Head, place: LargePlace) -> LargeValue:
        """The value of an object, to be read while it is held."""
        segment = self._store.segment(self._names.large_segment(place.number))
        return LargeValue(segment, key, head, place)

    def hold(self, number: int) -> None:
        """Keep a value until it is released.

        Raises:
            SegmentNotFoundError: it is just being deleted.
        """
        if not self.use.hold(number):
            raise SegmentNotFoundError(
                "large value is being deleted", segment=self._names.large_segment(number)
            )

    async def whole(self, key: ObjectKey, head: Head, place: LargePlace) -> bytes:
        """Read all bytes of a value. Raises what ``LargeValue.read_around`` does."""
        self.hold(place.number)
        try:
            parts = self.value(key, head, place).parts()
            return b"".join([part async for part in parts])
        finally:
            self.use.release(place.number)
