"""How far back a collection can be read, as people write it."""

from __future__ import annotations

from operator import index
from typing import Final

from siltstone.core.records.collection_frontier import HISTORY_ALL

_UNITS: Final = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def history_of(history: str | int, times: str) -> int:
    """How far the since stays below the upper, as ``AsyncCollections.create`` describes it.

    Raises:
        TypeError: it is neither a text nor a whole number.
        ValueError: it is not as described there.
    """
    if history == "all":
        return HISTORY_ALL
    if isinstance(history, str):
        digits = history.rstrip("abcdefghijklmnopqrstuvwxyz")
        unit = history[len(digits) :]
        if not digits.isdecimal() or unit not in _UNITS or times != "ms":
            raise ValueError(
                f"history is 'all', a count of times, or with times in 'ms' one such as '7d': "
                f"{history!r}"
            )
        history = int(digits) * _UNITS[unit]
    count = index(history)
    if not 1 <= count < HISTORY_ALL:
        raise ValueError(f"history is 1 or more: {count}")
    return count
