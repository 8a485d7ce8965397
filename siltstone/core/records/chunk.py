"""The chunk row: what is known of one chunk.

Value, under the key of the chunk's id. What never changes comes first, so that growing is a splice
of the tail::

    kind: u8 = 5
    version: u8 = 1, or 2 when it is in place
    fixed: u8             1 = adopted
    epoch: uvarint
    name: text
    session_id: uvarint   in version 2 alone
    -- tail --
    flags: u8             1 = closed
    length: uvarint
    references: uvarint
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from siltstone.core.records.keys import RowKind
from siltstone.core.records.wire import Reader, head, text, uvarint

VERSION = 1
VERSION_IN_PLACE = 2
_ADOPTED = 1
_CLOSED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """One chunk; its bytes below ``length`` never change.

    Attributes:
        chunk_id: never used again; above 0.
        name: key on long-term storage.
        epoch: the only epoch that may write it; an adopted chunk has 0.
        length: committed bytes; the physical length is never less.
        closed: nothing is appended any more.
        adopted: made by another program, never appended to, merged only by copying.
        references: count of extents that name it.
        session_id: the import session that took an object where it was, as it was; 0 for every
            chunk that was made to be one.
    """

    chunk_id: int
    name: str
    epoch: int
    length: int
    closed: bool = False
    adopted: bool = False
    references: int = 1
    session_id: int = 0

    @property
    def in_place(self) -> bool:
        """Whether it is an object that was there before: never rewritten, and maybe kept."""
        return self.session_id > 0


def end_chunk(chunk: Chunk) -> Chunk:
    """The row of a chunk to which its segment no longer writes.

    One in place that is open stays open: its bytes may be followed by others that were written and
    never committed by a transaction.
    """
    return replace(chunk, closed=chunk.closed or not chunk.in_place)


def encode_chunk_head(chunk: Chunk) -> bytes:
    """Encode the part of the value that never changes."""
    fixed = bytes((_ADOPTED if chunk.adopted else 0,))
    version = VERSION_IN_PLACE if chunk.in_place else VERSION
    begin = head(RowKind.CHUNK, version) + fixed + uvarint(chunk.epoch) + text(chunk.name)
    return begin + uvarint(chunk.session_id) if chunk.in_place else begin


def encode_chunk_tail(chunk: Chunk) -> bytes:
    """Encode the part of the value that changes."""
    flags = bytes((_CLOSED if chunk.closed else 0,))
    return flags + uvarint(chunk.length) + uvarint(chunk.references)


def encode_chunk(chunk: Chunk) -> bytes:
    """Encode the value of the row; the chunk's id is in its key."""
    return encode_chunk_head(chunk) + encode_chunk_tail(chunk)


def decode_chunk(chunk_id: int, value: bytes) -> Chunk:
    """Decode the value of the row of this chunk.

    Raises:
        FormatError: of another kind or version.
        CorruptDataError: damaged.
    """
    in_place = value[1:2] == bytes((VERSION_IN_PLACE,))
    version = VERSION_IN_PLACE if in_place else VERSION
    where = f"chunk {chunk_id}"
    reader = Reader(value, kind=RowKind.CHUNK, version=version, where=where, known=VERSION_IN_PLACE)
    adopted = reader.flags(_ADOPTED)
    epoch = reader.uvarint()
    name = reader.text()
    session_id = reader.uvarint() if in_place else 0
    closed = reader.flags(_CLOSED)
    chunk = Chunk(
        chunk_id=chunk_id,
        name=name,
        epoch=epoch,
        length=reader.uvarint(),
        closed=bool(closed),
        adopted=bool(adopted),
        references=reader.uvarint(),
        session_id=session_id,
    )
    reader.end()
    if in_place and not session_id:
        raise reader.damaged("chunk in place of no session")
    return chunk
