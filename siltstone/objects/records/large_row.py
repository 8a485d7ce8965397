"""The rows of a ledger about large values, which are segments of their own.

The key says how far the value is, and which it is (``keys.large_key``). Layout of the row, with the
shapes of ``core/records/wire.py``::

    large:     kind: u8 = 7, version: u8 = 1
               sqn: uvarint             of the change that made it live; 0 for none
               size: uvarint            bytes of the value; 0 as long as that is unknown
               not_before_s: uvarint    when a dead one may be deleted first, seconds since 1970
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from siltstone.core.records.wire import Reader, head, uvarint

_LARGE: Final = 7
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class LargeRow:
    """A large value.

    Attributes:
        sqn: of the change that made it live; 0 for none.
        size: its bytes; 0 as long as that is unknown.
        not_before_s: when a dead one may be deleted first, seconds since 1970.
    """

    sqn: int = 0
    size: int = 0
    not_before_s: int = 0


def encode_large_row(row: LargeRow) -> bytes:
    """Encode the value of the row."""
    numbers = (row.sqn, row.size, row.not_before_s)
    return head(_LARGE, _VERSION) + b"".join(map(uvarint, numbers))


def decode_large_row(value: bytes, *, where: str) -> LargeRow:
    """Decode the value of the row. Raises ``CorruptDataError`` and ``FormatError``."""
    reader = Reader(value, kind=_LARGE, version=_VERSION, where=where)
    row = LargeRow(sqn=reader.uvarint(), size=reader.uvarint(), not_before_s=reader.uvarint())
    reader.end()
    return row
