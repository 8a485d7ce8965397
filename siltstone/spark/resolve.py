"""Planning a read: where segments lie, asked of the store by a read-only open."""

from __future__ import annotations

from collections.abc import Iterable

from siltstone.container.models.segments import SegmentInfo
from siltstone.container.reader.read_container import ReadContainer
from siltstone.container.reads.same_segment import same_segment
from siltstone.container.state.segment_map import SegmentMap
from siltstone.core.errors import SegmentNotFoundError
from siltstone.pipelines.open_store import PAGE, OpenStore
from siltstone.spark.options import SEGMENTS_MAX, Mode, ReadOptions, Split, check_read
from siltstone.spark.ranges import (
    RecordRange,
    SegmentSpan,
    borders_between,
    check_span,
    check_tail,
    cuts_of,
    pack_ranges,
    plan_ranges,
    range_size,
)
from siltstone.spark.record_borders import begins_event


def resolve_tasks(options: ReadOptions, cores: int) -> list[tuple[RecordRange, ...]]:
    """Plan a read over the segments as they are now.

    Raises:
        StoreNotFoundError: there is no store.
        SettingsError: the settings file, ``from``, ``to`` or ``at_length`` is wrong.
        SegmentNotFoundError: there is no such segment, or none that begins with the prefix, or one
            was deleted meanwhile.
        SegmentTruncatedError: a range begins below the readable one.
        CapabilityError: too many bytes are not flushed.
    """

    async def ask(store: OpenStore) -> list[tuple[RecordRange, ...]]:
        spans = [check_span(options, info) for info in await _chosen(store, options)]
        return await plan_tasks(store, options, spans, cores)

    with OpenStore(options.store) as store:
        return store.run(ask(store))


async def _chosen(store: OpenStore, options: ReadOptions) -> list[SegmentInfo]:
    if not options.segments:
        found = await store.list(options.prefix, SEGMENTS_MAX)
        if not found:
            raise SegmentNotFoundError("no segment begins so", segment=f"{options.prefix}*")
        by_option = {"from": options.start, "to": options.stop, "at_length": options.at_length}
        for name, offsets in by_option.items():
            check_read(name, offsets or {}, [info.name for info in found])
        return found
    return [await (await store.container_of(name)).info(name) for name in options.segments]


async def plan_tasks(
    store: OpenStore, options: ReadOptions, spans: Iterable[SegmentSpan], cores: int
) -> list[tuple[RecordRange, ...]]:
    """Cut spans into ranges, and pack these into tasks.

    Args:
        store: of the store.
        options: of the read.
        spans: what is read of each segment.
        cores: of the machine that plans.

    Raises:
        SegmentNotFoundError: a segment was deleted meanwhile.
    """
    wanted = [span for span in spans if span.start < span.stop]
    size = range_size(sum(span.stop - span.start for span in wanted), options.range_bytes, cores)
    ranges: list[RecordRange] = []
    for span in wanted:
        container = await store.container_of(span.info.name)
        segment = await container.map(span.info.name, *span.mapped())
        same_segment(span.info.segment_id, segment.info)
        check_tail(segment)
        if options.mode is Mode.EVENTS:
            ranges += await _event_ranges(container, options, store.uuid, segment, span, size)
        else:
            cuts = cuts_of(options, segment, span, size)
            ranges += plan_ranges(options, store.uuid, segment, span, cuts)
    return pack_ranges(ranges, size)


async def _event_ranges(
    container: ReadContainer,
    options: ReadOptions,
    uuid: str,
    segment: SegmentMap,
    span: SegmentSpan,
    size: int,
) -> list[RecordRange]:
    name = span.info.name
    found = set(await container.append_borders(name, span.start, span.stop))
    found.update(row.extent.start for row in segment.extents)
    borders = sorted(offset for offset in found if span.start < offset < span.stop)

    async def begins(offset: int) -> bool:
        return await begins_event(
            lambda at, length: container.read(name, at, length), offset, span.end
        )

    if options.split is Split.NONE:
        cuts = [(span.start, span.stop)]
    else:
        flushed = segment.tail_offset
        cuts = await borders_between(span.start, span.stop, flushed, size, borders, begins)
    same_segment(span.info.segment_id, await container.info(name))
    return plan_ranges(options, uuid, segment, span, cuts, borders)


async def append_borders(container: ReadContainer, name: str, start: int, stop: int) -> list[int]:
    """Offsets in ``(start, stop)`` at which appends begin, as far as the store knows them.

    What a concat brought has no other borders than those of its extents.
    """
    found = set(await container.append_borders(name, start, stop))
    position = start
    while position < stop and (page := await container.chunks(name, position, PAGE)):
        found.update(chunk.start for chunk in page)
        position = page[-1].start + page[-1].length
    return sorted(offset for offset in found if start < offset < stop)
