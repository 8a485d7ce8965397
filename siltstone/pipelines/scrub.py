"""Scrub: every block of every chunk, read from long-term storage and compared with its checksum."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from threading import local
from typing import Any, Final

from siltstone.container.reads.chunk_rows import ChunkRows
from siltstone.core.checksums import crc32c
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import BLOCK_BYTES, MIB
from siltstone.core.errors import (
    ChunkNotFoundError,
    CorruptDataError,
    LostDataError,
    SiltstoneError,
)
from siltstone.core.storage.block_reads import chunk_parts, read_blocks
from siltstone.core.storage.cached import uncached
from siltstone.pipelines.store_view import StoreView
from siltstone.pipelines.window import pack_sums, unpack_sums
from siltstone.pipelines.work import FAILED, OK, Executor, ItemOutcome, Step, packed, share_of
from siltstone.store.worker_store import worker_store

MISSING: Final = "missing"
SHORT: Final = "short"
DAMAGED: Final = "damaged"
GONE: Final = "gone"
"""It was dropped meanwhile: nothing names it now, whatever became of its bytes."""

UNVERIFIED: Final = "unverified"
"""It is in place and has no sums: only its length was looked at."""

DAMAGE: Final = frozenset((MISSING, SHORT, DAMAGED))

READ_BYTES: Final = 4 * MIB
"""Read and verified at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrubItem:
    """One chunk to be read.

    Attributes:
        name: key on long-term storage.
        length: committed bytes.
        sums: CRC32C of each block: u32[], little-endian; empty when it has none.
        in_place: whether it has exactly this many bytes.
    """

    name: str
    length: int
    sums: bytes
    in_place: bool = False

    @property
    def size(self) -> int:
        """Bytes that are read."""
        return self.length if self.sums else 0

    def __reduce__(self) -> tuple[Any, ...]:
        """A plan has very many of them, and without it each would be taken apart by its fields."""
        return _item, (self.name, self.length, self.sums, self.in_place)


def _item(name: str, length: int, sums: bytes, in_place: bool) -> ScrubItem:
    return ScrubItem(name=name, length=length, sums=sums, in_place=in_place)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrubWork:
    """Reads chunks and compares them with their sums.

    Attributes:
        store: the settings file.
        uuid: of the store.
        rate: bytes a second that all openings together read; ``None`` for no limit.
    """

    store: str
    uuid: str
    rate: int | None = None

    @contextmanager
    def open(self, openings: int = 1) -> Iterator[Step]:
        """Open long-term storage."""
        with closing(worker_store(self.store, self.uuid, share_of(self.rate, openings))) as storage:
            yield partial(_scrubbed, uncached(storage), _Buffer())


def plan_scrub(rows: Sequence[ChunkRows]) -> list[ScrubItem]:
    """An item for each chunk, neighbours on storage side by side."""
    items = (
        ScrubItem(
            name=row.chunk.name,
            length=row.chunk.length,
            sums=pack_sums(row.sums),
            in_place=row.chunk.in_place and row.chunk.closed,
        )
        for row in rows
    )
    return sorted(items, key=lambda item: item.name)


def scrub(
    view: StoreView,
    executor: Executor,
    items: Sequence[ScrubItem] | None = None,
    *,
    rate: int | None = None,
) -> Generator[ItemOutcome]:
    """Read every chunk and yield what it was like.

    What seems wrong is looked up again at the end, and is ``gone`` if nothing names it then.

    Args:
        view: the store; stays open until the end.
        executor: where the chunks are read.
        items: of ``plan_scrub``, to leave some out; ``None`` means every chunk.
        rate: bytes a second that are read at most; ``None`` means no limit.

    Yields:
        One outcome for each item: ``ok``, ``unverified``, ``missing``, ``short``, ``damaged``,
        ``gone``, or ``failed`` where storage gave no answer.
    """
    planned = plan_scrub(view.chunk_rows()) if items is None else items
    work = ScrubWork(store=view.path, uuid=view.uuid, rate=rate)
    suspects: list[ItemOutcome] = []
    with closing(executor.run(work, packed(planned, executor.workers))) as outcomes:
        for outcome in outcomes:
            if outcome.status in DAMAGE:
                suspects.append(outcome)
            else:
                yield outcome
    if suspects:
        yield from _judged(view, suspects)


def _judged(view: StoreView, suspects: Sequence[ItemOutcome]) -> Iterator[ItemOutcome]:
    """What is named still is damaged: no name is used twice, and committed bytes never change."""
    named = {row.chunk.name for row in view.chunk_rows(again=True)}
    for outcome in suspects:
        if outcome.subject in named:
            yield outcome
        else:
            yield ItemOutcome(
                subject=outcome.subject, status=GONE, message="it was dropped meanwhile"
            )


def unread_status(error: SiltstoneError) -> str:
    """The status of a chunk whose bytes could not be read."""
    match error:
        case ChunkNotFoundError():
            return MISSING
        case LostDataError():
            return SHORT
        case CorruptDataError():
            return DAMAGED
        case _:
            return FAILED


class _Buffer(local):
    """One buffer for each thread: fresh memory costs as much as reading."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(READ_BYTES))


def _scrubbed(storage: ChunkStorage, buffer: _Buffer, item: ScrubItem) -> ItemOutcome:
    try:
        if item.in_place:
            _check_length(storage, item)
        if not item.sums:
            return ItemOutcome(subject=item.name, status=UNVERIFIED, message="it has no sums")
        if not _reads_well(storage, buffer.view, item):
            _read_all(storage, buffer.view, item)
    except SiltstoneError as error:
        return ItemOutcome(subject=item.name, status=unread_status(error), message=str(error))
    return ItemOutcome(subject=item.name, status=OK, length=item.length)


def _check_length(storage: ChunkStorage, item: ScrubItem) -> None:
    found = storage.stat(item.name).length
    if found != item.length:
        error = LostDataError if found < item.length else CorruptDataError
        raise error(
            "object in place has another length than when it was adopted",
            where=item.name,
            expected=item.length,
            found=found,
        )


def _reads_well(storage: ChunkStorage, view: memoryview, item: ScrubItem) -> bool:
    """Whether a small chunk matches its sums when it is read by one call; else it is unclear.

    The buffer is larger than the chunk, which tells a binding that no further read follows.
    """
    length = item.length
    if length >= len(view) or storage.read_into(item.name, 0, view) < length:
        return False
    if length <= BLOCK_BYTES:
        return crc32c(view[:length]).to_bytes(4, "little") == item.sums
    return all(
        crc32c(view[start : min(start + BLOCK_BYTES, item.length)]) == wanted
        for start, wanted in zip(
            range(0, item.length, BLOCK_BYTES), unpack_sums(item.sums), strict=True
        )
    )


def _read_all(storage: ChunkStorage, view: memoryview, item: ScrubItem) -> None:
    for part in chunk_parts(item.name, item.length, unpack_sums(item.sums), READ_BYTES):
        read_blocks(storage, part, view[: part.length])
