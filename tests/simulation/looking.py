"""A look at one segment, by an owner or a reader, compared with what the ledger knows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from siltstone.container.models.segments import SegmentInfo
from siltstone.core.errors import SegmentNotFoundError, SegmentTruncatedError
from siltstone.store.handles.async_segment import AsyncSegment
from tests.simulation.facts import Bytes, Segment, State, ViolationError
from tests.simulation.ledger import Ledger
from tests.simulation.times import check_offset_at
from tests.support.simulation.processes import Process

LOOKS_AT_TIMES = 0.5

KEY = "key"
"""The attribute that is set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Who looks.

    Attributes:
        name: of the process.
        ledger: what is known.
        epoch: of the owner that looks; ``None`` for a reader, who sees what is acknowledged.
        process: its; its death makes the answer void.
        refresh: what a reader does before a look, to see all that is acknowledged by then.
    """

    name: str
    ledger: Ledger
    epoch: int | None
    process: Process
    refresh: Callable[[], Awaitable[None]] | None = None

    @property
    def current(self) -> bool:
        """Whether no other process may know more than the one that looks."""
        return self.epoch is None or self.epoch == self.ledger.epoch

    def is_void(self) -> bool:
        """Whether the answer is not heard."""
        return self.process.dead


@dataclass(frozen=True, slots=True, kw_only=True)
class _Before:
    """What was known before the look, and so has to be seen by it."""

    current: bool
    there: bool
    length: int
    start: int
    sealed: bool
    ended: bool
    name: str
    values: list[Bytes]
    was_set: bool


async def look(who: Look, handle: AsyncSegment, segment: Segment) -> bool:
    """Look at everything of a segment that can be read.

    Raises:
        ViolationError: it is not what it has to be.
    """
    before = _Before(
        current=who.current,
        there=segment.create.state is State.HAPPENED,
        length=segment.length,
        start=segment.start,
        sealed=segment.sealed,
        ended=segment.ended,
        name=segment.name,
        values=list(segment.values),
        was_set=bool(segment.values) and segment.values[0].state is State.HAPPENED,
    )
    if who.refresh is not None:
        await who.refresh()
    try:
        info = await handle.info()
    except SegmentNotFoundError:
        if before.current and who.current and not who.is_void():
            _missing(who, segment, before)
        return True
    if who.is_void() or not _is_meant(who, info, segment, before):
        return True
    if before.current and who.current:
        _check_info(who, info, segment, before)
    try:
        data = await handle.read(info.start_offset, info.length - info.start_offset)
    except (SegmentNotFoundError, SegmentTruncatedError) as error:
        most = max(segment.start_max, who.ledger.rules.limit(segment, segment.length_max))
        if isinstance(error, SegmentTruncatedError) and info.start_offset >= most:
            raise ViolationError(f"{who.name}: no client truncated {segment.name}") from error
        return True
    if who.is_void() or who.ledger.segments.get(segment.name) is not segment:
        return True
    if len(data) != info.length - info.start_offset:
        raise ViolationError(f"{who.name}: a read of {segment.name} is short")
    segment.cut_unseen(info.start_offset)
    segment.seen(info.start_offset, data, who.name)
    _check_start(who, info, segment)
    if before.current and who.current and who.epoch is not None:
        _settle(who.epoch, info, segment)
    if segment.placed and who.process.chance.random() < LOOKS_AT_TIMES:
        await _look_at_times(who, handle, segment, info)
    return True


def _check_start(who: Look, info: SegmentInfo, segment: Segment) -> None:
    """Nothing may be cut but what a client asked for, or a rule allows at an append border."""
    start = info.start_offset
    who.ledger.rules.allow(segment, info.length)
    if start > segment.start_max:
        raise ViolationError(
            f"{who.name}: {segment.name} of {info.length} bytes starts at {start}, beyond "
            f"{segment.start_tried} that was asked for and {segment.ruled} that a rule allows"
        )
    if not segment.is_border(start):
        raise ViolationError(f"{who.name}: {segment.name} is cut inside an append, at {start}")


async def _look_at_times(
    who: Look, handle: AsyncSegment, segment: Segment, info: SegmentInfo
) -> None:
    """Ask for an offset by a time, and compare that with what was asked and heard when."""
    chance, current = who.process.chance, who.current and who.epoch is not None
    some = chance.choice(segment.placed)
    time_ms = chance.choice((some.asked_ms, some.heard_ms, some.heard_ms + 1, segment.now_ms()))
    time_ms = min(time_ms, segment.now_ms())
    try:
        # In the middle of a millisecond, which is rounded down.
        found = await handle.offset_at((time_ms + 0.5) / 1000)
        again = await handle.info()
    except SegmentNotFoundError:
        return
    # A segment of another life may have had the name meanwhile, and never this one's id.
    same = again.segment_id == info.segment_id and who.ledger.segments.get(segment.name) is segment
    if same and not who.is_void() and found <= segment.length:
        sure = current and who.current
        check_offset_at(segment, found, time_ms, again.start_offset, current=sure)


def _missing(who: Look, segment: Segment, before: _Before) -> None:
    if who.epoch is not None:
        who.ledger.missing(segment, who.epoch, was_there=before.there)
    elif (
        before.there
        and segment.end is None
        and segment.rename is None
        and segment.name == before.name
    ):
        raise ViolationError(f"{who.name}: {segment.name} is gone")


def _is_meant(who: Look, info: SegmentInfo, segment: Segment, before: _Before) -> bool:
    """Whether that is this very segment, and not another one of its name."""
    if who.ledger.segments.get(segment.name) is not segment:
        return False
    if segment.segment_id == info.segment_id:
        return True
    if not before.current or not who.current or who.epoch is None:
        return False
    if segment.segment_id is not None:
        raise ViolationError(f"{who.name}: {segment.name} is another segment")
    segment.segment_id = info.segment_id
    segment.create.happened()
    return True


def _check_info(who: Look, info: SegmentInfo, segment: Segment, before: _Before) -> None:
    segment.value_seen(info.attributes.get(KEY), before.values, who.name, was_set=before.was_set)
    if before.ended:
        raise ViolationError(f"{who.name}: {segment.name} came back")
    if info.length < before.length:
        raise ViolationError(
            f"{who.name}: {segment.name} has {info.length} bytes, {before.length} are certain"
        )
    if info.start_offset < before.start:
        raise ViolationError(
            f"{who.name}: truncated bytes of {segment.name} came back: "
            f"{info.start_offset}, not {before.start}"
        )
    if before.sealed and (not info.sealed or info.length != segment.sealed_length):
        raise ViolationError(f"{who.name}: the seal of {segment.name} is not what it was: {info}")
    if info.sealed and segment.seal is None:
        raise ViolationError(f"{who.name}: no client sealed {segment.name}")


def _settle(epoch: int, info: SegmentInfo, segment: Segment) -> None:
    """What older owners left open is known now."""
    segment.looked_through(epoch)
    for value in segment.values:
        if value.state is State.OPEN and value.epoch < epoch:
            value.failed(f"epoch {epoch} does not have it")
    segment.start = max(segment.start, info.start_offset)
    seal, end = segment.seal, segment.end
    if seal is not None and seal.state is State.OPEN and seal.epoch < epoch:
        if info.sealed:
            seal.happened()
            segment.sealed_length = info.length
        else:
            seal.failed(f"epoch {epoch} does not have it")
            segment.seal = None
    if end is not None and end.state is State.OPEN and end.epoch < epoch:
        end.failed(f"{segment.name} is still there in epoch {epoch}")
