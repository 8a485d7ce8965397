"""Cutting a segment into ranges, one for each task. Pure functions over offsets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from siltstone.container.segment_map import SegmentMap
from siltstone.container.views import SegmentInfo
from siltstone.core.errors import CapabilityError, SegmentTruncatedError, SettingsError
from siltstone.core.words import BLOCK_BYTES, MIB
from siltstone.spark.options import ReadOptions
from siltstone.spark.window import Window, cut_window

RANGE_BYTES: Final = 64 * MIB
"""Large enough that starting a task costs little beside its reading."""

RANGE_BYTES_MIN: Final = 4 * MIB
"""A task of a Python data source costs some 20 ms, about the reading of so many bytes."""

RANGES_PER_CORE: Final = 3
"""So that cores which finish early find more to do."""

TAIL_RANGE_BYTES: Final = 16 * MIB
"""Unflushed bytes travel inside their task, and a cluster limits the size of a message."""

TAIL_BYTES_MAX: Final = 256 * MIB
"""Unflushed bytes of one read: they pass through the driver's memory several times."""

LOOKAHEAD_BYTES: Final = MIB
"""A range is given so much more than itself, for the end of its last line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineRange:
    """What one task reads: the lines of a segment that begin in ``[start, stop)``.

    Holds neither handles nor secrets: the task finds the settings where ``store`` says.

    Attributes:
        store: absolute path of the settings file, or of the folder that holds it.
        segment: name of the segment.
        segment_id: its id, which tells it from a later one of the same name.
        start: first offset.
        stop: the end of the range, above ``start``.
        end: the end of the whole snapshot, where also a line without newline ends.
        at_line_start: a line begins at ``start`` whatever lies before.
        window: where the bytes of the range lie, and of a little more.
    """

    store: str
    segment: str
    segment_id: int
    start: int
    stop: int
    end: int
    at_line_start: bool
    window: Window


def range_borders(
    start: int, stop: int, flushed: int, range_bytes: int | None, cores: int
) -> list[tuple[int, int]]:
    """Cut ``[start, stop)`` into half-open ranges.

    Args:
        start: first offset.
        stop: end of what is read.
        flushed: from here on the bytes are in no chunk.
        range_bytes: length of each range but the last; ``None`` chooses.
        cores: of the machine that plans.
    """
    size = range_bytes
    if size is None:
        share = -(-(stop - start) // (RANGES_PER_CORE * cores))
        size = min(RANGE_BYTES, max(RANGE_BYTES_MIN, share))
        # Blocks are read and verified whole, so a border inside one means reading it twice.
        size = -(-size // BLOCK_BYTES) * BLOCK_BYTES
    border = min(max(start, flushed), stop)
    found = _cut(start, border, size)
    return found + _cut(border, stop, min(size, TAIL_RANGE_BYTES))


def check_offsets(options: ReadOptions, info: SegmentInfo) -> tuple[int, int]:
    """Return the range that the options ask for.

    Raises:
        SegmentTruncatedError: it begins below the readable range.
        SettingsError: it reaches beyond the end.
    """
    start = info.start_offset if options.start is None else options.start
    stop = info.length if options.stop is None else options.stop
    for name, offset in (("from", start), ("to", stop)):
        if offset > info.length:
            raise SettingsError(
                f"option {name!r} is {offset}, beyond the length {info.length} of {info.name!r}"
            )
        if offset < info.start_offset:
            raise SegmentTruncatedError(
                segment=info.name, offset=offset, start_offset=info.start_offset
            )
    return start, stop


def mapped_range(start: int, stop: int, info: SegmentInfo) -> tuple[int, int]:
    """What has to be mapped to plan ``[start, stop)``: also the byte before, and some behind."""
    return max(info.start_offset, start - 1), min(info.length, stop + LOOKAHEAD_BYTES)


def plan_ranges(
    options: ReadOptions, segment: SegmentMap, start: int, stop: int, end: int, cores: int
) -> list[LineRange]:
    """Plan the tasks that read ``[start, stop)``; none when there is no byte to read.

    Args:
        options: of the read.
        segment: the map of what ``mapped_range`` says.
        start: first offset.
        stop: end of what is read.
        end: length of the segment in the snapshot.
        cores: of the machine that plans.

    Raises:
        CapabilityError: too many of the bytes are not flushed.
    """
    first = segment.info.start_offset
    if len(segment.tail) > TAIL_BYTES_MAX:
        raise CapabilityError(
            "too many unflushed bytes for one read; flush the segment first",
            segment=options.segment,
            unflushed_bytes=len(segment.tail),
            limit=TAIL_BYTES_MAX,
        )
    ranges = []
    for begin, border in range_borders(
        start, stop, segment.tail_offset, options.range_bytes, cores
    ):
        at_line_start = begin == first
        window_start = begin if at_line_start else begin - 1
        window_end = min(end, border + LOOKAHEAD_BYTES)
        ranges.append(
            LineRange(
                store=options.store,
                segment=options.segment,
                segment_id=segment.info.segment_id,
                start=begin,
                stop=border,
                end=end,
                at_line_start=at_line_start,
                window=cut_window(segment, window_start, window_end),
            )
        )
    return ranges


def _cut(start: int, stop: int, size: int) -> list[tuple[int, int]]:
    return [(begin, min(begin + size, stop)) for begin in range(start, stop, size)]
