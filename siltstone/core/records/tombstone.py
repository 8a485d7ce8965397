"""The tombstone row: what became of a name that is gone, so that a repeat is recognised.

Value, under the key of the name::

    kind: u8 = 11
    version: u8 = 1
    source_id: uvarint
    target_id: uvarint
    offset: uvarint
    length: uvarint
    made_ms: uvarint
"""

from __future__ import annotations

from dataclasses import dataclass

from siltstone.core.records.keys import RowKind
from siltstone.core.records.wire import Reader, head, uvarint

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstone:
    """A name whose segment became a part of another one, or was renamed.

    Attributes:
        name: the source's name, or the old one.
        source_id: the segment's id.
        target_id: the segment that took its bytes; the same segment when it was renamed.
        offset: where they begin in the target; 0 for a rename.
        length: how many they are; 0 for a rename.
        made_ms: when, milliseconds since 1970.
    """

    name: str
    source_id: int
    target_id: int
    offset: int
    length: int
    made_ms: int

    @property
    def is_rename(self) -> bool:
        """Whether the segment has another name now: none is ever joined to itself."""
        return self.source_id == self.target_id


def encode_tombstone(tombstone: Tombstone) -> bytes:
    """Encode the value of the row; the name is in its key."""
    return b"".join(
        (
            head(RowKind.TOMBSTONE, VERSION),
            uvarint(tombstone.source_id),
            uvarint(tombstone.target_id),
            uvarint(tombstone.offset),
            uvarint(tombstone.length),
            uvarint(tombstone.made_ms),
        )
    )


def decode_tombstone(name: str, value: bytes) -> Tombstone:
    """Decode the value of the row of this name.

    Raises:
        FormatError: of another kind or version.
        CorruptDataError: damaged.
    """
    where = f"tombstone of {name!r}"
    reader = Reader(value, kind=RowKind.TOMBSTONE, version=VERSION, where=where)
    tombstone = Tombstone(
        name=name,
        source_id=reader.uvarint(),
        target_id=reader.uvarint(),
        offset=reader.uvarint(),
        length=reader.uvarint(),
        made_ms=reader.uvarint(),
    )
    reader.end()
    return tombstone
