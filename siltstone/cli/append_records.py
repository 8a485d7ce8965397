"""Appending a stream record by record, and once however often it is repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from siltstone.core.errors import SegmentTruncatedError, SequenceError, SiltstoneError
from siltstone.store.handles.streams import PartialAppendError, StreamProgress

if TYPE_CHECKING:
    from siltstone.store.blocking.segment import Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """How far an input came.

    Attributes:
        progress: what of it is durable. Its offset is ``None`` also where an earlier run began.
        repeated: bytes of it that an earlier run had appended.
        records: how many it had so far.
    """

    progress: StreamProgress = field(default_factory=StreamProgress)
    repeated: int = 0
    records: int = 0


class Anyone:
    """Appends of no writer: a repeat appends again."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment

    def lacking(self, records: list[bytes], first: int) -> list[bytes]:
        """All of them."""
        return records

    def append(self, data: bytes, last: int) -> int:
        """Append one group."""
        return self._segment.append(data)

    def found(self) -> StreamProgress:
        """Nothing was there."""
        return StreamProgress()

    def check_end(self) -> None:
        """Nothing can be missing."""


class Once:
    """Appends of a writer, each under the sequence of its last record.

    So the writer's own sequence says up to which record all is durable, and a repeat may cut the
    rest as it likes. What the writer's last append holds is compared with the input.

    Args:
        segment: where to.
        name: of the writer.
        first: sequence of the input's first record.
    """

    def __init__(self, segment: Segment, name: str, first: int) -> None:
        self._segment = segment
        self._writer = segment.writer(name)
        self._first = first
        known = {info.name: info for info in segment.writers()}
        self._last = known[name]
        self._tail = b""
        self._progress = StreamProgress()

    def lacking(self, records: list[bytes], first: int) -> list[bytes]:
        """Return those that are not durable yet. ``first`` counts those before them."""
        begin = self._first + first
        count = min(max(0, self._last.sequence + 1 - begin), len(records))
        if count:
            self._pass_over(b"".join(records[:count]))
            if begin + count - 1 == self._last.sequence:
                self._compare()
        return records[count:]

    def append(self, data: bytes, last: int) -> int:
        """Append one group, whose last record is number ``last`` of the input."""
        return self._writer.append(data, sequence=self._first + last)

    def found(self) -> StreamProgress:
        """What of the input an earlier run had appended."""
        return self._progress

    def check_end(self) -> None:
        """Refuse an input that ends before what the writer has appended: it is another one."""
        if self._progress.length and self._progress.end is None:
            raise self._other("the writer has appended more than this input under later sequences")

    def _pass_over(self, data: bytes) -> None:
        length = self._progress.length + len(data)
        self._progress = StreamProgress(length=length)
        self._tail = (self._tail + data)[-self._last.length :]

    def _compare(self) -> None:
        end = self._last.offset + self._last.length
        begin = end - len(self._tail)
        try:
            same = self._segment.read(begin, len(self._tail)) == self._tail
        except SegmentTruncatedError:  # what is gone cannot be compared
            same = True
        if not same:
            raise self._other("the writer has appended other bytes under these sequences")
        whole = self._progress.length == len(self._tail)
        self._progress = replace(self._progress, offset=begin if whole else None, end=end)

    def _other(self, message: str) -> SequenceError:
        return SequenceError(
            message,
            segment=self._segment.name,
            sequence=self._first,
            last_sequence=self._last.sequence,
        )


def append_records(
    segment: Segment,
    way: Anyone | Once,
    groups: Iterable[list[bytes]],
    tell: Callable[[Recorded], None],
) -> Recorded:
    """Append groups of records, each group by one append, the next one read meanwhile.

    However this ends, what was told last is what is durable, but for an append whose outcome is
    unknown.

    Args:
        segment: where to.
        way: how.
        groups: of records; none is empty.
        tell: called with what is durable after each step.

    Raises:
        PartialAppendError: it failed after a part was durable.
        SequenceError: the writer's sequences are those of another input.
    """
    run = _Run(way, tell)
    try:
        with ThreadPoolExecutor(1, "siltstone-append") as thread:
            try:
                for group in groups:
                    run.go_on(thread, group)
            finally:  # interrupted or failed, what is on its way still counts
                run.land()
    except SequenceError:
        raise
    except (SiltstoneError, OSError, ValueError) as error:
        if not run.made.progress.length:
            raise
        raise PartialAppendError(
            segment=segment.name, progress=run.made.progress, cause=error
        ) from error
    way.check_end()
    return run.made


class _Run:
    """One append at a time is on its way, while the next group is read."""

    def __init__(self, way: Anyone | Once, tell: Callable[[Recorded], None]) -> None:
        self.made = Recorded()
        self._way = way
        self._tell = tell
        self._flying: tuple[Future[int], int, int] | None = None
        self._read = 0

    def go_on(self, thread: ThreadPoolExecutor, group: list[bytes]) -> None:
        first, self._read = self._read, self._read + len(group)
        lacking = self._way.lacking(group, first)
        if len(lacking) < len(group):
            found = self._way.found()
            self._note(found, self._read - len(lacking), found.length)
        self.land()
        if lacking:
            data = b"".join(lacking)
            future = thread.submit(self._way.append, data, self._read - 1)
            self._flying = future, len(data), self._read

    def land(self) -> None:
        if self._flying is None:
            return
        (future, length, records), self._flying = self._flying, None
        offset = future.result()
        before = self.made.progress
        made = StreamProgress(
            offset=before.offset if before.length else offset,
            length=before.length + length,
            end=offset + length,
        )
        self._note(made, records, self.made.repeated)

    def _note(self, progress: StreamProgress, records: int, repeated: int) -> None:
        self.made = Recorded(progress=progress, repeated=repeated, records=records)
        self._tell(self.made)
