"""The memory log of one container: the contract, over a log that the process shares."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress

from siltstone.core.constants import FRAME_BYTES_MAX, Buffer
from siltstone.core.errors import (
    FencedError,
    LogError,
    LogLostError,
    Outcome,
    StoreInUseError,
)
from siltstone.core.fenced_log import HandleState, LogHandle, LogOwner, LogPlace, LogReader
from siltstone.core.records.frame import KIND_BATCH, KIND_END, Frame, decode_frame, encode_frame
from siltstone.tier1.memory.reader import MemoryLogReader
from siltstone.tier1.memory.shared_log import SharedLog, shared_log


class MemoryFencedLog(LogHandle):
    """A ``FencedLog`` in memory. Thread-safe.

    A handle that is dropped without ``close`` is a crash; the log outlives it.

    Args:
        name: handles of equal name and container share one log.
        container: number of the container.
        shared: a log that is in no registry, instead.
    """

    def __init__(self, name: str, container: int, *, shared: SharedLog | None = None) -> None:
        super().__init__()
        self._name = f"{name}/{container}"
        self._shared = shared or shared_log(name, container)
        self._lock = threading.RLock()
        self._lineage = b""

    @property
    def frame_bytes_max(self) -> int:
        """Largest frame in bytes."""
        return FRAME_BYTES_MAX

    def claim(self, *, lineage: bytes, new: bool, above: int, takeover: bool, owner: str) -> int:
        """See ``FencedLog.claim``."""
        self._check_claim(lineage, above, owner)
        with self._lock, self._shared.lock:
            if self._state is HandleState.CLAIMED:
                raise LogError("the handle is claimed already", outcome=Outcome.NOT_APPLIED)
            self._require(HandleState.UNCLAIMED)
            shared = self._shared
            self._check_lineage(lineage, new=new)
            if shared.is_held and not takeover:
                raise StoreInUseError("the log is in use", owner=shared.description, log=self._name)
            self._epoch = shared.epoch = 1 + max(above, shared.epoch)
            self._lineage = lineage
            shared.lineages.add(lineage)
            if not shared.frames:
                shared.lineage = lineage
            shared.holder = weakref.ref(self)
            shared.description = owner
            self._state = HandleState.CLAIMED
            return self._epoch

    def _check_lineage(self, lineage: bytes, *, new: bool) -> None:
        shared = self._shared
        if new:
            if shared.frames:
                raise LogLostError("the log of a new container holds frames", log=self._name)
        elif lineage not in shared.lineages:
            message = "the log is of another lineage" if shared.lineages else "the log is empty"
            raise LogLostError(message, log=self._name)
        elif shared.frames and shared.lineage != lineage:
            raise LogLostError("the newest frame is of another lineage", log=self._name)

    def append(self, buffers: Sequence[Buffer], *, count: int, reserve: bool = False) -> int:
        """See ``FencedLog.append``. ``reserve`` changes nothing: memory is not bounded here."""
        with self._lock:
            self._require(HandleState.CLAIMED)
            return self._append(buffers, KIND_BATCH, count)

    def _append(self, buffers: Sequence[Buffer], kind: int, count: int) -> int:
        shared = self._shared
        with shared.lock:
            encoded = encode_frame(
                buffers,
                kind=kind,
                lineage=self._lineage,
                epoch=self._epoch,
                index=shared.end,
                previous_crc=shared.crc,
                count=count,
            )
            if shared.epoch != self._epoch:
                self._state = HandleState.POISONED
                raise FencedError(
                    "a newer epoch was claimed", epoch=self._epoch, newer=shared.epoch
                )
            frame = decode_frame(b"".join(encoded.buffers))
            assert frame is not None, "what was encoded can be decoded"
            shared.frames.append(frame)
            shared.lineage = self._lineage
            shared.crc = frame.crc
            shared.end += 1
            return frame.index

    def first(self) -> int:
        """See ``FencedLog.first``."""
        with self._lock, self._shared.lock:
            self._require(HandleState.CLAIMED)
            return self._shared.first

    def end(self) -> int:
        """See ``FencedLog.end``."""
        with self._lock, self._shared.lock:
            self._require(HandleState.CLAIMED)
            return self._shared.end

    def read(self, from_index: int) -> Iterator[Frame]:
        """See ``FencedLog.read``."""
        with self._lock:
            self._require(HandleState.CLAIMED)
            return self._shared.read(from_index)

    def dropped_tail(self) -> int:
        """See ``FencedLog.dropped_tail``; memory tears nothing."""
        with self._lock:
            self._require(HandleState.CLAIMED)
            return 0

    def truncate(self, before_index: int) -> None:
        """See ``FencedLog.truncate``; here to the very frame.

        Raises:
            ValueError: ``before_index`` lies beyond ``end()``.
            FencedError: a newer epoch was claimed; nothing was removed. The handle is poisoned.
        """
        with self._lock, self._shared.lock:
            self._require(HandleState.CLAIMED)
            shared = self._shared
            if before_index > shared.end:
                raise ValueError(f"truncation at {before_index} beyond the end")
            if shared.epoch != self._epoch:
                self._state = HandleState.POISONED
                raise FencedError(
                    "a newer epoch was claimed", epoch=self._epoch, newer=shared.epoch
                )
            del shared.frames[: max(0, before_index - shared.first)]

    def newest_epoch(self) -> int:
        """See ``FencedLog.newest_epoch``."""
        with self._lock, self._shared.lock:
            self._require_open()
            return self._shared.epoch

    def holder(self) -> LogOwner:
        """See ``FencedLog.holder``."""
        with self._lock, self._shared.lock:
            self._require_usable()
            shared = self._shared
            return LogOwner(
                epoch=shared.epoch, alive=shared.is_held, description=shared.description
            )

    def open_read(self) -> LogReader:
        """See ``FencedLog.open_read``."""
        with self._lock:
            self._require_usable()
            return MemoryLogReader(self._shared)

    def place(self) -> LogPlace:
        """See ``PlacedLog.place``."""
        return LogPlace(kind="log", name=self._name)

    def fence_all(self) -> None:
        """See ``ReplaceableLog.fence_all``."""
        with self._lock, self._shared.lock:
            self._require(HandleState.UNCLAIMED)
            self._shared.epoch += 1

    def set_aside(self) -> str | None:
        """See ``ReplaceableLog.set_aside``."""
        with self._lock, self._shared.lock:
            self._require(HandleState.UNCLAIMED)
            return self._shared.set_aside(self._name)

    def close(self) -> None:
        """See ``FencedLog.close``."""
        with self._lock:
            if self._state is HandleState.CLAIMED:
                with suppress(FencedError):  # Then the newer owner's log is none of our business.
                    self._append([], KIND_END, 0)
            self.abandon()

    def abandon(self) -> None:
        """Free everything and append nothing, as the death of the process would. Idempotent."""
        with self._lock, self._shared.lock:
            self._state = HandleState.CLOSED
            shared = self._shared
            if shared.holder is not None and shared.holder() is self:
                shared.holder = None
