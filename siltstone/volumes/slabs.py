"""Pages of one commit as slabs: up to 64 pages that are compressed, summed and fetched together."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator
from itertools import islice

import zstandard
from pyroaring import BitMap

from siltstone.core.checksums import crc32c
from siltstone.core.errors import CorruptDataError
from siltstone.volumes.records.commit_record import (
    DIGEST_BYTES,
    SLAB_PAGES,
    Codec,
    CommitRecord,
    Slab,
)
from siltstone.volumes.records.page_row import PAGE_BYTES

_U32 = struct.Struct("<I")


class BundleWriter:
    """Makes the bytes of a bundle of pages that come in ascending order, slab by slab.

    Args:
        level: of zstd's compression, 1 to 22.

    Attributes:
        slabs: those whose bytes were taken.
        stored: indexes of the pages in them.
    """

    def __init__(self, level: int) -> None:
        self._compressor = zstandard.ZstdCompressor(level=level)
        self._content = hashlib.blake2b(digest_size=DIGEST_BYTES)
        self.slabs: list[Slab] = []
        self.stored = BitMap()

    def pieces(self, pages: Iterable[tuple[int, bytes]]) -> Iterator[bytes]:
        """Yield the bytes of each slab of ``pages``: index, and 4,096 bytes."""
        remaining = iter(pages)
        while group := list(islice(remaining, SLAB_PAGES)):
            for index, page in group:
                self._content.update(_U32.pack(index))
                self._content.update(page)
            self.stored.update(index for index, _ in group)
            plain = b"".join(page for _, page in group)
            packed = self._compressor.compress(plain)
            codec, piece = (Codec.ZSTD, packed) if len(packed) < len(plain) else (Codec.RAW, plain)
            self.slabs.append(Slab(length=len(piece), codec=codec, crc=crc32c(piece)))
            yield piece

    @property
    def content(self) -> bytes:
        """Digest of the pages so far."""
        return self._content.digest()


def place_of_page(record: CommitRecord, index: int) -> tuple[int, int]:
    """Return which slab of a record's bundle has a page, and which of its pages it is."""
    return divmod(record.stored.rank(index) - 1, SLAB_PAGES)


def slab_range(record: CommitRecord, first: int, count: int) -> tuple[int, int]:
    """Offset and length of neighbouring slabs in their bundle."""
    offset = sum(slab.length for slab in record.slabs[:first])
    return offset, sum(slab.length for slab in record.slabs[first : first + count])


def slab_indexes(record: CommitRecord, number: int) -> list[int]:
    """Indexes of the pages of a slab."""
    first = number * SLAB_PAGES
    return list(record.stored[first : first + SLAB_PAGES])


def read_slab(record: CommitRecord, number: int, piece: bytes, *, where: str) -> list[bytes]:
    """Return the pages of a slab, in the order of their indexes.

    Raises:
        CorruptDataError: the bytes are not those that were pushed.
    """
    slab = record.slabs[number]
    if len(piece) != slab.length:
        raise CorruptDataError("bundle is cut", where=where, slab=number, length=len(piece))
    if crc32c(piece) != slab.crc:
        raise CorruptDataError("slab does not match its sum", where=where, slab=number)
    count = min(SLAB_PAGES, len(record.stored) - number * SLAB_PAGES)
    length = count * PAGE_BYTES
    plain = piece
    if slab.codec is Codec.ZSTD:
        try:
            plain = zstandard.ZstdDecompressor().decompress(piece, max_output_size=length)
        except zstandard.ZstdError as error:
            raise CorruptDataError(
                "slab cannot be decompressed", where=where, slab=number
            ) from error
    if len(plain) != length:
        raise CorruptDataError("slab has another length", where=where, slab=number)
    return [plain[start : start + PAGE_BYTES] for start in range(0, length, PAGE_BYTES)]
