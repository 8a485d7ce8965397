"""The in-memory state of a segment that is in use. No I/O."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from siltstone.container.state.tail import Tail
from siltstone.core.records.piece import WriterMark
from siltstone.core.records.segment_state import SegmentState
from siltstone.core.records.writer_row import WriterRow


@dataclass(slots=True)
class WriterMemory:
    """An exactly-once writer as assigned."""

    row: WriterRow


class OpenSegment:
    """One segment in use.

    Attributes:
        segment_id: its id.
        name: its name.
        state: the acknowledged state row.
        writable: as assigned: neither sealed, nor deleted, nor held by a concat.
        assigned: length including appends in flight.
        length: acknowledged length.
        flushed: how much of it lies in chunks.
        tail: acknowledged bytes from ``flushed`` on.
        joint_end: where the bytes of its newest joint commit end, as far as it is acknowledged; 0
            if there is none that may be unflushed.
        piece: the piece of the batch being filled, if it is of that batch.
        writers: exactly-once writers by number, once loaded.
        joining: concats that are about to take its bytes; it keeps its name meanwhile.
        held: appends wait while a concat needs the segment to be paused.
        users: readers, waiters and operations that keep it in memory.
        grown: notifies those who wait for more bytes; ``None`` while none do.
    """

    __slots__ = (
        "assigned",
        "flushed",
        "grown",
        "held",
        "joining",
        "joint_end",
        "length",
        "name",
        "piece",
        "segment_id",
        "state",
        "tail",
        "users",
        "writable",
        "writers",
    )

    def __init__(self, state: SegmentState, flushed: int) -> None:
        self.segment_id = state.segment_id
        self.name = state.name
        self.state = state
        self.writable = state.sealed_length is None and not state.deleted
        self.assigned = flushed
        self.length = flushed
        self.flushed = flushed
        self.tail = Tail()
        self.piece: OpenPiece | None = None
        self.writers: dict[int, WriterMemory] | None = None
        self.held: asyncio.Event | None = None
        self.users = 0
        self.joining = 0
        self.joint_end = 0
        self.grown: asyncio.Event | None = None

    @property
    def idle(self) -> bool:
        """Whether nothing would be lost if it were loaded from its rows again."""
        return (
            not self.tail
            and self.assigned == self.length == self.flushed
            and not self.users
            and self.held is None
            and self.grown is None
        )

    def stop_appends(self) -> None:
        """Take no bytes from now on, until ``Replica.recompute`` decides it again."""
        self.writable = False

    def keep(self) -> None:
        """Keep it in memory until ``release`` is called as often as this."""
        self.users += 1

    def release(self) -> None:
        """Take one ``keep`` back."""
        self.users -= 1

    def in_use(self) -> SegmentUse:
        """Keep it in memory for the time of a ``with``."""
        return SegmentUse(self)

    @contextmanager
    def being_joined(self) -> Iterator[None]:
        """Keep its name, too, for the time of a ``with``: a concat is about to take its bytes."""
        with self.in_use():
            self.joining += 1
            try:
                yield
            finally:
                self.joining -= 1
                self.notify()

    def notify(self) -> None:
        """Wake those who wait for a change."""
        if self.grown is not None:
            self.grown.set()
            self.grown = None

    async def changed(self) -> None:
        """Wait for the next change: more bytes, sealed, truncated or deleted."""
        if self.grown is None:
            self.grown = asyncio.Event()
        await self.grown.wait()


class SegmentUse:
    """Keeps a segment in memory for the time of a ``with``.

    Reads make one each, and a class costs a quarter of what a generator does.
    """

    __slots__ = ("_segment",)

    def __init__(self, segment: OpenSegment) -> None:
        self._segment = segment

    def __enter__(self) -> None:
        self._segment.users += 1

    def __exit__(self, *_: object) -> None:
        self._segment.users -= 1


class OpenPiece:
    """Appends of one segment in one batch, which is ``batch``: known by identity alone.

    Attributes:
        joint_end: where the bytes of its newest joint commit end; 0 if it has none.
    """

    __slots__ = ("batch", "joint_end", "marks", "offset", "parts", "segment")

    def __init__(self, batch: object, segment: OpenSegment) -> None:
        self.batch = batch
        self.segment = segment
        self.offset = segment.assigned
        self.parts: list[bytes] = []
        self.joint_end = 0
        self.marks: dict[int, WriterMark] | None = None
