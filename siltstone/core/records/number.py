"""The number row: an id or a counter, and nothing else.

Value::

    kind: u8              name 1 | writer name 8 | table 10 | counter 12
    version: u8 = 1
    number: uvarint
"""

from __future__ import annotations

from siltstone.core.records.keys import RowKind
from siltstone.core.records.wire import Reader, head, uvarint

VERSION = 1
_WHERE = {kind: f"{kind.name.lower()} row" for kind in RowKind}


def encode_number(kind: RowKind, number: int) -> bytes:
    """Encode the value of a number row of this kind."""
    return head(kind, VERSION) + uvarint(number)


def decode_number(kind: RowKind, value: bytes) -> int:
    """Decode the value of a number row of this kind.

    Raises:
        FormatError: of another kind or version.
        CorruptDataError: damaged.
    """
    reader = Reader(value, kind=kind, version=VERSION, where=_WHERE[kind])
    number = reader.uvarint()
    reader.end()
    return number
