"""The end of what an export has of a segment, compared with the store before more is written.

Tier 1 may have been put back to an older copy since, within one epoch: then what was appended later
has the offsets of what was exported, and no file would have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from siltstone.container.models.segments import SegmentInfo
from siltstone.core.errors import SegmentNotFoundError, SegmentTruncatedError, StoreError
from siltstone.events import HEADER_BYTES
from siltstone.pipelines.export_layout import (
    ExportHead,
    Form,
    Records,
    exported_ranges,
    range_name,
)
from siltstone.pipelines.export_place import Place, opened
from siltstone.pipelines.last_block import block_before
from siltstone.pipelines.store_view import StoreView

FILES_MAX: Final = 4
"""A file may have no record; this many are looked at, from the last one on."""

Stretch = tuple[int, bytes]
"""Bytes that a file has of the segment, with their offset."""


def check_end(view: StoreView, info: SegmentInfo, folder: Place, head: ExportHead) -> None:
    """Check that the store still has the last bytes that an export has of a segment.

    Args:
        view: the store.
        info: the segment.
        folder: of the segment, in the export.
        head: what the folder says of itself.

    Raises:
        StoreError: the store has others there, or its segment ends before them.
        CorruptDataError: the store's own bytes are damaged.
        OSError: the folder, or the service of the bucket, gives no answer.
    """
    ranges = exported_ranges(folder, head)
    if not ranges:
        return
    end = max(stop for _, stop in ranges)
    if end > info.length:
        info = view.now(info)  # another export may have written more since it was looked at
    if end > info.length:
        raise _others(info, folder, info.length, end)
    for start, stop in ranges[: -FILES_MAX - 1 : -1]:
        low = block_before(info.start_offset, stop)
        if low == stop:
            return
        stretches = _stretches(folder / range_name(head, start, stop), head, start, stop, low)
        if stretches:
            _compare(view, info, folder, low, stop, stretches)
            return


def _compare(
    view: StoreView,
    info: SegmentInfo,
    folder: Place,
    low: int,
    stop: int,
    stretches: Sequence[Stretch],
) -> None:
    try:
        ours = view.read(info, low, stop - low)
    except (SegmentNotFoundError, SegmentTruncatedError):
        return  # a moment ago: the next plan says so
    for offset, data in stretches:
        if ours[offset - low : offset - low + len(data)] != data:
            raise _others(info, folder, offset, offset + len(data))


def _others(info: SegmentInfo, folder: Place, start: int, end: int) -> StoreError:
    return StoreError(
        "the store has other bytes of the segment than this export, or none: its tier 1 was put "
        "back to an older copy; export into another folder",
        segment=info.name,
        start=start,
        end=end,
        folder=folder,
    )


def _stretches(place: Place, head: ExportHead, start: int, stop: int, low: int) -> list[Stretch]:
    """What a file has of the bytes between ``low`` and ``stop``; of records perhaps not all."""
    if head.form is Form.FILES:
        begin = max(start, low)
        with opened(place) as file:
            file.seek(begin - start)
            found = [(begin, file.read(stop - begin))]
        return found
    skip = HEADER_BYTES if head.records is Records.EVENTS else 0
    cut = [(offset + skip, value) for offset, value in _last_rows(place, low)]
    cut = [(max(low, offset), value[max(0, low - offset) :]) for offset, value in cut]
    return [(offset, value[: stop - offset]) for offset, value in cut if offset < stop and value]


def _last_rows(place: Place, low: int) -> list[tuple[int, bytes]]:
    """Rows of the last group of a file of Parquet: those from ``low`` on, or the last one."""
    import pyarrow.compute
    import pyarrow.parquet

    with opened(place) as source, pyarrow.parquet.ParquetFile(source) as file:
        counts = [file.metadata.row_group(index).num_rows for index in range(file.num_row_groups)]
        groups = [index for index, count in enumerate(counts) if count]
        if not groups:
            return []
        table = file.read_row_group(groups[-1])
    last = table.slice(len(table) - 1)
    table = table.filter(pyarrow.compute.greater_equal(table["offset"], low))
    rows = table if len(table) else last
    values = rows["value"].cast(pyarrow.large_binary()).to_pylist()
    return list(zip(rows["offset"].to_pylist(), values, strict=True))
