"""Where the batches of a stream end, and the tasks of each, by a store that stays open.

Spark often makes a reader that plans nothing, so ``stream`` loads this when it is asked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

from siltstone.container.models.segments import SegmentInfo
from siltstone.core.constants import container_of
from siltstone.core.errors import (
    LogLostError,
    OffsetError,
    SegmentNotFoundError,
    SegmentTruncatedError,
)
from siltstone.pipelines.open_store import OpenStore
from siltstone.spark.last_read import LastReads
from siltstone.spark.options import SEGMENTS_MAX, Mode, Split, check_read
from siltstone.spark.ranges import RecordRange, SegmentSpan
from siltstone.spark.record_ends import BlockEnds, EventEnds, LineEnds, RecordEnds, batch_end
from siltstone.spark.resolve import append_borders, plan_tasks
from siltstone.spark.stream_offsets import (
    StreamPosition,
    lineages_of,
    offset_of,
    positions_of,
    share_bytes,
)
from siltstone.spark.stream_options import OnTruncation, Starting, StreamOptions

T = TypeVar("T")

_GONE: Final = "the stream had not read all of it; the option onTruncation=skip continues without"


class StreamPlan:
    """Plans the batches of a stream; the store is open read-only from the first question on."""

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self._store: OpenStore | None = None
        self._targets: dict[str, tuple[int, int]] | None = None
        self._turn = 0
        self._last_reads = LastReads()

    def first_offset(self) -> dict[str, Any]:
        """Where a stream without a checkpoint begins now."""
        return self._run(self._first)

    def next_offset(
        self, start: dict[str, Any], max_bytes: int | None, max_rows: int | None
    ) -> dict[str, Any]:
        """Where the batch ends that begins at ``start``.

        Args:
            start: an offset as this class gives them.
            max_bytes: about how many bytes it has at most; ``None`` for no limit.
            max_rows: how many rows it has at most; ``None`` for no limit.

        Raises:
            SegmentTruncatedError: bytes that were not read are truncated.
            SegmentNotFoundError: a segment that was not read to its end is deleted.
            LogLostError: the store was recovered with loss since ``start``, or its tier 1 was put
                back to an older copy, or it is another one.
        """
        return self._run(partial(self._next, start, max_bytes, max_rows))

    def stay(self) -> None:
        """Go no further from now on than the segments reach."""
        infos = self._run(self._infos)
        self._targets = {name: (info.segment_id, info.length) for name, info in infos.items()}

    def tasks(self, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[RecordRange, ...]]:
        """The tasks of a batch; the same rows, whenever it is planned again.

        Raises as ``next_offset``.
        """
        return self._run(partial(self._plan, start, end))

    def close(self) -> None:
        """Close the store. Repeatable."""
        store, self._store = self._store, None
        if store is not None:
            store.close()

    def _run(self, work: Callable[[OpenStore], Coroutine[Any, Any, T]]) -> T:
        if self._store is None:
            self._store = OpenStore(self._options.read.store)
        return self._store.run(work(self._store))

    async def _first(self, store: OpenStore) -> dict[str, Any]:
        infos = await self._infos(store)
        positions = await self._first_positions(infos, store)
        positions = await self._last_reads.noted(store, infos, {}, positions)
        return offset_of(positions, await _lineages(store, positions))

    async def _next(
        self,
        start: dict[str, Any],
        max_bytes: int | None,
        max_rows: int | None,
        store: OpenStore,
    ) -> dict[str, Any]:
        known = await _followed(start, store)
        infos = await self._infos(store)
        await self._last_reads.check(store, infos, known)
        positions = await self._next_positions(infos, known, max_bytes, max_rows, store)
        positions = await self._last_reads.noted(store, infos, known, positions)
        return offset_of(positions, await _lineages(store, positions))

    async def _infos(self, store: OpenStore) -> dict[str, SegmentInfo]:
        """The segments that there are, by name, with all that was acknowledged until now."""
        await store.refresh()
        read = self._options.read
        if not read.segments:
            return {info.name: info for info in await store.list(read.prefix, SEGMENTS_MAX)}
        found = {}
        for name in read.segments:
            try:
                found[name] = await (await store.container_of(name)).info(name)
            except SegmentNotFoundError:
                continue
        return found

    async def _first_positions(
        self, infos: Mapping[str, SegmentInfo], store: OpenStore
    ) -> dict[str, StreamPosition]:
        for name in self._options.read.segments:
            if name not in infos:
                raise SegmentNotFoundError("no such segment", segment=name)
        check_read("startingOffsets", self._options.starting_offsets or {}, infos)
        positions = {}
        for name, info in infos.items():
            offset = info.start_offset
            if name in (self._options.starting_offsets or {}):
                offset = (self._options.starting_offsets or {})[name]
                _check_start(info, offset)
            elif self._options.starting is Starting.LATEST:
                ends = await self._ends(store, info, info.start_offset, info.length)
                offset = await ends.last(info.start_offset, info.length)
            positions[name] = StreamPosition(
                segment_id=info.segment_id, offset=offset, first=offset
            )
        return positions

    async def _next_positions(
        self,
        infos: Mapping[str, SegmentInfo],
        start: Mapping[str, StreamPosition],
        max_bytes: int | None,
        max_rows: int | None,
        store: OpenStore,
    ) -> dict[str, StreamPosition]:
        positions: dict[str, StreamPosition] = {}
        reach: dict[str, int] = {}
        for name in sorted(start.keys() | infos.keys()):
            position = self._position(name, start.get(name), infos.get(name))
            if position is not None:
                positions[name] = position
                reach[name] = self._reach(infos[name], position)
        backlogs = {
            name: end - positions[name].offset
            for name, end in reach.items()
            if end > positions[name].offset
        }
        shares = share_bytes(backlogs, max_bytes)
        left = max_rows
        for name in self._in_turn(sorted(shares)):
            if left == 0:
                break
            info, begin = infos[name], positions[name].offset
            ends = await self._ends(store, info, begin, reach[name])
            end, count = await batch_end(ends, begin, begin + shares[name], reach[name], left)
            left = None if left is None else left - count
            positions[name] = replace(positions[name], offset=end)
        return {
            name: replace(
                position, done=infos[name].sealed and position.offset == infos[name].length
            )
            for name, position in positions.items()
        }

    def _position(
        self, name: str, known: StreamPosition | None, info: SegmentInfo | None
    ) -> StreamPosition | None:
        """Where the next batch of a segment begins; ``None`` when it is not read any more."""
        skip = self._options.on_truncation is OnTruncation.SKIP
        if known is not None and (info is None or info.segment_id != known.segment_id):
            if not known.done and not skip:
                raise self._gone(name)
            known = None
        if info is None:
            return None
        if known is None:
            if self._targets is not None and name not in self._targets:
                return None
            begin = info.start_offset
            return StreamPosition(segment_id=info.segment_id, offset=begin, first=begin)
        return replace(known, offset=_begin(known, info, skip=skip))

    def _gone(self, name: str) -> SegmentNotFoundError:
        read = self._options.read
        asked = name in read.segments if read.segments else name.startswith(read.prefix)
        what = "the segment was deleted" if asked else "the options leave out the segment"
        return SegmentNotFoundError(f"{what}, and {_GONE}", segment=name)

    def _reach(self, info: SegmentInfo, position: StreamPosition) -> int:
        """How far a segment may be read now."""
        if self._targets is None:
            return info.length
        segment_id, length = self._targets.get(info.name, (info.segment_id, 0))
        return max(position.offset, length if segment_id == info.segment_id else 0)

    def _in_turn(self, names: list[str]) -> list[str]:
        """Turn the list of names: each is first in its turn, so a limit on rows starves none."""
        self._turn += 1
        begin = self._turn % len(names) if names else 0
        return names[begin:] + names[:begin]

    async def _ends(
        self, store: OpenStore, info: SegmentInfo, start: int, reach: int
    ) -> RecordEnds:
        container = await store.container_of(info.name)
        read = partial(container.read, info.name)
        sealed_length = info.length if info.sealed else None
        options = self._options.read
        if options.mode is Mode.LINES:
            return LineEnds(read, sealed_length)
        if options.mode is Mode.BYTES:
            return BlockEnds(options.block_bytes, sealed_length)
        borders = await append_borders(container, info.name, start, info.length)
        follows = options.split is Split.NONE
        return EventEnds(read, info.length, sealed_length, borders, reach=reach, follows=follows)

    async def _plan(
        self, start: dict[str, Any], end: dict[str, Any], store: OpenStore
    ) -> list[tuple[RecordRange, ...]]:
        begun, wanted = await _followed(start, store), await _followed(end, store)
        infos = await self._infos(store)
        await self._last_reads.check(store, infos, begun)
        await self._last_reads.check(store, infos, wanted)
        skip = self._options.on_truncation is OnTruncation.SKIP
        spans = []
        for name, until in wanted.items():
            begin, info = _begun(begun.get(name), until), infos.get(name)
            if begin is not None and begin.offset >= until.offset:
                continue
            if info is None or info.segment_id != until.segment_id:
                if skip:
                    continue
                raise self._gone(name)
            if until.offset > info.length:
                raise _behind_the_stream(info, until.offset)
            first = info.start_offset if begin is None else _begin(begin, info, skip=skip)
            # Events are read to their ends, wherever these are: so it shows whether one ends there.
            events = self._options.read.mode is Mode.EVENTS
            spans.append(
                SegmentSpan(
                    info=info,
                    start=first,
                    stop=until.offset,
                    end=info.length if events else until.offset,
                    joined=True,
                )
            )
        cores = len(os.sched_getaffinity(0))
        return await plan_tasks(store, self._options.read, spans, cores)


async def _lineages(store: OpenStore, names: Iterable[str]) -> dict[int, str]:
    """The lineages of the containers that have segments of these names."""
    found = {}
    for name in names:
        index = container_of(name, store.container_count)
        if index not in found:
            found[index] = (await store.container_of(name)).stats().lineage
    return found


async def _followed(offset: Mapping[str, Any], store: OpenStore) -> dict[str, StreamPosition]:
    """The positions of an offset, if the store still has the history in which they were read.

    The offsets of what a recovery lost are given to other bytes: none of them would be read, and
    what was read is not what there is.
    """
    positions, known = positions_of(offset), lineages_of(offset)
    lineages = await _lineages(store, positions)
    for name, position in positions.items():
        index = container_of(name, store.container_count)
        if index in known and known[index] != lineages[index]:
            raise LogLostError(
                "the store was recovered with loss since the stream read this segment, or is "
                "another one, so what it has read may be lost: begin with a new checkpoint",
                segment=name,
                offset=position.offset,
                found=lineages[index],
                expected=known[index],
            )
    return positions


def _begun(start: StreamPosition | None, until: StreamPosition) -> StreamPosition | None:
    """Where the batch begins that ends at ``until``; ``None`` where nothing tells.

    Spark notes no start of the first batch and asks for it again when that is planned again.
    """
    if start is None or start.segment_id != until.segment_id:
        start = None
    if until.first is not None and (start is None or start.offset == start.first):
        return replace(until, offset=until.first, last=None)
    return start


def _begin(known: StreamPosition, info: SegmentInfo, *, skip: bool) -> int:
    if known.offset > info.length:
        raise _behind_the_stream(info, known.offset)
    if known.offset >= info.start_offset:
        return known.offset
    if not skip:
        error = SegmentTruncatedError(
            segment=info.name, offset=known.offset, start_offset=info.start_offset
        )
        error.add_note(_GONE)
        raise error
    return info.start_offset


def _check_start(info: SegmentInfo, offset: int) -> None:
    if offset < info.start_offset:
        raise SegmentTruncatedError(
            segment=info.name, offset=offset, start_offset=info.start_offset
        )
    if offset > info.length:
        raise OffsetError(
            "option 'startingOffsets' lies beyond the length",
            segment=info.name,
            expected=info.length,
            actual=offset,
        )


def _behind_the_stream(info: SegmentInfo, offset: int) -> OffsetError:
    return OffsetError(
        "the segment is shorter than what the stream has read: it belongs to another store, or to "
        "one that was recovered with loss",
        segment=info.name,
        expected=info.length,
        actual=offset,
    )
