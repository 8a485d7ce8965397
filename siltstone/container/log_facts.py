"""What a reader knows of the log without asking it: an answer takes I/O."""

from __future__ import annotations

from dataclasses import dataclass

from siltstone.core.fenced_log import LogReader


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """A log as it was at the last look.

    Attributes:
        epoch: the newest one.
        first: index of the first frame that is kept.
        dropped_tail: bytes of a torn last frame.
    """

    epoch: int = 0
    first: int = 0
    dropped_tail: int = 0


def facts_of(reader: LogReader) -> LogFacts:
    """Ask a log. Blocking."""
    return LogFacts(epoch=reader.epoch(), first=reader.first(), dropped_tail=reader.dropped_tail())
