"""The deep check of a keyspace as a job: records are read where the work is, the rest here.

Each value segment that is closed and flushed is an item: its records are compared with their sums
and with its footer. What is not found whole there is read again here, by blocks, so that only this
side says what is wrong; it also compares heads, rows, footers and large values.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import CorruptDataError, FormatError, SiltstoneError
from siltstone.core.storage.cached import uncached
from siltstone.objects.async_keyspaces import check_space
from siltstone.objects.ledger import Ledger
from siltstone.objects.record_check import headers_of, record_groups, record_problem
from siltstone.objects.records.space_rows import ValueStatus
from siltstone.objects.space_names import SpaceNames, space_names
from siltstone.pipelines.raw_reads import read_window
from siltstone.pipelines.store_view import PIN_TTL_S
from siltstone.pipelines.window import Window, cut_window
from siltstone.pipelines.work import FAILED, OK, Executor, ItemOutcome, Step, packed, share_of
from siltstone.store.handles.pinned_segments import pinned_segments
from siltstone.store.store import parts_of
from siltstone.store.worker_store import worker_store

if TYPE_CHECKING:
    from siltstone.container.models.segments import Finding
    from siltstone.store.async_store import AsyncStore
    from siltstone.store.store import Store

DAMAGED: Final = "damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueItem:
    """A value segment whose records are to be read.

    Attributes:
        segment: its name.
        number: its number.
        length: bytes of its records, after which its footer begins.
        window: where all of it lies.
    """

    segment: str
    number: int
    length: int
    window: Window

    @property
    def size(self) -> int:
        """Bytes that are read."""
        return self.window.end


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueWork:
    """Reads value segments and compares their records with their sums and footers.

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
            yield partial(_read, uncached(storage))


def check_keyspace(
    path: str,
    store: Store,
    name: str,
    executor: Executor,
    *,
    rate: int | None = None,
    progress: Callable[[float], None] = lambda _: None,
) -> Generator[Finding]:
    """Yield what is wrong with a keyspace, of which every record is read. Changes nothing.

    Chunks of value segments are kept for an hour by a pin, which ends by itself.

    Args:
        path: the settings file of the store, as workers find it.
        store: the same, open, perhaps read-only.
        name: of the keyspace, which need not open.
        executor: where records are read.
        rate: bytes a second that they are read at most there; ``None`` means no limit.
        progress: called with how much is done, from 0 to 1.

    Raises what ``objects.check`` and ``Executor.run`` raise.
    """
    loop, opened = parts_of(store)
    items = loop.run(_items(opened, space_names(name)))
    numbers = {item.segment: item.number for item in items}
    total, done, whole = sum(item.size for item in items), 0, set[int]()
    work = ValueWork(store=path, uuid=store.uuid, rate=rate)
    with closing(executor.run(work, packed(items, executor.workers))) as outcomes:
        for outcome in outcomes:
            done += outcome.length
            progress(done / max(1, total))
            if outcome.status == OK:
                whole.add(numbers[outcome.subject])
    found = partial(check_space, opened, name, deep=True, progress=lambda _: None, whole=whole)
    yield from loop.iterate(found, batch=1)
    progress(1)


async def _items(store: AsyncStore, names: SpaceNames) -> list[ValueItem]:
    """What workers can read; nothing where it cannot be told."""
    try:
        rows = [
            row for row in await Ledger(store, names).manifest() if row.status is ValueStatus.SEALED
        ]
        ends = {}
        for row in rows:
            segment = store.segment(names.value_segment(row.number))
            info = await segment.info()
            if not info.start_offset and info.flushed_length == info.length == row.footer_end:
                ends[segment.name] = row.footer_end
        one = store.segment(names.value_segment(1))  # all are in one place
        maps = await pinned_segments(one, ends, PIN_TTL_S)
    except SiltstoneError:
        return []  # what is gone or damaged is told by the check itself, which reads the rest
    return [
        ValueItem(
            segment=name,
            number=row.number,
            length=row.length,
            window=cut_window(maps[name], 0, row.footer_end),
        )
        for row in rows
        if (name := names.value_segment(row.number)) in maps
    ]


def _read(storage: ChunkStorage, item: ValueItem) -> ItemOutcome:
    """Read a value segment; it is ``ok``, ``damaged``, or ``failed`` without an answer."""
    where = item.segment
    try:
        footer = bytes(read_window(storage, item.window, item.length, item.window.end))
        for group in record_groups(headers_of(footer, item.length, where=where)):
            start = group[0].offset
            end = group[-1].offset + group[-1].header.record_length
            view = memoryview(read_window(storage, item.window, start, end))
            for each in group:
                begin = each.offset - start
                record = view[begin : begin + each.header.record_length]
                if problem := record_problem(each, record, where):
                    return ItemOutcome(
                        subject=where, status=DAMAGED, length=item.size, message=problem
                    )
    except SiltstoneError as error:
        status = DAMAGED if isinstance(error, CorruptDataError | FormatError) else FAILED
        return ItemOutcome(subject=where, status=status, length=item.size, message=str(error))
    return ItemOutcome(subject=where, status=OK, length=item.size)
