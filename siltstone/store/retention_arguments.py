"""A rule of retention from what callers hand in."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from siltstone.core.constants import check_segment_name
from siltstone.core.records.retention_row import RetentionRow, RetentionScope
from siltstone.store.handles.arguments import check_offset, check_seconds
from siltstone.store.settings.units import TIME_MAX_S

AGE_MIN_S: Final = 1.0
"""The time index is not finer than some seconds."""


def retention_row(
    name: str, *, prefix: bool, bytes_max: int | None, age_max: timedelta | float | None
) -> RetentionRow:
    """Return the rule that is meant.

    Raises:
        SegmentNameError: no segment has such a name, or begins with it.
        ValueError, TypeError: a limit that can not be.
    """
    if not (prefix and name == ""):
        check_segment_name(name)
    if bytes_max is not None:
        bytes_max = check_offset(bytes_max, what="bytes_max")
    return RetentionRow(
        scope=RetentionScope.PREFIX if prefix else RetentionScope.SEGMENT,
        name=name,
        bytes_max=bytes_max,
        age_max_ms=None if age_max is None else _age_ms(age_max),
    )


def _age_ms(age_max: object) -> int:
    given = age_max.total_seconds() if isinstance(age_max, timedelta) else age_max
    seconds = check_seconds(given, "age_max is a timedelta or seconds")
    if not AGE_MIN_S <= seconds <= TIME_MAX_S:
        raise ValueError(f"age_max must be between 1 and {TIME_MAX_S:.0f} seconds, not {seconds}")
    return round(seconds * 1000)
