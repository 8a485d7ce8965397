"""Errors about a lost log say where it was looked for. Blocking."""

from __future__ import annotations

from typing import Any

from siltstone.core.errors import LogLostError
from siltstone.core.fenced_log import FencedLog, PlacedLog


def located(error: LogLostError, log: FencedLog) -> LogLostError:
    """Put the place of ``log`` into an error that does not name it yet.

    Where there is no such place, nothing tells that anything is lost, so the error says that first.

    Raises:
        LogError: the log could not look for its place.
    """
    if not isinstance(log, PlacedLog):
        return error
    place = log.place()
    facts: dict[str, Any] = {place.kind: place.name}
    if not place.exists:
        return LogLostError(
            f"there is no folder {place.name}, where the settings say that the log is: mend the"
            " setting or mount its disk; only if the log is gone, siltstone recover says what is"
            " left",
            **facts,
        )
    if place.name in str(error):
        return error
    return LogLostError(str(error), **facts)
