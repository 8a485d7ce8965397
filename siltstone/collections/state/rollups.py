"""Commands about rollups and garbage, and when a rollup is due.

A rollup that a state names is an anchor: entries above it count while it exists. So it is deleted
only once a newer one is the floor, and before any entry.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from siltstone.core.errors import ConditionFailedError
from siltstone.core.records.collection_entry import Rollup
from siltstone.core.records.collection_state import CollectionState, Life

ROLLUP_EVERY: Final = 64
"""Entries. An open reads one rollup and the entries after it, mostly in one request."""

ROLLUP_LATE: Final = 2 * ROLLUP_EVERY
"""Entries without a rollup after which each process makes one: the one that had to is gone."""


def newest_rollup(state: CollectionState) -> Rollup | None:
    """The newest rollup that a state names; ``None`` before the first entry."""
    return state.rollups[max(state.rollups)] if state.rollups else None


def floor_rollup(state: CollectionState) -> Rollup:
    """The oldest rollup that is there for sure. All entries above it are kept."""
    return state.rollups[state.floor or min(state.rollups)]


def link_of(before: CollectionState, after: CollectionState) -> Rollup | None:
    """The rollup that ``after`` names and ``before`` does not, as its entry says it.

    ``None`` where there is none, and for the first entry, whose rollup is the anchor itself.
    """
    old, new = newest_rollup(before), newest_rollup(after)
    return None if old is None or new == old else new


def rollup_is_due(before: CollectionState | None, after: CollectionState) -> bool:
    """Whether a rollup of ``after`` should be made.

    Args:
        before: the state that a commit of this process made ``after`` of; ``None`` where others
            made it.
        after: the newest state.
    """
    newest = newest_rollup(after)
    distance = after.seqno - (0 if newest is None else newest.seqno)
    if before is None or distance >= ROLLUP_LATE:
        return distance >= ROLLUP_LATE
    return after.seqno // ROLLUP_EVERY > before.seqno // ROLLUP_EVERY or (
        before.life is Life.OPEN and after.life is not Life.OPEN
    )


def link_rollup(
    state: CollectionState, now_ms: int, *, rollup: Rollup
) -> tuple[CollectionState, None]:
    """Name a rollup that exists. May be repeated.

    Raises:
        ConditionFailedError: one of the same state, or of a newer one, is named already. Its own
            object may be deleted if each attempt is known to have had no effect.
        ValueError: a rollup of a state that is not there yet.
    """
    del now_ms
    if state.rollups.get(rollup.seqno) == rollup:
        return state, None
    newest = newest_rollup(state)
    if newest is not None and newest.seqno >= rollup.seqno:
        raise ConditionFailedError(
            "a newer rollup is named", condition=rollup.seqno, current=newest.seqno
        )
    if rollup.seqno > state.seqno:
        raise ValueError(f"rollup of a later state: {rollup.seqno} after {state.seqno}")
    rollups = {**state.rollups, rollup.seqno: rollup}
    return _with_floor(replace(state, rollups=rollups)), None


def note_collected(
    state: CollectionState, now_ms: int, *, through: int
) -> tuple[CollectionState, None]:
    """Say that the garbage of all states up to this seqno was deleted. May be repeated.

    The newest rollup that is not above it becomes the floor.

    Raises:
        ValueError: a state that is not there yet.
    """
    del now_ms
    if through > state.seqno:
        raise ValueError(f"garbage of a later state: {through} after {state.seqno}")
    if through <= state.collected:
        return state, None
    return _with_floor(replace(state, collected=through)), None


def forget_rollups(
    state: CollectionState, now_ms: int, *, below: int
) -> tuple[CollectionState, None]:
    """Name no rollup below ``below`` any more: all of them were deleted. May be repeated.

    Raises:
        ValueError: ``below`` is above the floor, so they may not be deleted.
    """
    del now_ms
    if below > state.floor:
        raise ValueError(f"rollups from the floor on stay: {below} after {state.floor}")
    rollups = {seqno: rollup for seqno, rollup in state.rollups.items() if seqno >= below}
    if len(rollups) == len(state.rollups):
        return state, None
    return replace(state, rollups=rollups), None


def _with_floor(state: CollectionState) -> CollectionState:
    """Return the state whose floor is the newest rollup whose garbage was collected."""
    collected = [seqno for seqno in state.rollups if seqno <= state.collected]
    return replace(state, floor=max(collected, default=state.floor))
