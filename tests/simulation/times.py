"""What a border in time has to be."""

from __future__ import annotations

from siltstone.metadata import time_index
from tests.simulation.facts import Bytes, Segment, ViolationError


def check_offset_at(
    segment: Segment, found: int, time_ms: int, start: int, *, current: bool
) -> None:
    """Compare an answer of ``offset_at`` with what is known of the segment up to there.

    Args:
        segment: which.
        found: the answer.
        time_ms: what was asked for, and not later than the call.
        start: the first readable offset, then or a little later.
        current: no other process knew more than the one that answered.

    Raises:
        ViolationError: it misses bytes, is no border, or shows too much.
    """
    for append in segment.placed:
        if append.asked_ms >= time_ms and found > max(start, append.offset or 0):
            raise ViolationError(f"{append.what}: asked for {time_ms}, got {found}")
    if not segment.is_border(found):
        raise ViolationError(f"{segment.name}: {found} is no append border, for {time_ms}")
    if current:
        _check_not_too_early(segment, found, time_ms)


def _check_not_too_early(segment: Segment, found: int, time_ms: int) -> None:
    """Bytes older than asked for by more than a step of the index do not lie after the border."""
    young = next((a for a in segment.placed if a.heard_ms >= time_ms), None)
    if young is None:
        return
    for append in segment.placed:
        is_shown = (append.offset or 0) >= found and append is not young
        if is_shown and _is_older(append, young):
            raise ViolationError(f"{segment.name}: {found} for {time_ms} shows {append.what}")


def _is_older(append: Bytes, young: Bytes) -> bool:
    steps_ms = time_index.STEP_MS + 1
    return (append.offset or 0) < (young.offset or 0) and (
        append.heard_ms + steps_ms < young.asked_ms
    )
