"""A note of an import: which chunks of a session hold which pieces of its files, durably.

The object ``<prefix of the session>00000-1-<nonce>``. Body of a record of kind 8, version 1,
little-endian::

    chunk_bytes: u64
    count: u32, then for each:
        piece: u32
        length: u64
        name: text
        sum_count: u32, sums: u32[sum_count]

The envelope is that of ``siltstone.core.records.envelope``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from siltstone.core.constants import BLOCK_BYTES, Buffer
from siltstone.core.records.envelope import RecordKind, open_only, seal
from siltstone.core.records.fields import FieldReader, FieldWriter

VERSION = 1

_HEAD = struct.Struct("<QI")
_CHUNK = struct.Struct("<IQ")
_COUNT = struct.Struct("<I")


@dataclass(frozen=True, slots=True, kw_only=True)
class NotedChunk:
    """A chunk that was acknowledged.

    Attributes:
        piece: index of the piece that it holds.
        length: bytes, at least 1.
        name: its key.
        sums: CRC32C of each block of 256 KiB; the last one may be shorter.
    """

    piece: int
    length: int
    name: str
    sums: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportNote:
    """Some chunks of a session.

    Attributes:
        chunk_bytes: the size that the files were cut by; with another size the pieces are others.
        chunks: each of a piece of its own.
    """

    chunk_bytes: int
    chunks: tuple[NotedChunk, ...]


def encode_import_note(note: ImportNote) -> bytes:
    """Encode the content of a note."""
    fields = FieldWriter()
    fields.put(_HEAD, note.chunk_bytes, len(note.chunks))
    for chunk in note.chunks:
        assert len(chunk.sums) == _block_count(chunk.length), "each block has a sum"
        fields.put(_CHUNK, chunk.piece, chunk.length)
        fields.put_text(chunk.name)
        fields.put(_COUNT, len(chunk.sums))
        fields.put(struct.Struct(f"<{len(chunk.sums)}I"), *chunk.sums)
    return seal(RecordKind.IMPORT_NOTE, VERSION, fields.to_bytes())


def decode_import_note(data: Buffer, *, where: str) -> ImportNote:
    """Decode the content of a note.

    Raises:
        CorruptDataError: damaged, or not the whole of it; ``where`` is named.
        FormatError: a newer version of the record.
    """
    fields = FieldReader(open_only(data, RecordKind.IMPORT_NOTE, VERSION, where=where), where=where)
    chunk_bytes, count = fields.take(_HEAD)
    chunks = tuple(_chunk(fields) for _ in range(count))
    fields.finish()
    return ImportNote(chunk_bytes=chunk_bytes, chunks=chunks)


def _chunk(fields: FieldReader) -> NotedChunk:
    piece, length = fields.take(_CHUNK)
    name = fields.take_text()
    (count,) = fields.take(_COUNT)
    if not length or count != _block_count(length):
        raise fields.damage("sums that are not those of the length")
    sums = fields.take(struct.Struct(f"<{count}I"))
    return NotedChunk(piece=piece, length=length, name=name, sums=sums)


def _block_count(length: int) -> int:
    return -(-length // BLOCK_BYTES)
