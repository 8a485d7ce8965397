"""Cutting segments into ranges, and packing ranges into tasks. Pure functions over offsets."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from siltstone.core.constants import BLOCK_BYTES, MIB
from siltstone.core.errors import CapabilityError, SegmentTruncatedError, SettingsError
from siltstone.pipelines.window import Window, cut_window
from siltstone.spark.options import ANY, Mode, Offsets, ReadOptions, Split

if TYPE_CHECKING:
    from siltstone.container.models.segments import SegmentInfo
    from siltstone.container.state.segment_map import SegmentMap

RANGE_BYTES: Final = 128 * MIB
"""What Spark reads of files in one task, unless told otherwise. Starting a task costs as much as
reading some 40 MiB of it, so shorter ones would be felt."""

RANGE_BYTES_MIN: Final = 16 * MIB
"""Of a small read, so that its tasks do more than begin."""

RANGES_PER_CORE: Final = 3
"""So that cores which finish early find more to do."""

TAIL_RANGE_BYTES: Final = 16 * MIB
"""Unflushed bytes travel inside their task, and a cluster limits the size of a message."""

TAIL_BYTES_MAX: Final = 256 * MIB
"""Unflushed bytes of one read: they pass through the driver's memory several times."""

LOOKAHEAD_BYTES: Final = MIB
"""A range is given this much more than itself, for the end of its last record."""

RANGES_PER_TASK_MAX: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSpan:
    """What is read of one segment, of one moment.

    Attributes:
        info: the segment at that moment.
        start: records that begin below it are left out.
        stop: records that begin at or beyond it are left out.
        end: the length that the segment is taken to have.
        joined: what follows is read later, from ``stop`` on.
    """

    info: SegmentInfo
    start: int
    stop: int
    end: int
    joined: bool = False

    def mapped(self) -> tuple[int, int]:
        """What has to be mapped to plan it: also the byte before, and some after it."""
        start = max(self.info.start_offset, self.start - 1)
        return start, min(self.end, self.stop + LOOKAHEAD_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRange:
    """A part of what one task reads: the records of a segment that begin in ``[start, stop)``.

    Holds neither handles nor secrets: the task finds the settings where ``store`` says.

    Attributes:
        store: absolute path of the settings file, or of the folder that holds it.
        uuid: of the store: on the task's machine the path may lead to another one.
        segment: name of the segment.
        segment_id: its id, which tells it from a later one of the same name.
        start: first offset.
        stop: the end of the range, above ``start``.
        end: the end of the whole snapshot, where also a record ends that is not whole.
        at_record_start: a record begins at ``start`` whatever lies before.
        joined: another range begins at ``stop``, now or later.
        borders: append borders in the range, ascending; only where a read may need them.
        window: where the bytes of the range lie, and of a little more.
    """

    store: str
    uuid: str
    segment: str
    segment_id: int
    start: int
    stop: int
    end: int
    at_record_start: bool
    joined: bool
    borders: tuple[int, ...]
    window: Window


def check_span(options: ReadOptions, info: SegmentInfo) -> SegmentSpan:
    """Return what the options ask for of one segment.

    Raises:
        SegmentTruncatedError: it begins below the readable range.
        SettingsError: it reaches beyond the end.
    """
    end = _chosen(options.at_length, info, info.length)
    _check_within("at_length", end, info, info.length)
    start = _chosen(options.start, info, info.start_offset)
    stop = _chosen(options.stop, info, end)
    for name, offset in (("from", start), ("to", stop)):
        _check_within(name, offset, info, end)
    return SegmentSpan(info=info, start=start, stop=stop, end=end)


def _chosen(offsets: Offsets | None, info: SegmentInfo, default: int) -> int:
    if offsets is None:
        return default
    return offsets.get(ANY, offsets.get(info.name, default))


def _check_within(option: str, offset: int, info: SegmentInfo, end: int) -> None:
    if offset > end:
        what = "length" if end == info.length else "'at_length'"
        raise SettingsError(
            f"option {option!r} is {offset}, beyond the {what} {end} of {info.name!r}"
        )
    if offset < info.start_offset:
        raise SegmentTruncatedError(
            segment=info.name, offset=offset, start_offset=info.start_offset
        )


def range_size(total: int, range_bytes: int | None, cores: int) -> int:
    """How many bytes a task should read.

    Args:
        total: bytes of all that is read.
        range_bytes: what the user said; ``None`` chooses.
        cores: of the machine that plans.
    """
    if range_bytes is not None:
        return range_bytes
    share = -(-total // (RANGES_PER_CORE * cores))
    size = min(RANGE_BYTES, max(RANGE_BYTES_MIN, share))
    # Blocks are read and verified whole, so a border inside one means reading it twice.
    return -(-size // BLOCK_BYTES) * BLOCK_BYTES


def range_borders(
    start: int, stop: int, flushed: int, size: int, grid: int = 1
) -> list[tuple[int, int]]:
    """Cut ``[start, stop)`` into half-open ranges.

    Args:
        start: first offset.
        stop: end of what is read.
        flushed: from here on the bytes are in no chunk.
        size: about the length of each range but the last.
        grid: every range but the last is a multiple of it long.
    """
    steps = (min(max(start, flushed), stop) - start) // grid
    border = start + steps * grid
    found = _cut(start, border, _on_grid(size, grid))
    return found + _cut(border, stop, _on_grid(min(size, TAIL_RANGE_BYTES), grid))


async def borders_between(
    start: int,
    stop: int,
    flushed: int,
    size: int,
    candidates: Sequence[int],
    begins_record: Callable[[int], Awaitable[bool]],
) -> list[tuple[int, int]]:
    """Cut ``[start, stop)`` at some of ``candidates``, which ascend; see ``range_borders``.

    Args:
        start: first offset.
        stop: end of what is read.
        flushed: from here on the bytes are in no chunk.
        size: about the length of each range.
        candidates: where the next record may begin.
        begins_record: whether it does.
    """
    found, begin = [], start
    while begin < stop:
        length = size if begin < flushed else min(size, TAIL_RANGE_BYTES)
        end = stop
        for candidate in candidates[bisect_left(candidates, begin + length) :]:
            if candidate >= stop or await begins_record(candidate):
                end = min(stop, candidate)
                break
        found.append((begin, end))
        begin = end
    return found


def cuts_of(
    options: ReadOptions, segment: SegmentMap, span: SegmentSpan, size: int
) -> list[tuple[int, int]]:
    """Cut a span into half-open ranges, in the modes in which any border will do."""
    if span.start >= span.stop:
        return []
    if options.split is Split.NONE:
        return [(span.start, span.stop)]
    grid = options.block_bytes if options.mode is Mode.BYTES else 1
    return range_borders(span.start, span.stop, segment.tail_offset, size, grid)


def check_tail(segment: SegmentMap) -> None:
    """Raise ``CapabilityError`` when too many bytes of a segment are not flushed."""
    if len(segment.tail) > TAIL_BYTES_MAX:
        raise CapabilityError(
            "too many unflushed bytes for one read; flush the segment first",
            segment=segment.info.name,
            unflushed_bytes=len(segment.tail),
            limit=TAIL_BYTES_MAX,
        )


def plan_ranges(
    options: ReadOptions,
    uuid: str,
    segment: SegmentMap,
    span: SegmentSpan,
    cuts: Sequence[tuple[int, int]],
    borders: Sequence[int] = (),
) -> list[RecordRange]:
    """Say of every range what its task needs.

    Args:
        options: of the read.
        uuid: of the store.
        segment: the map of what ``SegmentSpan.mapped`` says.
        span: what is read.
        cuts: the ranges, one after the other.
        borders: append borders in the span, ascending.
    """
    ranges = []
    for begin, border in cuts:
        at_start = begin == segment.info.start_offset or options.mode is not Mode.LINES
        ahead = 0 if options.mode is Mode.BYTES else LOOKAHEAD_BYTES
        ranges.append(
            RecordRange(
                store=options.store,
                uuid=uuid,
                segment=segment.info.name,
                segment_id=segment.info.segment_id,
                start=begin,
                stop=border,
                end=span.end,
                at_record_start=at_start,
                joined=span.joined or border < span.stop,
                borders=tuple(borders[bisect_right(borders, begin) : bisect_left(borders, border)]),
                window=cut_window(
                    segment, begin if at_start else begin - 1, min(span.end, border + ahead)
                ),
            )
        )
    return ranges


def pack_ranges(ranges: Iterable[RecordRange], size: int) -> list[tuple[RecordRange, ...]]:
    """Put neighbouring ranges into one task, as long as they are no longer than ``size`` together.

    Unflushed bytes of one task are at most as long as those of one range.
    """
    tasks: list[tuple[RecordRange, ...]] = []
    packed: list[RecordRange] = []
    length = carried = 0
    for part in ranges:
        more, tail = part.stop - part.start, len(part.window.tail)
        full = length + more > size or len(packed) == RANGES_PER_TASK_MAX
        if packed and (full or carried + tail > TAIL_RANGE_BYTES):
            tasks.append(tuple(packed))
            packed, length, carried = [], 0, 0
        packed.append(part)
        length += more
        carried += tail
    return [*tasks, tuple(packed)] if packed else tasks


def _on_grid(size: int, grid: int) -> int:
    return max(1, size // grid) * grid


def _cut(start: int, stop: int, size: int) -> list[tuple[int, int]]:
    return [(begin, min(begin + size, stop)) for begin in range(start, stop, size)]
