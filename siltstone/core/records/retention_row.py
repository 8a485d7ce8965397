"""The retention row: how much of a segment, or of all segments of a prefix, is kept.

Value, under the key of scope and name::

    kind: u8 = 15
    version: u8 = 1
    flags: u8             1 = limit of bytes | 2 = limit of age
    bytes_max: uvarint    only with flag 1
    age_max_ms: uvarint   only with flag 2
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from siltstone.core.errors import FormatError
from siltstone.core.records.keys import RowKind
from siltstone.core.records.wire import Reader, head, uvarint

VERSION = 1
_BYTES = 1
_AGE = 2


class RetentionScope(IntEnum):
    """What a rule is about. Numbers are persisted and never change."""

    PREFIX = 1
    """Every segment whose name starts with the rule's, now and later."""
    SEGMENT = 2
    """The one segment of this name, whenever it exists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRow:
    """One rule. With neither limit everything is kept, whatever a shorter prefix says.

    Attributes:
        scope: what it is about.
        name: the segment, or the beginning of the names of segments; a prefix may be empty.
        bytes_max: older bytes go while the segment holds more than this many.
        age_max_ms: what was appended longer ago goes, milliseconds.
    """

    scope: RetentionScope
    name: str
    bytes_max: int | None = None
    age_max_ms: int | None = None


def encode_retention_row(row: RetentionRow) -> bytes:
    """Encode the value of the row; scope and name are in its key."""
    size, age = row.bytes_max, row.age_max_ms
    flags = (0 if size is None else _BYTES) | (0 if age is None else _AGE)
    numbers = (uvarint(number) for number in (size, age) if number is not None)
    return head(RowKind.RETENTION, VERSION) + bytes((flags,)) + b"".join(numbers)


def decode_retention_row(scope: int, name: str, value: bytes) -> RetentionRow:
    """Decode the value of the row of this scope and name.

    Raises:
        FormatError: of another kind or version, or of an unknown scope.
        CorruptDataError: damaged.
    """
    where = f"retention of {name!r}"
    reader = Reader(value, kind=RowKind.RETENTION, version=VERSION, where=where)
    if scope not in set(RetentionScope):
        raise FormatError("retention of an unknown scope", scope=scope, row=where)
    flags = reader.flags(_BYTES | _AGE)
    row = RetentionRow(
        scope=RetentionScope(scope),
        name=name,
        bytes_max=reader.uvarint() if flags & _BYTES else None,
        age_max_ms=reader.uvarint() if flags & _AGE else None,
    )
    reader.end()
    return row
