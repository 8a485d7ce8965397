"""Which objects nothing names and nothing ever will: what died processes left.

No age is asked for. A part can be appended only while its writer has a row whose hold it is not
below, so list first, then read the newest state for certain, and then judge.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from siltstone.collections.state.part_names import PartName, names_in
from siltstone.collections.state.rollups import newest_rollup
from siltstone.core.records.collection_state import CollectionState, Life


def parts_to_sweep(listed: Iterable[PartName], states: Sequence[CollectionState]) -> list[PartName]:
    """Return the parts that no state has named or can name, of those that were listed.

    Args:
        listed: parts that exist. They were listed before the newest state was read.
        states: all from the floor, or the oldest rollup, to the newest state, in their order.
    """
    newest = states[-1]
    if newest.life is Life.MOVED:
        return []
    holds = {row.id: row.hold for row in newest.writers.values() if row.hold}
    named = _named(states)
    return [
        name
        for name in listed
        if name not in named and (name.writer not in holds or name.born < holds[name.writer])
    ]


def rollups_to_sweep(
    listed: Iterable[tuple[int, int]], newest: CollectionState
) -> list[tuple[int, int]]:
    """Return the rollups that no state can name any more: the newest one has their place.

    Args:
        listed: seqno and nonce of rollups that exist. They were listed before the state was read.
        newest: the newest state.
    """
    anchor = newest_rollup(newest)
    if anchor is None:
        return []
    named = {(rollup.seqno, rollup.nonce) for rollup in newest.rollups.values()}
    return [key for key in listed if key[0] <= anchor.seqno and key not in named]


def _named(states: Sequence[CollectionState]) -> set[PartName]:
    """All parts that one of the states names. Most batches are in many of them."""
    batches = {id(batch): batch for state in states for batch in state.batches.items}
    return {name for batch in batches.values() for name in names_in(batch)}
