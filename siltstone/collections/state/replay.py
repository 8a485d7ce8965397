"""All states from a rollup on, one after the other, for those who look at what they name."""

from __future__ import annotations

from collections.abc import Iterable

from siltstone.collections.state.diffs import apply
from siltstone.core.records.collection_entry import Diff
from siltstone.core.records.collection_state import CollectionState


def replayed(base: CollectionState, diffs: Iterable[Diff]) -> list[CollectionState]:
    """Return ``base`` and the state after each of the diffs that follow it.

    They share what they have in common. A batch that two of them have is one object.

    Raises:
        CorruptDataError: the diffs do not follow, or do not fit.
        FormatError: a newer version wrote one.
    """
    states = [base]
    for diff in diffs:
        states.append(apply(states[-1], diff))
    return states
