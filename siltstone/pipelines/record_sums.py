"""Recording the sums of objects in place: workers read the objects, and the owner records."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial

from siltstone.container.models.segments import SegmentInfo
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import container_of
from siltstone.core.errors import (
    CorruptDataError,
    SiltstoneError,
)
from siltstone.core.records.chunk import Chunk
from siltstone.core.storage.block_reads import read_exactly
from siltstone.core.storage.block_sums import extend_sums
from siltstone.core.storage.cached import uncached
from siltstone.pipelines.owned_store import OwnedStore
from siltstone.pipelines.scrub import READ_BYTES, unread_status
from siltstone.pipelines.store_view import StoreView
from siltstone.pipelines.window import pack_sums, unpack_sums
from siltstone.pipelines.work import OK, Executor, ItemOutcome, Step, packed, share_of
from siltstone.segments.invariants import check_chunk
from siltstone.store.worker_store import worker_store


@dataclass(frozen=True, slots=True, kw_only=True)
class SumsItem:
    """An object in place that has no sums.

    Attributes:
        container: that has it.
        chunk: its row.
    """

    container: int
    chunk: Chunk

    @property
    def size(self) -> int:
        """Bytes that are read."""
        return self.chunk.length


@dataclass(frozen=True, slots=True, kw_only=True)
class SumsWork:
    """Reads objects and sums up their blocks.

    Attributes:
        store: the settings file.
        uuid: of the store.
        rate: bytes a second that all openings together read; ``None`` for no limit.
    """

    store: str
    uuid: str
    rate: int | None

    @contextmanager
    def open(self, openings: int = 1) -> Iterator[Step]:
        """Open long-term storage."""
        with closing(worker_store(self.store, self.uuid, share_of(self.rate, openings))) as storage:
            yield partial(_summed, uncached(storage))


def plan_sums(view: StoreView, segments: Sequence[SegmentInfo]) -> list[SumsItem]:
    """The objects in place without sums that ``segments`` have, each once."""
    items: dict[str, SumsItem] = {}
    for info in segments:
        if info.flushed_length <= info.start_offset:
            continue
        index = container_of(info.name, view.container_count)
        for row in view.map(info, info.start_offset, info.flushed_length).extents:
            if row.chunk.in_place and not row.sums:
                items[row.chunk.name] = SumsItem(container=index, chunk=row.chunk)
    return list(items.values())


def record_sums(
    view: StoreView,
    owned: OwnedStore,
    executor: Executor,
    items: Sequence[SumsItem],
    *,
    rate: int | None = None,
) -> Generator[ItemOutcome]:
    """Read objects and record their sums; from then on reads compare with what was read now.

    Args:
        view: the store; stays open until the end.
        owned: the same store, which this job owns.
        executor: where objects are read.
        items: of ``plan_sums``.
        rate: bytes a second that are read at most; ``None`` means no limit.

    Yields:
        One outcome for each object: ``ok`` when its sums are recorded; ``missing``, ``short`` or
        ``damaged`` when it is not what was adopted, or changed meanwhile; ``failed`` where storage
        gave no answer. Those are left as they were.

    Raises:
        FencedError: another owner took the store over; what was recorded stays.
        PipelineError: the work could not be done as a whole.
    """
    by_name = {item.chunk.name: item for item in items}
    work = SumsWork(store=view.path, uuid=view.uuid, rate=rate)
    with closing(executor.run(work, packed(items, executor.workers))) as outcomes:
        for outcome in outcomes:
            if outcome.status == OK:
                item = by_name[outcome.subject]
                container = owned.containers[item.container]
                owned.loop.run(container.keep_sums(item.chunk, unpack_sums(outcome.detail)))
            yield replace(outcome, detail=b"")


def _summed(storage: ChunkStorage, item: SumsItem) -> ItemOutcome:
    name = item.chunk.name
    try:
        sums = _sums_of(storage, item.chunk)
    except SiltstoneError as error:
        return ItemOutcome(subject=name, status=unread_status(error), message=str(error))
    return ItemOutcome(subject=name, status=OK, length=item.size, detail=pack_sums(tuple(sums)))


def _sums_of(storage: ChunkStorage, chunk: Chunk) -> list[int]:
    """The sums of an object that is what was adopted, and stays so meanwhile."""
    before = storage.stat(chunk.name)
    check_chunk(chunk, before)
    buffer = memoryview(bytearray(min(chunk.length, READ_BYTES)))
    sums: list[int] = []
    for offset in range(0, chunk.length, READ_BYTES):
        view = buffer[: chunk.length - offset]
        read_exactly(storage, chunk.name, offset, view)
        sums += extend_sums([view], offset, 0)
    if storage.stat(chunk.name) != before:
        raise CorruptDataError("object was changed while it was read", where=chunk.name)
    return sums
