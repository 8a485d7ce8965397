"""Dates and times of day as seconds since 1970, also where a zone skips an hour or has it twice."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta


def seconds_of(moment: datetime) -> float:
    """Return the seconds since 1970 of a time in its zone, in this machine's without one.

    A time that the zone skips, as at the start of summer time, gives the moment at which it is
    skipped: so all that comes later is later, and an earlier time gives no later moment. A time
    that occurs twice gives the first one, unless ``fold`` says otherwise.

    Raises:
        ValueError, OverflowError: too far away for this machine.
    """
    first, second = (moment.replace(fold=fold).timestamp() for fold in (0, 1))
    if first <= second:
        return moment.timestamp()
    # Skipped: ``fold`` chooses the offset from UTC before it or after it, and the change lies in
    # between.
    low, high = math.floor(second), math.ceil(first)
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(middle, moment) == _offset(low, moment):
            low = middle
        else:
            high = middle
    return float(high)


def _offset(seconds: int, like: datetime) -> timedelta | None:
    return datetime.fromtimestamp(seconds, UTC).astimezone(like.tzinfo).utcoffset()
