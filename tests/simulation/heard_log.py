"""A log that remembers what it acknowledged, so that one can ask what an owner stated."""

from __future__ import annotations

from collections.abc import Sequence

from siltstone.core.constants import Buffer
from siltstone.core.fenced_log import TendedLog
from siltstone.testing.faults.faulty_fenced_log import FaultyFencedLog


class HeardLog(FaultyFencedLog):
    """One handle: what it appends is of one epoch."""

    _frames: tuple[bytes, ...] = ()

    def append(self, buffers: Sequence[Buffer], *, count: int, reserve: bool = False) -> int:
        """``FencedLog.append``."""
        frame = b"".join(buffers)
        index = super().append(buffers, count=count, reserve=reserve)
        self._frames = (*self._frames, frame)
        return index

    def has_stated(self, name: str) -> bool:
        """Whether a frame that was acknowledged to this handle names this."""
        text = name.encode()
        return any(text in frame for frame in reversed(self._frames))


class TendedHeardLog(HeardLog):
    """One of a log that works next to its appends."""

    def tend(self) -> float:
        """``TendedLog.tend``."""
        assert isinstance(self.inner, TendedLog)
        return self.inner.tend()
