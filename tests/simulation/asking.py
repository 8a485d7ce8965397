"""How clients of a store ask it, and what its errors mean for the ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, TypeVar

from siltstone.core.constants import container_of
from siltstone.core.errors import (
    CorruptDataError,
    OffsetError,
    Outcome,
    SegmentNotFoundError,
    SegmentSealedError,
    SiltstoneError,
)
from siltstone.store.async_store import AsyncStore
from siltstone.store.handles.async_segment import AsyncSegment
from siltstone.store.handles.async_table import AsyncTable
from tests.simulation.facts import Attempt, Bytes, Segment, State, ViolationError
from tests.simulation.ledger import Ledger
from tests.support import inside
from tests.support.simulation.processes import Process

if TYPE_CHECKING:
    from tests.simulation.importing import Session

T = TypeVar("T")

SEGMENTS_MAX = 7
TAGS = 64
SIZES = (8, 9, 40, 300, 300, 1_000, 1_000, 3_000, 9_000)


@dataclass(eq=False)
class Writer:
    """An exactly-once writer, which may be carried on by a client of another process.

    Attributes:
        segment: what it appends to.
        name: its name there.
        sequence: of its newest append.
        append: the newest one.
        busy: whether a client has it.
    """

    segment: Segment
    name: str
    sequence: int = 0
    append: Bytes | None = None
    busy: bool = False


@dataclass(eq=False)
class Joining:
    """A concat whose outcome is not known yet.

    Attributes:
        target: the segment that gets the bytes.
        source: the one that they come from.
        bytes: the attempt.
        busy: whether a client has it.
    """

    target: Segment
    source: Segment
    bytes: Bytes
    busy: bool = False


@dataclass
class Plans:
    """What the clients of all processes hand over to one another."""

    names: int = 0
    writers: list[Writer] = field(default_factory=list)
    joinings: list[Joining] = field(default_factory=list)
    sessions: list[Session] = field(default_factory=list)
    targets: list[Segment] = field(default_factory=list)


class Asking:
    """What all verbs of the clients of one open store share."""

    def __init__(
        self, store: AsyncStore, process: Process, ledger: Ledger, plans: Plans, chance: Random
    ) -> None:
        self._store = store
        self._slot = inside.slots(store)[ledger.index]
        self._tag = tag_of(ledger.index, store.container_count)
        self._process = process
        self._ledger = ledger
        self._plans = plans
        self._chance = chance
        self._refusals = 0
        self.leaving = False

    @property
    def epoch(self) -> int:
        """Of the owner that would be asked now."""
        return self._slot.epoch

    async def _ask(
        self,
        call: Callable[[], Awaitable[T]],
        *attempts: Attempt,
        again: bool = False,
        segment: Segment | None = None,
        others: Iterable[Segment] = (),
    ) -> T | None:
        """Make a call and tell the ledger what its error means; ``None`` if there was one."""
        epoch = self.epoch
        current = epoch == self._ledger.epoch
        sure = segment is not None and segment.create.state is State.HAPPENED
        named = [*others, *([] if segment is None else [segment])]
        for each in named:
            each.calls += 1
        try:
            result = await call()
        except SiltstoneError as error:
            if self._process.dead:
                raise asyncio.CancelledError from error
            self._refusals += 1
            if isinstance(error, CorruptDataError):
                raise ViolationError(f"{self._process.name} of epoch {epoch}: {error!r}") from error
            if error.outcome is Outcome.NOT_APPLIED and not again:
                for attempt in attempts:
                    attempt.failed(f"its error says so: {error!r}")
            if current and epoch == self._ledger.epoch and segment is not None:
                self._judge(error, segment, epoch, sure=sure)
            return None
        finally:
            for each in named:
                each.calls -= 1
        if self._process.dead:
            raise asyncio.CancelledError
        self._refusals = 0
        return result

    def _judge(self, error: SiltstoneError, segment: Segment, epoch: int, *, sure: bool) -> None:
        """Whether a current owner may say that of a segment."""
        if isinstance(error, SegmentNotFoundError):
            if error.segment == segment.name and segment.rename is None:
                self._ledger.missing(segment, epoch, was_there=sure)
        elif isinstance(error, SegmentSealedError):
            if segment.seal is None:
                raise ViolationError(f"{segment.name} is sealed, and no client asked for it")
        elif isinstance(error, OffsetError) and error.expected < segment.start:
            raise ViolationError(f"{segment.name} became shorter: {error!r}")

    @property
    def _rows(self) -> AsyncTable:
        """The table of this container."""
        return self._store.table(f"{self._tag}rows")

    def _handle(self, segment: Segment) -> AsyncSegment:
        return self._store.segment(segment.name)

    def _some(self) -> Segment | None:
        """A segment that may be there and that clients share."""
        found = [
            segment
            for segment in self._ledger.segments.values()
            if not segment.private
            and segment.create.state is not State.FAILED
            and segment.rename is None
        ]
        return self._chance.choice(found) if found else None

    def _data(self) -> bytes:
        return self._chance.randbytes(self._chance.choice(SIZES))


def tag_of(index: int, count: int) -> str:
    """What names of a container begin with; nothing when there is only one."""
    if count == 1:
        return ""
    tags = (f"{{{number}}}" for number in range(TAGS))
    return next(tag for tag in tags if container_of(tag, count) == index)


async def true(work: Awaitable[None]) -> bool:
    """Await ``work``, which has no result; ``True`` says that it took place."""
    await work
    return True
