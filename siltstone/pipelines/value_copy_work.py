"""What workers do for a value compaction: read ranges of value segments, verified, write chunks.

A chunk that a worker made counts only when the owner of the store commits the import session that
it lies in; others under the prefix of the session are deleted with it.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from siltstone.container.models.imports import ImportedChunk, ImportTicket
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import BLOCK_BYTES, MIB
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import (
    ChunkNotFoundError,
    CorruptDataError,
    LostDataError,
    SiltstoneError,
)
from siltstone.objects.compaction_plan import CopiedRange
from siltstone.pipelines.byte_source import ByteSource
from siltstone.pipelines.window import Window
from siltstone.pipelines.work import FAILED, OK, ItemOutcome, Step, share_of
from siltstone.store.handles.import_writer import ImportTarget, ImportWriter
from siltstone.store.worker_store import worker_store

DAMAGED: Final = "damaged"
"""Bytes are damaged or gone; the owner, which knows more of them, looks itself."""

READ_BYTES: Final = 4 * MIB
"""Read at a time."""

GAP_BYTES: Final = BLOCK_BYTES
"""Ranges that are no further apart are read at once: reads are of whole blocks anyway."""

Part = CopiedRange | bytes
"""A range of a value segment, or a record that is its header alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueCopyItem:
    """Records that follow one another in a new value segment, and become chunks of their own.

    Attributes:
        ticket: of the import session.
        number: of the item in it.
        parts: the records, in order.
        length: bytes of them, at least 1.
        windows: where the bytes of the ranges lie, by number of the value segment.
    """

    ticket: ImportTicket
    number: int
    parts: tuple[Part, ...]
    length: int
    windows: Mapping[int, Window]

    @property
    def size(self) -> int:
        """Bytes that are copied."""
        return self.length

    @property
    def subject(self) -> str:
        """What an outcome calls it."""
        return f"{self.ticket.name}/{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueCopyWork:
    """Copies records of value segments.

    Attributes:
        store: the settings file.
        uuid: of the store.
        chunk_bytes: most bytes of a chunk.
        rate: bytes a second that all openings together read and write; ``None`` for no limit.
    """

    store: str
    uuid: str
    chunk_bytes: int
    rate: int | None

    @contextmanager
    def open(self, openings: int = 1) -> Iterator[Step]:
        """Open long-term storage."""
        rate = share_of(self.rate, openings)
        with closing(SystemEnvironment()) as environment:
            storage = worker_store(self.store, self.uuid, rate)
            with closing(ImportTarget(storage, self.chunk_bytes, environment)) as target:
                yield partial(_copied, target)


def chunks_of(outcome: ItemOutcome) -> tuple[int, tuple[ImportedChunk, ...]]:
    """The number of an item whose outcome is ``ok``, and its chunks, in order."""
    number, chunks = pickle.loads(outcome.detail)
    return number, chunks


def read_batches(
    parts: Sequence[Part], read_bytes: int = READ_BYTES, gap_bytes: int = GAP_BYTES
) -> Iterator[list[Part]]:
    """Cut parts so that the ranges of each batch are read at once, as one span of one segment.

    Args:
        parts: in order; ranges of one segment in the order of their offsets.
        read_bytes: of a span at most.
        gap_bytes: between two ranges of a span at most.
    """
    batch: list[Part] = []
    first: CopiedRange | None = None
    last: CopiedRange | None = None
    for part in parts:
        for piece in _cut(part, read_bytes):
            if isinstance(piece, CopiedRange):
                if (
                    first is not None
                    and last is not None
                    and (
                        piece.number != last.number
                        or piece.start - last.end > gap_bytes
                        or piece.end - first.start > read_bytes
                    )
                ):
                    yield batch
                    batch, first = [], None
                first, last = first or piece, piece
            batch.append(piece)
    if batch:
        yield batch


def _cut(part: Part, size: int) -> Iterator[Part]:
    if isinstance(part, bytes):
        yield part
        return
    for start in range(part.start, part.end, size):
        yield CopiedRange(part.number, start, min(start + size, part.end))


def _copied(target: ImportTarget, item: ValueCopyItem) -> ItemOutcome:
    try:
        with ImportWriter(target, item.ticket, partition=item.number, attempt=0) as writer:
            for batch in read_batches(item.parts):
                for data in _read(target.storage, item, batch):
                    writer.write(data)
            made = writer.finish()
    except (CorruptDataError, ChunkNotFoundError) as error:
        return ItemOutcome(
            subject=item.subject, status=DAMAGED, length=item.length, message=str(error)
        )
    except (SiltstoneError, OSError) as error:
        return ItemOutcome(subject=item.subject, status=FAILED, message=str(error))
    detail = pickle.dumps((item.number, made))
    return ItemOutcome(subject=item.subject, status=OK, length=item.length, detail=detail)


def _read(storage: ChunkStorage, item: ValueCopyItem, batch: Sequence[Part]) -> Iterator[bytes]:
    """The bytes of each part of a batch."""
    ranges = [part for part in batch if isinstance(part, CopiedRange)]
    if not ranges:
        yield from (part for part in batch if isinstance(part, bytes))
        return
    start = ranges[0].start
    span = memoryview(_span(storage, item.windows[ranges[0].number], start, ranges[-1].end))
    for part in batch:
        # Copied, or a few records would keep all of the span in memory.
        yield (
            part if isinstance(part, bytes) else bytes(span[part.start - start : part.end - start])
        )


def _span(storage: ChunkStorage, window: Window, start: int, end: int) -> bytearray:
    """Read ``[start, end)``, compared with the sums of its blocks."""
    data = bytearray(end - start)
    source = ByteSource(storage, window, _gone, read_bytes=READ_BYTES, stop=end, one_buffer=True)
    position = start
    while position < end:
        stretch = source.read(b"", position)
        some = stretch.view(stretch.begin, stretch.end)
        data[position - start : position - start + len(some)] = some
        position += len(some)
    return data


def _gone(offset: int) -> Window:
    raise LostDataError("chunk does not exist any more", where=f"value segment at {offset}")
