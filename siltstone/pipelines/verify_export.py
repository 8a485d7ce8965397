"""Verification of an export: every file against the store, byte for byte."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

from siltstone.container.models.segments import SegmentInfo
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import (
    CorruptDataError,
    SegmentNotFoundError,
    SegmentTruncatedError,
    SettingsError,
    SiltstoneError,
)
from siltstone.core.text import counted
from siltstone.pipelines.export import UNREADABLE, ExportItem
from siltstone.pipelines.export_layout import (
    ExportHead,
    Form,
    Records,
    exported_ranges,
    exported_segments,
    folder_name,
    range_name,
    read_head,
)
from siltstone.pipelines.export_place import Place, opened, place_of, target_of
from siltstone.pipelines.segment_ranges import gaps, last_line_end, plan_range, read_range
from siltstone.pipelines.store_view import StoreView
from siltstone.pipelines.work import FAILED, OK, Executor, ItemOutcome, Step, packed, share_of
from siltstone.store.worker_store import worker_store

DIFFERS: Final = "differs"
MISSING: Final = "missing"
BEHIND: Final = "behind"
"""The store has more at the end: true of what it has, and no difference."""

TRUNCATED: Final = "truncated"
"""The store no longer has these bytes: nothing to compare with."""

_ROWS: Final = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyExportWork:
    """Compares files of an export with the store.

    Attributes:
        store: the settings file.
        uuid: of the store.
        rate: bytes a second of the store that all openings together read; ``None`` for no limit.
    """

    store: str
    uuid: str
    rate: int | None

    @contextmanager
    def open(self, openings: int = 1) -> Iterator[Step]:
        """Open long-term storage."""
        with closing(worker_store(self.store, self.uuid, share_of(self.rate, openings))) as storage:
            yield partial(_compared, self.store, storage)


def plan_verify_export(
    view: StoreView, folder: Path | str, names: Sequence[str] = ()
) -> tuple[list[ExportItem], list[ItemOutcome]]:
    """Plan the comparison of every file in ``folder``; return it with what is known without it.

    Known are ranges that no file holds, ``missing``; what the store has more of, ``behind``; what
    it no longer has, ``truncated``; and folders of other segments or stores, ``differs``.

    Args:
        view: the store.
        folder: the export.
        names: segments that are compared; none means all that were exported.

    Raises:
        SettingsError: there is no export, or a folder does not tell what it holds.
        OSError: the folder, or the service of the bucket, gives no answer.
        SegmentNotFoundError: nothing of a segment was exported.
    """
    items: list[ExportItem] = []
    known: list[ItemOutcome] = []
    target = target_of(folder)
    root = place_of(target)
    if not root.exists():
        raise SettingsError(f"there is no export in {root}")
    there = exported_segments(root)
    for name in names:
        if name not in there:
            raise SegmentNotFoundError("nothing of the segment was exported", segment=name)
    for name in names or there:
        place = root / folder_name(name)
        head = read_head(place)
        info = _live(view, name)
        if info is None or (head.store, head.segment_id) != (view.uuid, info.segment_id):
            known.append(ItemOutcome(subject=name, status=DIFFERS, message="the store has it not"))
            continue
        try:
            found, more = _plan_segment(view, info, place, target, head)
        except (SegmentNotFoundError, SegmentTruncatedError) as error:
            known.append(_outcome(name, TRUNCATED, str(error)))
            continue
        items += found
        known += more
    return items, known


def verify_export(
    view: StoreView,
    executor: Executor,
    items: Sequence[ExportItem],
    *,
    rate: int | None = None,
) -> Generator[ItemOutcome]:
    """Compare files and yield ``ok``, ``differs``, ``unreadable`` or ``failed`` for each.

    ``unreadable`` says that the store's own bytes are damaged. ``rate`` is how many bytes of the
    store are read a second at most; ``None`` means no limit.
    """
    work = VerifyExportWork(store=view.path, uuid=view.uuid, rate=rate)
    return executor.run(work, packed(items, executor.workers))


def _live(view: StoreView, name: str) -> SegmentInfo | None:
    try:
        return view.segments([name])[0]
    except SegmentNotFoundError:
        return None


def _plan_segment(
    view: StoreView, info: SegmentInfo, place: Place, target: str, head: ExportHead
) -> tuple[list[ExportItem], list[ItemOutcome]]:
    """The files of a segment; raises when that was truncated or deleted a moment ago."""
    items: list[ExportItem] = []
    known: list[ItemOutcome] = []
    ranges = exported_ranges(place, head)
    if any(stop > info.length for _, stop in ranges):
        info = view.now(info)  # an export may have written more since it was looked at
    end = last_line_end(view, info) if head.records is Records.LINES else info.length
    last = ranges[-1][1] if ranges else info.start_offset
    for start, stop in gaps(info.start_offset, max(last, info.start_offset), ranges):
        message = "no file holds it"
        known.append(_outcome(f"{place.name}[{start}:{stop}]", MISSING, message))
    if last < end:
        known.append(
            _outcome(place.name, BEHIND, f"the store has {counted(end - last, 'byte')} more")
        )
    for start, stop in ranges:
        name = f"{place.name}/{range_name(head, start, stop)}"
        if stop > info.length or stop < start:
            known.append(_outcome(name, DIFFERS, f"the segment ends at {info.length}"))
        elif start < info.start_offset:
            known.append(_outcome(name, TRUNCATED, f"the segment begins at {info.start_offset}"))
        elif start < stop:
            part = plan_range(view, info, start, stop, max(end, stop))
            items.append(ExportItem(part=part, head=head, target=target, name=name))
    return items, known


def _outcome(subject: str, status: str, message: str) -> ItemOutcome:
    return ItemOutcome(subject=subject, status=status, message=message)


def _compared(store: str, storage: ChunkStorage, item: ExportItem) -> ItemOutcome:
    try:
        if item.head.form is Form.PARQUET:
            message = _parquet_difference(store, storage, item)
        else:
            message = _bytes_difference(store, storage, item)
    except CorruptDataError as error:
        return _outcome(item.name, UNREADABLE, str(error))
    except (SiltstoneError, OSError) as error:
        return _outcome(item.name, FAILED, str(error))
    if message:
        return _outcome(item.name, DIFFERS, message)
    return ItemOutcome(subject=item.name, status=OK, length=item.size)


def _bytes_difference(store: str, storage: ChunkStorage, item: ExportItem) -> str:
    offset = item.part.start
    with opened(place_of(item.target) / item.name) as file:
        for piece in read_range(store, storage, item.part):
            found = file.read(len(piece))
            if found != piece:
                return f"bytes differ between {offset} and {offset + len(piece)}"
            offset += len(piece)
        if file.read(1):
            return f"it has bytes after {item.part.stop}"
    return ""


def _parquet_difference(store: str, storage: ChunkStorage, item: ExportItem) -> str:
    import pyarrow
    import pyarrow.parquet

    from siltstone.pipelines.export_records import in_steps, schema_of, tables_of

    def read(file: Any) -> Iterator[pyarrow.Table]:
        for batch in file.iter_batches(batch_size=_ROWS):
            yield pyarrow.Table.from_batches([batch])

    wanted = in_steps(tables_of(item.head.records, store, storage, item.part), _ROWS)
    row = 0
    try:
        with (
            opened(place_of(item.target) / item.name) as source,
            pyarrow.parquet.ParquetFile(source) as file,
        ):
            if file.schema_arrow != schema_of(item.head.records):
                return "the columns are others"
            for ours, theirs in zip_longest(wanted, in_steps(read(file), _ROWS)):
                if ours is None or theirs is None or not ours.equals(theirs):
                    return f"rows differ from row {row} on"
                row += len(ours)
    except (pyarrow.ArrowException, OSError) as error:
        return f"it cannot be read as Parquet: {error}"
    return ""
