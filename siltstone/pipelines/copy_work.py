"""What workers do for a copy: read ranges of the source, verified, and write them as chunks."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial

from siltstone.container.models.imports import ImportedChunk, ImportTicket
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import CorruptDataError, SiltstoneError
from siltstone.pipelines.segment_ranges import SegmentRange, read_range
from siltstone.pipelines.work import FAILED, OK, ItemOutcome, Step, share_of
from siltstone.store.handles.import_writer import ImportTarget, ImportWriter, open_import_target
from siltstone.store.worker_store import worker_store


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyItem:
    """Ranges that one task copies into one session.

    Attributes:
        ticket: of the session.
        number: of the task in it.
        parts: the ranges.
    """

    ticket: ImportTicket
    number: int
    parts: tuple[SegmentRange, ...]

    @property
    def size(self) -> int:
        """Bytes that are copied."""
        return sum(part.size for part in self.parts)

    @property
    def subject(self) -> str:
        """What an outcome calls it."""
        return f"{self.ticket.name}/{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyWork:
    """Copies ranges.

    Attributes:
        source: the settings file of the source.
        uuid: of the source.
        target: the settings file of the target.
        target_uuid: its uuid.
        rate: bytes a second that all openings together read; ``None`` for no limit.
    """

    source: str
    uuid: str
    target: str
    target_uuid: str
    rate: int | None

    @contextmanager
    def open(self, openings: int = 1) -> Iterator[Step]:
        """Open the source's long-term storage; check that the target is the one that is meant."""
        rate = share_of(self.rate, openings)
        with (
            open_import_target(self.target, self.target_uuid) as target,
            closing(worker_store(self.source, self.uuid, rate)) as storage,
        ):
            yield partial(_copied, self, storage, target)


def _copied(
    work: CopyWork, storage: ChunkStorage, target: ImportTarget, item: CopyItem
) -> ItemOutcome:
    made: list[tuple[str, int, tuple[ImportedChunk, ...], str]] = []
    try:
        with ImportWriter(target, item.ticket, partition=item.number, attempt=0) as writer:
            for part in item.parts:
                # A chunk holds bytes of one segment, in their order.
                pieces = partial(read_range, work.source, storage, part)
                try:
                    chunks = tuple(writer.write_chunks(part.start, part.stop, pieces))
                except CorruptDataError as error:
                    # Of this segment; the others of the task continue.
                    made.append((part.segment, part.start, (), str(error)))
                else:
                    made.append((part.segment, part.start, chunks, ""))
    except (SiltstoneError, OSError) as error:
        return ItemOutcome(subject=item.subject, status=FAILED, message=str(error))
    return ItemOutcome(subject=item.subject, status=OK, length=item.size, detail=pickle.dumps(made))
