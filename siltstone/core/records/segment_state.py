"""The state row: what the container decides about a segment, acknowledged without waiting for I/O.

Value, under the key of the segment's id::

    kind: u8 = 2
    version: u8 = 1
    flags: u8             1 = sealed | 2 = deleted
    name: text
    start_offset: uvarint
    sealed_length: uvarint    only if sealed
    created_ms: uvarint
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from siltstone.core.records.keys import RowKind
from siltstone.core.records.wire import Reader, head, text, uvarint

VERSION = 1
_DECODED_MAX = 1_024
"""Reads look at the states of the same few segments again and again."""
_SEALED = 1
_DELETED = 2
_HEADS = [head(RowKind.STATE, VERSION) + bytes((flags,)) for flags in range(4)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentState:
    """State of one segment.

    Attributes:
        segment_id: never used again.
        name: the segment's name.
        start_offset: first readable offset in bytes.
        sealed_length: the final length once sealed, else ``None``.
        deleted: no reader may use it any more; its rows and chunks go in slices.
        created_ms: time of creation, milliseconds since 1970, set by the owner.
    """

    segment_id: int
    name: str
    start_offset: int = 0
    sealed_length: int | None = None
    deleted: bool = False
    created_ms: int = 0


def encode_segment_state(state: SegmentState) -> bytes:
    """Encode the value of the row; the segment's id is in its key."""
    sealed = state.sealed_length
    flags = (_SEALED if sealed is not None else 0) | (_DELETED if state.deleted else 0)
    end = b"" if sealed is None else uvarint(sealed)
    return _encoded(flags, state.name, uvarint(state.start_offset) + end, state.created_ms)


def encode_new_state(name: str, created_ms: int) -> bytes:
    """Encode the value of the row of a segment that is open and empty."""
    return _encoded(0, name, uvarint(0), created_ms)


def _encoded(flags: int, name: str, bounds: bytes, created_ms: int) -> bytes:
    return b"".join((_HEADS[flags], text(name), bounds, uvarint(created_ms)))


@lru_cache(maxsize=_DECODED_MAX)
def decode_segment_state(segment_id: int, value: bytes) -> SegmentState:
    """Decode the value of the row of this segment.

    Raises:
        FormatError: of another kind or version.
        CorruptDataError: damaged.
    """
    where = f"state of segment {segment_id}"
    reader = Reader(value, kind=RowKind.STATE, version=VERSION, where=where)
    flags = reader.flags(_SEALED | _DELETED)
    state = SegmentState(
        segment_id=segment_id,
        name=reader.text(),
        start_offset=reader.uvarint(),
        sealed_length=reader.uvarint() if flags & _SEALED else None,
        deleted=bool(flags & _DELETED),
        created_ms=reader.uvarint(),
    )
    reader.end()
    return state
