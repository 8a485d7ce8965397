"""Verification of a copy: segments of two stores, byte for byte."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from siltstone.container.models.segments import SegmentInfo
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import KIB
from siltstone.core.errors import (
    CorruptDataError,
    SegmentNotFoundError,
    SegmentTruncatedError,
    SiltstoneError,
)
from siltstone.core.text import counted
from siltstone.pipelines.copy_plan import MARK, origin_of
from siltstone.pipelines.export import UNREADABLE
from siltstone.pipelines.segment_ranges import SegmentRange, cut_at_grid, plan_range, read_range
from siltstone.pipelines.store_view import StoreView
from siltstone.pipelines.verify_export import BEHIND, DIFFERS, MISSING, TRUNCATED
from siltstone.pipelines.work import (
    FAILED,
    OK,
    PACK_BYTES_MAX,
    Executor,
    ItemOutcome,
    Step,
    packed,
    share_of,
)
from siltstone.store.worker_store import worker_store

_COMPARED_BYTES: Final = 64 * KIB
"""This many are copied and compared while they are in the cache of the processor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedItem:
    """A range of bytes that should be the same in two stores.

    Attributes:
        ours: in the source.
        theirs: in the copy, as many.
    """

    ours: SegmentRange
    theirs: SegmentRange

    @property
    def size(self) -> int:
        """Bytes that are read of one of them."""
        return self.ours.size


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyCopyWork:
    """Compares ranges of two stores.

    Attributes:
        source: the settings file of the one.
        source_uuid: its uuid.
        target: the settings file of the other.
        target_uuid: its uuid.
        rate: bytes a second that all openings together read, of both; ``None`` for no limit.
    """

    source: str
    source_uuid: str
    target: str
    target_uuid: str
    rate: int | None

    @contextmanager
    def open(self, openings: int = 1) -> Iterator[Step]:
        """Open long-term storage of both, of which as much is read."""
        each = share_of(self.rate, 2 * openings)
        with (
            closing(worker_store(self.source, self.source_uuid, each)) as source,
            closing(worker_store(self.target, self.target_uuid, each)) as target,
        ):
            yield partial(_compared, self, source, target)


def plan_verify_copy(
    view: StoreView, copy: StoreView, segments: Sequence[SegmentInfo]
) -> tuple[list[ComparedItem], list[ItemOutcome]]:
    """Plan the comparison of ``segments`` with those of the same names in ``copy``.

    A segment that was copied from a truncated one begins at 0, and its bytes are compared with
    those that they are a copy of. Known without reading are: ``missing`` segments, ``behind`` and
    ``truncated`` parts, see ``plan_verify_export``; and ``differs``: it is longer, or of another
    segment.
    """
    items: list[ComparedItem] = []
    known: list[ItemOutcome] = []
    for info in segments:
        try:
            there = copy.segments([info.name])[0]
        except SegmentNotFoundError as error:
            known.append(ItemOutcome(subject=info.name, status=MISSING, message=str(error)))
            continue
        base = _base(info, there, view.uuid)
        if base is None:
            message = "it is a copy of another segment"
            known.append(ItemOutcome(subject=info.name, status=DIFFERS, message=message))
            continue
        try:
            if base + there.length > info.length:
                info = view.now(info)  # both may have grown since it was looked at
            items += list(_pairs(view, copy, info, there, base))
        except (SegmentNotFoundError, SegmentTruncatedError) as error:
            known.append(ItemOutcome(subject=info.name, status=TRUNCATED, message=str(error)))
            continue
        known += _ends(info, there, base)
    return items, known


def _pairs(
    view: StoreView, copy: StoreView, info: SegmentInfo, there: SegmentInfo, base: int
) -> Iterator[ComparedItem]:
    """What both have. Raises when one of them was truncated or deleted a moment ago."""
    start = max(info.start_offset, base + there.start_offset)
    stop = min(info.length, base + there.length)
    for low, high in cut_at_grid(start, stop, PACK_BYTES_MAX):
        ours = plan_range(view, info, low, high, high)
        theirs = plan_range(copy, there, low - base, high - base, high - base)
        yield ComparedItem(ours=ours, theirs=theirs)


def verify_copy(
    view: StoreView,
    copy: StoreView,
    executor: Executor,
    items: Sequence[ComparedItem],
    *,
    rate: int | None = None,
) -> Generator[ItemOutcome]:
    """Compare ranges and yield ``ok``, ``differs``, ``unreadable`` or ``failed`` for each.

    ``unreadable`` says that bytes of one of the stores are damaged, by its own checksums.
    ``rate`` is how many bytes of both are read a second at most; ``None`` means no limit.
    """
    work = VerifyCopyWork(
        source=view.path,
        source_uuid=view.uuid,
        target=copy.path,
        target_uuid=copy.uuid,
        rate=rate,
    )
    return executor.run(work, packed(items, executor.workers))


def _base(info: SegmentInfo, there: SegmentInfo, store: str) -> int | None:
    """Where the copy begins in the source; ``None`` if it is one of something else.

    What was not made by ``copy``, such as a folder that was copied, has the same offsets.
    """
    origin = origin_of(there.attributes.get(MARK, ""))
    if origin is None:
        return 0
    if (origin.store, origin.segment_id) != (store, info.segment_id):
        return None
    return origin.base


def _ends(info: SegmentInfo, there: SegmentInfo, base: int) -> Iterator[ItemOutcome]:
    end = base + there.length
    if end > info.length:
        message = f"it ends at {end}, and the source at {info.length}"
        yield ItemOutcome(subject=info.name, status=DIFFERS, message=message)
    if end < info.length:
        message = f"the source has {counted(info.length - end, 'byte')} more"
        yield ItemOutcome(subject=info.name, status=BEHIND, message=message)
    if base + there.start_offset < info.start_offset:
        message = f"the source begins at {info.start_offset}"
        yield ItemOutcome(subject=info.name, status=TRUNCATED, message=message)
    if base + there.start_offset > max(info.start_offset, base):
        message = f"it begins at {there.start_offset}"
        yield ItemOutcome(subject=info.name, status=MISSING, message=message)


def _compared(
    work: VerifyCopyWork, source: ChunkStorage, target: ChunkStorage, item: ComparedItem
) -> ItemOutcome:
    subject = item.ours.subject
    try:
        offset = _difference(
            read_range(work.source, source, item.ours), read_range(work.target, target, item.theirs)
        )
    except CorruptDataError as error:
        return ItemOutcome(subject=subject, status=UNREADABLE, message=str(error))
    except (SiltstoneError, OSError) as error:
        return ItemOutcome(subject=subject, status=FAILED, message=str(error))
    if offset is not None:
        message = f"bytes differ from {item.ours.start + offset} on"
        return ItemOutcome(subject=subject, status=DIFFERS, message=message)
    return ItemOutcome(subject=subject, status=OK, length=item.size)


def _difference(ours: Iterator[memoryview], theirs: Iterator[memoryview]) -> int | None:
    """Where two streams of the same length first differ; ``None`` when they do not."""
    position = 0
    left, right = memoryview(b""), memoryview(b"")
    while True:
        left = left or next(ours, memoryview(b""))
        right = right or next(theirs, memoryview(b""))
        count = min(len(left), len(right), _COMPARED_BYTES)
        if not count:
            return position if left or right else None
        # Two views are compared item by item; an array of bytes and a view by one call of C.
        if bytearray(left[:count]) != right[:count]:
            same = next(index for index in range(count) if left[index] != right[index])
            return position + same
        left, right = left[count:], right[count:]
        position += count
