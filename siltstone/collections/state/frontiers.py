"""How far the since of a collection may move, and moves by itself."""

from __future__ import annotations

from dataclasses import replace

from siltstone.collections.state.refusals import check_open, name_of
from siltstone.core.errors import SinceHeldError
from siltstone.core.records.collection_frontier import DONE, HISTORY_ALL, is_frontier
from siltstone.core.records.collection_state import CollectionState


def held_since(state: CollectionState) -> int:
    """The frontier that the since may not pass; ``DONE`` where nothing holds it."""
    held = DONE
    for reader in state.readers.values():
        held = min(held, reader.since)
    for mark in state.bookmarks.values():
        held = min(held, mark.since)
    return held


def since_by_policy(state: CollectionState, upper: int) -> int:
    """The since that the history of the collection asks for, and readers and bookmarks allow.

    It stays at least one below ``upper``, which the collection gets, so that something can be read,
    and where it is when the collection is finished.
    """
    if state.history == HISTORY_ALL or upper == DONE:
        return state.since
    asked = max(0, upper - state.history)
    if asked <= state.since:
        return state.since
    return max(state.since, min(asked, held_since(state)))


def advance_since(state: CollectionState, now_ms: int, *, to: int) -> tuple[CollectionState, int]:
    """Move the since. Where it is beyond ``to`` already, nothing changes. May be repeated.

    Returns:
        The new state, and its since.

    Raises:
        SinceHeldError: a reader, a bookmark or the upper is in the way; at least the last time
            before the upper can always be read.
        ValueError: no frontier.
    """
    del now_ms
    check_open(state)
    if not is_frontier(to):
        raise ValueError(f"not a frontier: {to}")
    if to <= state.since:
        return state, state.since
    limit = min(held_since(state), max(0, state.upper - 1))
    if to > limit:
        raise SinceHeldError(
            collection=name_of(state),
            to=to,
            limit=max(limit, state.since),
            holder=_holder(state, limit),
        )
    return replace(state, since=to), to


def _holder(state: CollectionState, limit: int) -> str:
    """What keeps the since at ``limit``, for people."""
    for mark in state.bookmarks.values():
        if mark.since == limit:
            return f"bookmark {mark.name}"
    for reader in state.readers.values():
        if reader.since == limit:
            return f"reader {reader.id:016x}"
    return "the upper"
