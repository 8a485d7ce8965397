"""The import row: a session in which other processes bring chunks, and what became of it.

Value, under the key of the session's name::

    kind: u8 = 16
    version: u8 = 1, or 2 when it adopts objects in place
    state: u8             1 = open | 2 = committed | 3 = aborted
    session_id: uvarint
    made_ms: uvarint
    expires_ms: uvarint
    closed_ms: uvarint    0 while it is open
    count: uvarint
    part[count]:
        name: text        of a segment
        segment_id: uvarint
        offset: uvarint
        length: uvarint
    adoption: text        in version 2 alone
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from siltstone.core.errors import FormatError
from siltstone.core.records.keys import RowKind
from siltstone.core.records.wire import Reader, head, text, uvarint

VERSION = 1
VERSION_ADOPTING = 2
PARTS_MAX = 1_000
"""Segments that one session gives bytes to."""


class ImportState(IntEnum):
    """How far a session has come. Numbers are persisted and never change."""

    OPEN = 1
    COMMITTED = 2
    ABORTED = 3


_STATES = frozenset(ImportState)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedPart:
    """Bytes of one segment that a session brings.

    Attributes:
        name: of the segment that gets them.
        segment_id: while the session is open, the hidden segment that holds them meanwhile; then
            the segment that got them.
        offset: where they begin in the segment; 0 while the session is open.
        length: bytes, 0 or more.
    """

    name: str
    segment_id: int
    offset: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRow:
    """One session.

    Attributes:
        name: chosen by the caller that opened it; a repeat is known by it.
        session_id: never used again; the session's chunks lie under its prefix.
        state: how far it has come.
        made_ms: milliseconds since 1970.
        expires_ms: from then on it is aborted if it is still open.
        closed_ms: when it was committed or aborted; 0 before.
        parts: see there; none before a commit has begun, and none of an aborted session.
        adoption: what objects that it takes in place belong to; empty when it takes none.
    """

    name: str
    session_id: int
    state: ImportState
    made_ms: int
    expires_ms: int
    closed_ms: int = 0
    parts: tuple[ImportedPart, ...] = ()
    adoption: str = ""


def encode_import_row(row: ImportRow) -> bytes:
    """Encode the value of the row; the name is in its key."""
    numbers = (row.session_id, row.made_ms, row.expires_ms, row.closed_ms, len(row.parts))
    version = VERSION_ADOPTING if row.adoption else VERSION
    out = [head(RowKind.IMPORT, version), bytes((row.state,)), *map(uvarint, numbers)]
    for part in row.parts:
        out.append(text(part.name))
        out += map(uvarint, (part.segment_id, part.offset, part.length))
    if row.adoption:
        out.append(text(row.adoption))
    return b"".join(out)


def decode_import_row(name: str, value: bytes) -> ImportRow:
    """Decode the value of the row of the session of this name.

    Raises:
        FormatError: of another kind or version, or in an unknown state.
        CorruptDataError: damaged.
    """
    where = f"import {name!r}"
    adopting = value[1:2] == bytes((VERSION_ADOPTING,))
    version = VERSION_ADOPTING if adopting else VERSION
    reader = Reader(
        value, kind=RowKind.IMPORT, version=version, where=where, known=VERSION_ADOPTING
    )
    state = reader.u8()
    if state not in _STATES:
        raise FormatError("import in an unknown state", state=state, row=where)
    session_id, made_ms, expires_ms, closed_ms = (reader.uvarint() for _ in range(4))
    count = reader.uvarint()
    if count > PARTS_MAX:
        raise reader.damaged("import of an impossible number of parts")
    row = ImportRow(
        name=name,
        session_id=session_id,
        state=ImportState(state),
        made_ms=made_ms,
        expires_ms=expires_ms,
        closed_ms=closed_ms,
        parts=tuple(_part(reader) for _ in range(count)),
        adoption=reader.text() if adopting else "",
    )
    reader.end()
    return row


def _part(reader: Reader) -> ImportedPart:
    return ImportedPart(
        name=reader.text(),
        segment_id=reader.uvarint(),
        offset=reader.uvarint(),
        length=reader.uvarint(),
    )
