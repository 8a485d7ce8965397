"""Copying files into chunks of an import session, on threads or on workers elsewhere."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, count, islice, takewhile
from pathlib import Path
from typing import Final

from siltstone.container.models.imports import ImportedChunk, ImportTicket
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import MIB
from siltstone.core.errors import SiltstoneError
from siltstone.core.storage.optional_verbs import PieceRoom
from siltstone.migration.files.file_errors import changed, naming
from siltstone.migration.files.import_plan import Group, PlannedFileSegment, Source, version_of
from siltstone.migration.source.places import LegacyPlace
from siltstone.migration.source.worker_layout import WorkerLayout
from siltstone.pipelines.import_notes import ImportNotes, read_notes
from siltstone.pipelines.work import FAILED, OK, Executor, ItemOutcome, Step, in_groups, share_of
from siltstone.store.handles.import_writer import ImportTarget, ImportWriter, open_import_target

PACK_BYTES: Final = 8 * MIB
"""Pieces that are smaller share a task; they are noted when all of it are done."""

PACK_PIECES: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStretch:
    """Some bytes of a file."""

    source: Source
    offset: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePiece:
    """What becomes one chunk."""

    stretches: tuple[FileStretch, ...]

    @property
    def length(self) -> int:
        """Bytes of the chunk."""
        return sum(stretch.length for stretch in self.stretches)


def pieces(segment: PlannedFileSegment, chunk_bytes: int) -> Iterator[FilePiece]:
    """Cut the bytes of a segment into pieces of ``chunk_bytes``; the last one may be shorter."""
    held: list[FileStretch] = []
    room = chunk_bytes
    for source in segment.sources:
        offset = 0
        while offset < source.length:
            length = min(room, source.length - offset)
            held.append(FileStretch(source=source, offset=offset, length=length))
            offset += length
            room -= length
            if not room:
                yield FilePiece(stretches=tuple(held))
                held, room = [], chunk_bytes
    if held:
        yield FilePiece(stretches=tuple(held))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCopyItem:
    """A piece that one step copies.

    Attributes:
        number: of the piece, counted over all segments of its group.
        piece: what is copied.
    """

    number: int
    piece: FilePiece

    @property
    def size(self) -> int:
        """Bytes that are copied."""
        return self.piece.length


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyFiles:
    """Copies pieces.

    Attributes:
        store: the settings file of the store.
        ticket: of the session.
        rate: bytes a second that all openings together read; ``None`` for no limit.
    """

    store: str
    ticket: ImportTicket
    rate: int | None

    @contextmanager
    def open(self, openings: int = 1) -> Iterator[Step]:
        """Open the files, and check that the store is the one that is meant."""
        everywhere = WorkerLayout(store=self.store, uuid=self.ticket.uuid, folder="/", prefix="")
        with (
            open_import_target(self.store, self.ticket.uuid) as target,
            everywhere.open(share_of(self.rate, openings)) as place,
        ):
            yield partial(_copied, self.ticket, target, place, PieceRoom())


def copy_group(
    path: Path | str,
    storage: ChunkStorage,
    ticket: ImportTicket,
    group: Group,
    executor: Executor,
    rate: int | None,
    progress: Callable[[int], None],
) -> list[tuple[ImportedChunk, ...]]:
    """Copy the sources of a group; return the chunks of each segment, durable.

    What an earlier call has copied into the same session, and noted, is not copied again.

    Args:
        path: the settings file of the store, or its folder.
        storage: its long-term storage.
        ticket: of the session, which is open.
        group: what is copied.
        executor: where; its workers have the files under the same paths.
        rate: bytes a second that are read at most; ``None`` means no limit.
        progress: called with the bytes of each chunk.

    Raises:
        StoreError: a source has changed since it was planned.
        OSError: one cannot be read.
        ChunkError: storage failed.
        PipelineError: a worker could not begin, or died.
    """
    with ImportNotes(path, ticket) as notes:
        chunk_bytes = notes.chunk_bytes
        cut = [list(pieces(segment, chunk_bytes)) for segment in group.segments]
        items = [
            FileCopyItem(number=n, piece=one) for n, one in enumerate(chain.from_iterable(cut))
        ]
        known = read_notes(storage, ticket, chunk_bytes)
        found = {
            item.number: known[item.number]
            for item in items
            if item.number in known and known[item.number].length == item.size
        }
        progress(sum(chunk.length for chunk in found.values()))
        failures: list[Exception] = []
        # After a failure nothing new is begun, and what was on its way is noted.
        left = takewhile(lambda _: not failures, (i for i in items if i.number not in found))
        work = CopyFiles(store=str(path), ticket=ticket, rate=rate)
        packs = in_groups(left, lambda item: item.size, PACK_BYTES, PACK_PIECES)
        with closing(executor.run(work, packs)) as outcomes:
            for outcome in outcomes:
                came = pickle.loads(outcome.detail)
                if outcome.status != OK:
                    failures.append(came)
                    continue
                found[int(outcome.subject)] = came
                notes.add(int(outcome.subject), came)
                progress(outcome.length)
    if failures:
        raise failures[0]
    for segment in group.segments:
        for source in segment.sources:
            if version_of(os.stat(source.path)) != source.version:
                raise changed(source.path)
    numbers = count()
    return [tuple(found[number] for number in islice(numbers, len(some))) for some in cut]


def _copied(
    ticket: ImportTicket,
    target: ImportTarget,
    place: LegacyPlace,
    room: PieceRoom,
    item: FileCopyItem,
) -> ItemOutcome:
    """Make a chunk of a piece, durably."""
    subject = str(item.number)
    try:
        with ImportWriter(target, ticket, partition=0, attempt=0) as writer:
            read = partial(_read, place, room, item.piece)
            chunk = writer.write_chunk(item.piece.length, read)
    except (SiltstoneError, OSError) as error:
        detail = pickle.dumps(error)
        return ItemOutcome(subject=subject, status=FAILED, message=str(error), detail=detail)
    return ItemOutcome(subject=subject, status=OK, length=item.size, detail=pickle.dumps(chunk))


def _read(place: LegacyPlace, room: PieceRoom, piece: FilePiece) -> Iterator[memoryview]:
    for stretch in piece.stretches:
        path, done = stretch.source.path, 0
        while done < stretch.length:
            view = room.of(min(place.piece_bytes, stretch.length - done))
            with naming(path):
                read = place.read_into(path, stretch.offset + done, view)
            if read != len(view):
                raise changed(path)
            yield view
            done += read
