"""Reading a memory log without a claim."""

from __future__ import annotations

from collections.abc import Iterator

from siltstone.core.errors import ClosedError
from siltstone.core.records.frame import Frame
from siltstone.tier1.memory.shared_log import SharedLog


class MemoryLogReader:
    """A ``LogReader`` on a memory log. Thread-safe."""

    def __init__(self, shared: SharedLog) -> None:
        self._log = shared
        self._is_closed = False

    @property
    def _shared(self) -> SharedLog:
        self._check_open()
        return self._log

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("the reader was closed")

    def epoch(self) -> int:
        """See ``LogReader.epoch``."""
        return self._shared.epoch

    def lineage(self) -> bytes | None:
        """See ``LogReader.lineage``."""
        return self._shared.lineage

    def first(self) -> int:
        """See ``LogReader.first``."""
        with self._shared.lock:
            return self._shared.first

    def end(self) -> int:
        """See ``LogReader.end``."""
        return self._shared.end

    def read(self, from_index: int) -> Iterator[Frame]:
        """See ``LogReader.read``."""
        return self._shared.read(from_index)

    def dropped_tail(self) -> int:
        """See ``LogReader.dropped_tail``; memory tears nothing."""
        self._check_open()
        return 0

    def close(self) -> None:
        """See ``LogReader.close``."""
        self._is_closed = True
