"""Times and frontiers as callers give them, and those at which a collection is read."""

from __future__ import annotations

from collections.abc import Callable
from operator import index

from siltstone.core.records.collection_frontier import DONE, TIME_MAX, is_frontier
from siltstone.core.records.collection_state import CollectionState, Life


def checked_time(as_of: int) -> int:
    """Return a time.

    Raises:
        TypeError: it is no whole number.
        ValueError: it is no time.
    """
    time = index(as_of)
    if not 0 <= time <= TIME_MAX:
        raise ValueError(f"not a time: {time}")
    return time


def checked_frontier(frontier: int) -> int:
    """Return a frontier. Raises as ``checked_time``."""
    checked = index(frontier)
    if not is_frontier(checked):
        raise ValueError(f"not a frontier: {checked}")
    return checked


def whole(number: int | None) -> int | None:
    """Return a number as an ``int``: what no record can hold would fail the whole entry.

    Raises:
        TypeError: it is no whole number.
    """
    return None if number is None else index(number)


def reaches(as_of: int) -> Callable[[CollectionState], bool]:
    """Whether a state is complete at ``as_of``, or never will be."""
    return lambda state: state.upper > as_of or state.life is not Life.OPEN


def chosen_time(state: CollectionState, as_of: int | None) -> int:
    """The time to read; the newest complete one, or the last one of a finished collection."""
    if as_of is not None:
        return as_of
    if state.upper != DONE:
        return state.upper - 1
    lowers = [batch.lower for batch in state.batches.items]
    times = [part.time_max for batch in state.batches.items for part in batch.parts()]
    return max([state.since, *lowers, *times])


def time_before(frontier: int) -> int:
    """The time that must still be told apart from those that begin at ``frontier``."""
    return max(0, min(frontier - 1, TIME_MAX))
