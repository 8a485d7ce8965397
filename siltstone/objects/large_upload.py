"""Uploading a large value: its bytes become a segment, which the commit of a put makes whole.

A row says that the value is being uploaded before its segment is there. The put's commit appends
the last bytes of the segment and makes the value live, so without tier 1 it is there or not as the
head is. What is left of an upload that failed is deleted when its row says that no put has it.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from typing import TYPE_CHECKING, BinaryIO, Final

from siltstone.core.checksums import crc32c
from siltstone.core.constants import MIB
from siltstone.core.errors import ClosedError, SiltstoneError
from siltstone.objects.changes import UploadedValue, hash_after
from siltstone.objects.large_tasks import do_large_tasks
from siltstone.objects.records.keys import LargeStatus, large_key
from siltstone.objects.records.large_place import SUM_BYTES, LargePlace
from siltstone.objects.records.large_row import LargeRow, encode_large_row
from siltstone.store.handles.streams import read_some

if TYPE_CHECKING:
    from siltstone.objects.batch import PutResult
    from siltstone.objects.batches import BatchWriter
    from siltstone.objects.changes import PutRequest
    from siltstone.objects.space_parts import SpaceParts

_log = logging.getLogger(__name__)

UPLOAD_BYTES: Final = 4 * MIB
"""Appended at a time, and read of a stream."""


class ValueSums:
    """The sums of a value that comes bit by bit. Not for several threads at once.

    Args:
        piece_bytes: bytes of each piece that gets a sum, at least 1.
        metadata: of the object; ``None`` means that no hash is wanted.

    Attributes:
        piece_bytes: the same.
        size: bytes that came.
    """

    def __init__(self, piece_bytes: int, metadata: bytes | None) -> None:
        self.piece_bytes = piece_bytes
        self._hash = None if metadata is None else hash_after(metadata)
        self._sums = bytearray()
        self._crc = 0
        self.size = 0

    def add(self, data: bytes) -> None:
        """Take the bytes that follow."""
        if self._hash is not None:
            self._hash.update(data)
        view = memoryview(data)
        position = 0
        while position < len(view):
            room = self.piece_bytes - self.size % self.piece_bytes
            part = view[position : position + room]
            self._crc = crc32c(part, self._crc)
            position += len(part)
            self.size += len(part)
            if not self.size % self.piece_bytes:
                self._end_piece()

    def _end_piece(self) -> None:
        self._sums += struct.pack("<I", self._crc)
        self._crc = 0

    def end(self) -> tuple[bytes, bytes | None]:
        """The sums of all pieces, and the hash of the value if it is wanted. Called once."""
        if self.size % self.piece_bytes:
            self._end_piece()
        return bytes(self._sums), None if self._hash is None else self._hash.digest()


class LargeUpload:
    """One upload. ``begin_upload`` makes it; it ends by ``put`` or ``abort``.

    Args:
        space: the keyspace.
        batches: takes the put.
        number: of the value, which is in use as one that is uploaded.
        version: of the row that says so.

    """

    def __init__(self, space: SpaceParts, batches: BatchWriter, number: int, version: int) -> None:
        self._space = space
        self._batches = batches
        self._number = number
        self._version = version
        self._segment = space.store.segment(space.names.large_segment(number))
        self._length = 0
        self._flying: asyncio.Future[int] | None = None
        self._put: asyncio.Future[PutResult] | None = None
        self._aborted = False
        self._append_bytes = min(UPLOAD_BYTES, self._segment.append_bytes_max)

    async def push(self, data: bytes) -> None:
        """Begin to append bytes of the value, after those before are durable.

        Raises what an append raises, of these bytes or of those before.
        """
        for start in range(0, len(data), self._append_bytes):
            part = data[start : start + self._append_bytes]
            await self._settle()
            self._space.check_living()
            self._flying = self._segment.append(part, expected_offset=self._length)
            self._length += len(part)

    async def _settle(self) -> None:
        flying, self._flying = self._flying, None
        if flying is not None:
            await flying

    async def put(self, request: PutRequest, sums: ValueSums) -> PutResult:
        """Put the object whose value was written; the upload ends, whatever comes of it.

        Cancelling frees the caller; the change may still take place.

        Args:
            request: all of the put but the value.
            sums: which took the bytes that were written.

        Raises what a put raises.
        """
        found, value_hash = sums.end()
        await self.push(found[:-SUM_BYTES])
        await self._settle()
        if self._aborted:
            raise ClosedError("the upload was given up")
        place = LargePlace(self._number, sums.piece_bytes, crc32c(found))
        uploaded = UploadedValue(
            place=place,
            size=sums.size,
            segment=self._segment.name,
            length=self._length,
            last=found[-SUM_BYTES:],
            version=self._version,
        )
        whole = request._replace(
            value=b"",
            value_crc=b"",
            value_hash=request.value_hash if value_hash is None else value_hash,
            uploaded=uploaded,
        )
        self._put = self._batches.put(whole)
        self._put.add_done_callback(lambda _: self._space.large.use.end_upload(self._number))
        return await asyncio.shield(self._put)

    async def abort(self) -> None:
        """Delete what was uploaded, unless a put has it; what fails is done in a minute."""
        self._aborted = True
        if self._flying is not None:
            self._flying.add_done_callback(_heard)
        if self._put is not None and not self._put.done():
            return  # it may still take place, and ends the upload then
        self._space.large.use.end_upload(self._number)
        try:
            await do_large_tasks(self._space)
        except SiltstoneError as error:
            _log.warning("large value of keyspace %s: %s", self._space.names.name, error)


def _heard(appended: asyncio.Future[int]) -> None:
    """Take an error that nothing is left to hear of."""
    if not appended.cancelled():
        appended.exception()


async def begin_upload(space: SpaceParts, batches: BatchWriter) -> LargeUpload:
    """Begin to upload a large value. Raises what a put raises; then nothing of it stays."""
    number = await batches.number()
    space.check_living()
    use = space.large.use
    use.begin_upload(number)
    try:
        row_key = large_key(LargeStatus.UPLOADING, number)
        ledger = space.store.table(space.names.ledger)
        version = await ledger.put(row_key, encode_large_row(LargeRow()))
        await space.store.create(space.names.large_segment(number))
    except BaseException:
        use.end_upload(number)  # what is there of it is deleted in a minute
        raise
    return LargeUpload(space, batches, number, version)


class StreamValue:
    """A stream whose bytes become a value. On one thread at a time.

    Args:
        stream: is read.
        size: most bytes of one read.
        sums: take what is read.
    """

    def __init__(self, stream: BinaryIO, size: int, sums: ValueSums) -> None:
        self._stream = stream
        self._size = size
        self.sums = sums

    def read(self) -> bytes:
        """Read some bytes; none only at the end of the stream."""
        data = read_some(self._stream, self._size)
        self.sums.add(data)
        return data

    def beginning(self, length: int) -> tuple[list[bytes], bool]:
        """Read more than ``length`` bytes, if the stream has as many; also says whether it has."""
        parts: list[bytes] = []
        while self.sums.size <= length:
            parts.append(self.read())
            if not parts[-1]:
                return parts, False
        return parts, True
