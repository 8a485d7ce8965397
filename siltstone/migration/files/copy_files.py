"""Copying files into chunks of an import session, some at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, count, islice
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from siltstone.container.import_views import ImportedChunk, ImportTicket
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.streamed_creates import PIECE_BYTES
from siltstone.migration.files.file_errors import changed, naming
from siltstone.migration.files.import_notes import ImportNotes, read_notes
from siltstone.migration.files.import_plan import Group, PlannedSegment, Source, version_of
from siltstone.store.import_writer import ImportWriter

THREADS: Final = 4
"""Chunks that are read and written at a time: while one waits for the disk, others are copied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Some bytes of a file."""

    source: Source
    offset: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """What becomes one chunk."""

    stretches: tuple[Stretch, ...]

    @property
    def length(self) -> int:
        """Bytes of the chunk."""
        return sum(stretch.length for stretch in self.stretches)


def pieces(segment: PlannedSegment, chunk_bytes: int) -> Iterator[Piece]:
    """Cut the bytes of a segment into pieces of ``chunk_bytes``; the last one may be shorter."""
    held: list[Stretch] = []
    room = chunk_bytes
    for source in segment.sources:
        offset = 0
        while offset < source.length:
            length = min(room, source.length - offset)
            held.append(Stretch(source=source, offset=offset, length=length))
            offset += length
            room -= length
            if not room:
                yield Piece(stretches=tuple(held))
                held, room = [], chunk_bytes
    if held:
        yield Piece(stretches=tuple(held))


def copy_group(
    path: Path | str,
    storage: ChunkStorage,
    ticket: ImportTicket,
    group: Group,
    progress: Callable[[int], None],
) -> list[tuple[ImportedChunk, ...]]:
    """Copy the sources of a group; return the chunks of each segment, durable.

    What an earlier call has copied into the same session, and noted, is not copied again.

    Args:
        path: the settings file of the store, or its folder.
        storage: its long-term storage.
        ticket: of the session, which is open.
        group: what is copied.
        progress: called with the bytes of each chunk.

    Raises:
        StoreError: a source has changed since it was planned.
        OSError: one can not be read.
        ChunkError: storage failed.
    """
    with ExitStack() as stack:
        free: SimpleQueue[_Hand] = SimpleQueue()
        for number in range(THREADS):
            writer = ImportWriter(path, ticket, partition=number, attempt=0)
            stack.callback(writer.close)
            free.put(_Hand(writer))
        chunk_bytes = writer.chunk_bytes
        notes = stack.enter_context(ImportNotes(path, ticket, chunk_bytes))
        known = read_notes(storage, ticket, chunk_bytes)
        threads = ThreadPoolExecutor(THREADS, thread_name_prefix="siltstone-import")
        stack.callback(threads.shutdown, cancel_futures=True)

        def copy(piece: Piece) -> ImportedChunk:
            hand = free.get()
            try:
                return hand.copy(piece)
            finally:
                free.put(hand)

        cut = [list(pieces(segment, chunk_bytes)) for segment in group.segments]
        begun = {
            number: threads.submit(copy, piece)
            for number, piece in enumerate(chain.from_iterable(cut))
            if number not in known or known[number].length != piece.length
        }
        found = []
        numbers = count()
        for some in cut:
            chunks = []
            for number in islice(numbers, len(some)):
                if number in begun:
                    chunks.append(begun[number].result())
                    notes.add(number, chunks[-1])
                else:
                    chunks.append(known[number])
                progress(chunks[-1].length)
            found.append(tuple(chunks))
    for segment in group.segments:
        for source in segment.sources:
            if version_of(os.stat(source.path)) != source.version:
                raise changed(source.path)
    return found


class _Hand:
    """What one thread copies with."""

    def __init__(self, writer: ImportWriter) -> None:
        self._writer = writer
        self._room = memoryview(bytearray(PIECE_BYTES))

    def copy(self, piece: Piece) -> ImportedChunk:
        """Make a chunk of a piece, durably."""
        return self._writer.write_chunk(piece.length, lambda: self._read(piece))

    def _read(self, piece: Piece) -> Iterator[memoryview]:
        for stretch in piece.stretches:
            yield from _pieces(stretch, self._room)


def _pieces(stretch: Stretch, room: memoryview) -> Iterator[memoryview]:
    path, done = stretch.source.path, 0
    with naming(path):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            while done < stretch.length:
                want = min(len(room), stretch.length - done)
                count = os.preadv(fd, [room[:want]], stretch.offset + done)
                if not count:
                    raise changed(path)
                yield room[:count]
                done += count
        finally:
            os.close(fd)
