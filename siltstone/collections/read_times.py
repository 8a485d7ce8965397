"""The times at which a collection is read."""

from __future__ import annotations

from collections.abc import Callable

from siltstone.core.records.collection_frontier import DONE, TIME_MAX
from siltstone.core.records.collection_state import CollectionState, Life


def checked_time(as_of: int) -> int:
    """Return a time. Raises ``ValueError`` if it is none."""
    if not 0 <= as_of <= TIME_MAX:
        raise ValueError(f"not a time: {as_of}")
    return as_of


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
