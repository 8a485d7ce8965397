"""Which parts nothing needs any more, and through which state.

A part is garbage when a state named it and a later one, which all holds have reached, does not. Who
reads without a hold has ``delay_ms``; after that a part that is gone means to plan again, so no
clock decides about rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from siltstone.collections.state.limits import CLOCK_JUMP_MS
from siltstone.collections.state.part_names import PartName, names_in
from siltstone.core.records.collection_state import CollectionState, Life


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionGarbage:
    """What may be deleted, and what may be said after that.

    Attributes:
        through: the state whose garbage, and that of all before it, this is.
        parts: to be deleted, in the order of their names. Some may be gone already.
    """

    through: int
    parts: tuple[PartName, ...]


def lowest_hold(state: CollectionState) -> int:
    """The seqno from which on all parts are needed: the lowest hold, or else the state's own."""
    holds = [row.hold for row in state.readers.values()]
    holds.extend(row.hold for row in state.writers.values() if row.hold)
    return min(state.seqno, *holds) if holds else state.seqno


def garbage_of(
    states: Sequence[CollectionState], *, now_ms: int, delay_ms: int
) -> CollectionGarbage | None:
    """Plan one collection of garbage.

    Args:
        states: all from the floor, or the oldest rollup, to the newest state, in their order.
        now_ms: milliseconds since 1970.
        delay_ms: how long parts stay for those who read without a hold.

    Returns:
        What is garbage; ``None`` where nothing new is, and always for a collection that moved away,
        whose parts belong to where it is now.
    """
    newest = states[-1]
    if newest.life is Life.MOVED:
        return None
    held = lowest_hold(newest)
    old = [
        place
        for place, state in enumerate(states)
        if state.seqno <= held and _is_old(state, now_ms, delay_ms)
    ]
    if not old or states[old[-1]].seqno <= newest.collected:
        return None
    last = states[old[-1]]
    parts: set[PartName] = set()
    for before, after in pairwise(states[: old[-1] + 1]):
        if after.seqno > newest.collected:
            parts.update(_named_no_more(before, after))
    for batch in last.batches.items:
        parts.difference_update(names_in(batch))
    return CollectionGarbage(through=last.seqno, parts=tuple(sorted(parts)))


def _is_old(state: CollectionState, now_ms: int, delay_ms: int) -> bool:
    return state.written_ms <= now_ms - delay_ms or state.written_ms > now_ms + CLOCK_JUMP_MS


def _named_no_more(before: CollectionState, after: CollectionState) -> set[PartName]:
    """The parts of the batches that only ``before`` has. They may be in other ones of ``after``."""
    if before.batches is after.batches:
        return set()
    kept = {id(batch) for batch in after.batches.items}
    return {
        name for batch in before.batches.items if id(batch) not in kept for name in names_in(batch)
    }
