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


def warned_of_tail(warnings: tuple[str, ...], dropped_tail: int) -> tuple[str, ...]:
    """``warnings``, and one of a frame at the end of the log that is not whole, if it has any."""
    if not dropped_tail:
        return warnings
    warning = (
        f"tier-1 log ended in {dropped_tail} bytes of a torn frame: an append that was in flight"
        " and not acknowledged, unless these bytes were changed later"
    )
    return (*warnings, warning)


def facts_of(reader: LogReader) -> LogFacts:
    """Ask a log. Blocking."""
    return LogFacts(epoch=reader.epoch(), first=reader.first(), dropped_tail=reader.dropped_tail())
