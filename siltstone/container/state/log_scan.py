"""What a boot needs of the frames of the tier-1 log, in memory that does not grow with them.

The log is read twice. The first time, all but the appends is kept; of appends only where they begin
and end, roughly. Once the tables say what was flushed, it is read again from the first append that
was not. Each time a frame is verified, taken and forgotten.

An owner has to hold what was not flushed anyway, and a log in Kafka takes long to read. So an owner
keeps the newest frames of the first look, up to its bound of such bytes; where they reach back to
the first append that is needed, there is no second look.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Final, TypeVar

from siltstone.container.state.boot_state import BootState, check_begin, check_newest
from siltstone.container.state.exposed_bytes import Exposure
from siltstone.container.state.logged_frame import LoggedFrame, decode_logged_frame
from siltstone.core.constants import MIB
from siltstone.core.environment import Environment, Pool
from siltstone.core.errors import LogTruncatedError
from siltstone.core.fenced_log import FencedLog, LogReader
from siltstone.core.records.frame import Frame
from siltstone.core.records.piece import (
    AppendHead,
    ControlKind,
    ControlPiece,
    TablePiece,
    decode_time_record,
)

T = TypeVar("T")

LOG_POOL: Final = Pool(name="log-boot", threads=4)

_STRIDE: Final = 64
"""Frames in which the appends to a segment are noted as one."""

READS_MAX: Final = 5
"""Reads of a log that an owner truncates meanwhile, before the reading gives up."""

BATCH_BYTES_MAX: Final = 4 * MIB
_BATCH_FRAMES_MAX: Final = 256
"""Frames that are read on a thread before the loop applies them."""


class LogScan:
    """The first look at all frames that a log keeps.

    Attributes:
        first: index of the first frame; ``None`` when there is none.
        newest: index of the newest one, else -1.
        newest_epoch: its epoch, else 0.
        frames: those that hold more than appends and times, without their appends.
        exposure: what all frames brought.
        replayed_ms: the latest time in them, milliseconds since 1970; 0 without any.

    Args:
        boot_state: what the journal says.
        environment: the clocks.
        kept_bytes_max: most bytes of the newest frames that are kept with their appends.
    """

    def __init__(
        self, boot_state: BootState, environment: Environment, kept_bytes_max: int = 0
    ) -> None:
        self.first: int | None = None
        self.newest = -1
        self.newest_epoch = 0
        self.frames: list[LoggedFrame] = []
        self.exposure = Exposure()
        self.replayed_ms = 0
        journal_state = boot_state.journal_state
        self._boot_state = boot_state
        self._environment = environment
        self._epoch_at_newest: int | None = None
        self._starts: dict[int, tuple[array[int], array[int]]] = {}
        self._kept: deque[LoggedFrame] = deque()
        self._kept_bytes = 0
        self._kept_bytes_max = kept_bytes_max
        # What lies below this may be truncated at any time, so nothing there is needed.
        self._safe_index = 0 if journal_state is None else journal_state.safe_index
        self._kept_from = self._safe_index

    def take(self, frame: Frame) -> None:
        """Look at the next frame. Raises as ``decode_logged_frame``."""
        journal_state = self._boot_state.journal_state
        if self.first is None:
            self.first = frame.index
        if journal_state is not None and frame.index == journal_state.newest_index:
            self._epoch_at_newest = frame.epoch
        self.newest, self.newest_epoch = frame.index, frame.epoch
        whole = decode_logged_frame(frame)
        time_s, made_ms = frame_times(whole, self._environment)
        self.replayed_ms = max(self.replayed_ms, made_ms)
        size = 0
        kept = appended = changed = False
        for piece in whole.pieces:
            if isinstance(piece, AppendHead):
                appended = True
                size += piece.length
                self._note(piece, frame.index)
            elif isinstance(piece, TablePiece):
                kept = changed = True
            else:
                kept = kept or piece.control is not ControlKind.TIME
        if changed or appended:
            self.exposure.add(frame.index, size, time_s)
        if appended and frame.index >= self._kept_from:
            self._keep(whole)
        if kept:
            rest = tuple(piece for piece in whole.pieces if not isinstance(piece, AppendHead))
            self.frames.append(LoggedFrame(frame.index, frame.crc, b"", rest))

    def check(self) -> None:
        """Refuse what ``check_begin`` and ``check_frames`` refuse. Raises ``LogLostError``."""
        self.check_first(self.first)
        check_newest(self._boot_state, self._epoch_at_newest)

    def check_first(self, first: int | None) -> None:
        """Refuse a log that begins at ``first`` by now. Raises ``LogLostError``."""
        check_begin(self._boot_state, first)

    def first_needed(self, flushed: Callable[[int], int | None]) -> int:
        """The first index whose frame may hold bytes that are in no chunk; else beyond ``newest``.

        ``flushed`` tells how much of a segment is in chunks, and ``None`` for one that is gone.
        """
        needed = self.newest + 1
        for segment_id, (indexes, ends) in self._starts.items():
            length = flushed(segment_id)
            if length is None:
                continue
            for index, end in zip(indexes, ends, strict=True):
                if index >= needed:
                    break
                if end > length:
                    needed = index
                    break
        return max(needed, self._safe_index)

    def take_kept(self, start: int) -> deque[LoggedFrame] | None:
        """The frames with appends from ``start`` on; ``None`` if the log has to be read for them.

        The caller has them from then on, and may forget each one when it is applied.
        """
        kept, self._kept = self._kept, deque()
        if start < self._kept_from:
            return None
        while kept and kept[0].index < start:
            kept.popleft()
        return kept

    def _keep(self, frame: LoggedFrame) -> None:
        self._kept.append(frame)
        self._kept_bytes += len(frame.body)
        while self._kept_bytes > self._kept_bytes_max:
            oldest = self._kept.popleft()
            self._kept_bytes -= len(oldest.body)
            self._kept_from = oldest.index + 1

    def _note(self, head: AppendHead, index: int) -> None:
        found = self._starts.get(head.segment_id)
        if found is None:
            found = self._starts[head.segment_id] = array("q"), array("q")
        indexes, ends = found
        end = head.offset + head.length
        if indexes and index - indexes[-1] < _STRIDE:
            ends[-1] = max(ends[-1], end)
        else:
            indexes.append(index)
            ends.append(end)


def frame_times(frame: LoggedFrame, environment: Environment) -> tuple[float, int]:
    """When a frame was made: monotonic seconds, never in the future; milliseconds since 1970.

    The second is 0, and the first is now, for a frame that does not say.
    """
    now_s = environment.monotonic()
    for piece in frame.pieces:
        if isinstance(piece, ControlPiece) and piece.control is ControlKind.TIME:
            made_ms = decode_time_record(piece.payload, where=frame.where)
            return now_s - max(0.0, environment.time() - made_ms / 1000), made_ms
    return now_s, 0


async def scan_log(
    log: FencedLog | LogReader,
    boot_state: BootState,
    environment: Environment,
    *,
    kept_bytes_max: int = 0,
) -> LogScan:
    """Look at every frame that the log keeps.

    Raises as ``kept_frames``, and as ``decode_logged_frame``.
    """
    look = partial(
        scan_frames, boot_state=boot_state, environment=environment, kept_bytes_max=kept_bytes_max
    )
    return await environment.run_blocking(LOG_POOL, partial(kept_frames, log, look))


def kept_frames(log: FencedLog | LogReader, read: Callable[[Iterator[Frame]], T]) -> T:
    """Return what ``read`` makes of every frame that the log keeps.

    An older owner may still truncate what it stated while it held the log, so a read may have to
    begin again at the new first index.

    Raises:
        LogTruncatedError: the log was truncated under each of several reads.
    """
    for _ in range(READS_MAX):
        with suppress(LogTruncatedError):
            return read(log.read(log.first()))
    return read(log.read(log.first()))


def scan_frames(
    frames: Iterator[Frame],
    boot_state: BootState,
    environment: Environment,
    kept_bytes_max: int = 0,
) -> LogScan:
    """Look at frames for the first time. Blocking; raises as reading them."""
    scan = LogScan(boot_state, environment, kept_bytes_max)
    for frame in frames:
        scan.take(frame)
    return scan


def take_some(frames: Iterator[Frame]) -> list[Frame]:
    """The next frames, about ``BATCH_BYTES_MAX`` of them, none at the end. Blocking."""
    taken: list[Frame] = []
    size = 0
    for frame in islice(frames, _BATCH_FRAMES_MAX):
        taken.append(frame)
        size += frame.size
        if size >= BATCH_BYTES_MAX:
            break
    return taken


async def each_frame(
    log: FencedLog | LogReader,
    start: int,
    environment: Environment,
    apply: Callable[[LoggedFrame], object],
    newest: int | None = None,
) -> None:
    """Read frames from ``start`` on, up to and with ``newest`` if it is given; apply each.

    Raises as reading them, and as ``apply``.
    """
    frames = await environment.run_blocking(LOG_POOL, partial(log.read, start))
    while batch := await environment.run_blocking(LOG_POOL, partial(take_some, frames)):
        for frame in batch:
            if newest is not None and frame.index > newest:
                return
            apply(decode_logged_frame(frame))
