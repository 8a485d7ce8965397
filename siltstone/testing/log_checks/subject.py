"""How the checks of a tier-1 log reach it, and the short words that they use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import pytest

from siltstone.core.fenced_log import FencedLog, LogReader
from siltstone.core.records.frame import (
    KIND_BATCH,
    Frame,
)

LINEAGE = bytes(range(16))
OTHER_LINEAGE = bytes(range(16, 32))
JOIN_TIMEOUT_S = 30


class LogHarness(ABC):
    """How to reach the log of one test. All handles of a test are handles on one log."""

    @abstractmethod
    def open_log(self) -> FencedLog:
        """A new handle on the log, unclaimed."""

    @abstractmethod
    def crash(self, log: FencedLog) -> None:
        """End a handle as the death of its process would: without an ``End`` frame."""

    def truncation_step(self) -> int:
        """Bytes after which the log can free room: more than one of its units."""
        return 1


class LogCase(LogHarness):
    """Short ways to say what the checks do."""

    @pytest.fixture(autouse=True)
    def _crash_what_is_open(self) -> Iterator[None]:
        self._opened: list[FencedLog] = []
        yield
        for log in self._opened:
            self.crash(log)

    def handle(self) -> FencedLog:
        """A new handle that ends with the test."""
        log = self.open_log()
        self._opened.append(log)
        return log

    def create(self, *, above: int = 0) -> FencedLog:
        """The log of a new container, claimed."""
        log = self.handle()
        log.claim(lineage=LINEAGE, new=True, above=above, takeover=False, owner="first")
        return log

    def claim(self, *, above: int = 0, takeover: bool = False, owner: str = "next") -> FencedLog:
        """The log of a container that exists, claimed by a new handle."""
        log = self.handle()
        log.claim(lineage=LINEAGE, new=False, above=above, takeover=takeover, owner=owner)
        return log

    def reader(self) -> LogReader:
        """A reader from a handle that claimed nothing."""
        return self.handle().open_read()

    def bodies(self, from_index: int | None = None) -> list[bytes]:
        """What a new reader shows, without ``End`` frames."""
        reader = self.reader()
        start = reader.first() if from_index is None else from_index
        return [frame.body for frame in reader.read(start) if frame.kind == KIND_BATCH]

    def frames(self) -> list[Frame]:
        """All frames that a new reader shows."""
        reader = self.reader()
        return list(reader.read(reader.first()))

    def fill(self, log: FencedLog, *, length: int = 1000, step: int | None = None) -> int:
        """Append until some room could be freed; return the end."""
        total = 0
        while log.end() < 5 or total <= (step or 2 * self.truncation_step()):
            log.append([bytes(length)], count=1)
            total += length
        return log.end()


def put(log: FencedLog, *bodies: bytes) -> list[int]:
    """Append one frame for each body."""
    return [log.append([body], count=1) for body in bodies]
