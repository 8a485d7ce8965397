"""How far the copying into a session came, noted next to its chunks on long-term storage.

A chunk is noted once its write was acknowledged. So a process that continues the session of one
that died needs to read neither the chunk nor its source again. Notes are removed with the session:
what no segment names is deleted when it is closed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from siltstone.container.models.imports import ImportedChunk, ImportTicket
from siltstone.core.chunk_names import imported_attempt
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.closed_on_exit import Closing
from siltstone.core.constants import MIB
from siltstone.core.errors import CorruptDataError
from siltstone.core.records.import_note import (
    ImportNote,
    NotedChunk,
    decode_import_note,
    encode_import_note,
)
from siltstone.store.handles.import_writer import ImportWriter

NOTE_BYTES: Final = 32 * MIB
"""One note tells of this much or more; a repeat copies as much again, and what was on its way."""

NOTE_CHUNKS: Final = 256
"""Small chunks are noted more often, as a note is one small object."""

ATTEMPT: Final = 1
"""In names of notes; chunks have 0."""


def read_notes(
    storage: ChunkStorage, ticket: ImportTicket, chunk_bytes: int
) -> dict[int, ImportedChunk]:
    """The chunks of an open session that are whole, by the index of their piece.

    Args:
        storage: where they are.
        ticket: of the session.
        chunk_bytes: the size that what is brought is cut by now.

    Raises:
        FormatError: a newer version made a note.
        ChunkError: long-term storage did not answer.
    """
    lengths = {found.name: found.length for found in storage.list(ticket.prefix)}
    found: dict[int, ImportedChunk] = {}
    for name, length in lengths.items():
        if imported_attempt(name, ticket.prefix) != ATTEMPT:
            continue
        buffer = bytearray(length)
        count = storage.read_into(name, 0, buffer)
        try:
            note = decode_import_note(memoryview(buffer)[:count], where=name)
        except CorruptDataError:
            continue  # of a process that died while it wrote it
        if note.chunk_bytes == chunk_bytes:
            found |= {
                one.piece: ImportedChunk(name=one.name, length=one.length, sums=one.sums)
                for one in note.chunks
                if lengths.get(one.name) == one.length
            }
    return found


class ImportNotes(Closing):
    """Writes notes. Not for several threads.

    Args:
        path: the settings file of the store, or its folder.
        ticket: of the session.
    """

    def __init__(self, path: Path | str, ticket: ImportTicket) -> None:
        self._writer = ImportWriter(path, ticket, partition=0, attempt=ATTEMPT)
        self._fresh: list[NotedChunk] = []

    @property
    def chunk_bytes(self) -> int:
        """The size that what is brought is cut by."""
        return self._writer.chunk_bytes

    def add(self, piece: int, chunk: ImportedChunk) -> None:
        """Note a chunk whose write was acknowledged, now or soon. Raises ``ChunkError``."""
        assert chunk.sums is not None, "what is copied has sums"
        self._fresh.append(
            NotedChunk(piece=piece, length=chunk.length, name=chunk.name, sums=chunk.sums)
        )
        length = sum(one.length for one in self._fresh)
        if length < NOTE_BYTES and len(self._fresh) < NOTE_CHUNKS:
            return
        note = ImportNote(chunk_bytes=self.chunk_bytes, chunks=tuple(self._fresh))
        part = self._writer.new_part()
        part.write(encode_import_note(note))
        part.finish()
        self._fresh.clear()

    def close(self) -> None:
        """Free what is held; chunks that were added last may go without a note. Idempotent."""
        self._writer.close()
