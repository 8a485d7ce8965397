"""Times and frontiers of collections: numbers that mean something by themselves.

A *time* is a number from 0 to 2^63 - 2. A *frontier* is a time, or ``DONE``, which is after all
times. Both are kept as ``u64``.
"""

from __future__ import annotations

from typing import Final

TIME_MAX: Final = 2**63 - 2
"""The last time."""

DONE: Final = 2**64 - 1
"""The frontier after all times: what is complete up to here gets no more updates."""

AT_COMMIT: Final = DONE
"""In a part that was not appended yet: its rows get their time when they are."""

HISTORY_ALL: Final = 2**64 - 1
"""As the history of a collection: ``since`` moves only when it is asked to."""


def is_frontier(value: int) -> bool:
    """Whether it is a time or ``DONE``."""
    return 0 <= value <= TIME_MAX or value == DONE
