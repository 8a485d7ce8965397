"""Sets of page indexes as bytes: Roaring bitmaps in their portable form.

The form is that of the Roaring format specification (RoaringFormatSpec), which other languages read
as well; a run of neighbours costs four bytes.
"""

from __future__ import annotations

from pyroaring import BitMap

from siltstone.core.errors import CorruptDataError


def encode_pages(pages: BitMap) -> bytes:
    """Encode a set of indexes."""
    small = pages.copy()
    small.run_optimize()
    return bytes(small.serialize())


def decode_pages(data: bytes, *, where: str) -> BitMap:
    """Decode a set whose bytes were checked by a sum. Raises ``CorruptDataError``."""
    try:
        return BitMap.deserialize(data)
    except ValueError as error:
        raise CorruptDataError("set of pages cannot be read", where=where) from error
