"""Commands that end a collection here, or raise its format."""

from __future__ import annotations

from dataclasses import replace

from siltstone.collections.state.refusals import check_here, check_open, name_of
from siltstone.core.errors import CollectionDroppedError
from siltstone.core.records.collection_batch import Batches, CollectionBatch
from siltstone.core.records.collection_state import FORMAT, CollectionState, Life


def drop(state: CollectionState, now_ms: int) -> tuple[CollectionState, None]:
    """Give up all rows, readers, writers and bookmarks, for ever. May be repeated.

    The frontiers stay: one empty batch is left. What the rows were in becomes garbage.

    Raises:
        CollectionMovedError: it continues elsewhere.
    """
    del now_ms
    if state.life is Life.DROPPED:
        return state, None
    check_here(state)
    batches = Batches()
    if state.upper:
        batches = batches.added(CollectionBatch(lower=0, upper=state.upper, since=state.since))
    dropped = replace(
        state, life=Life.DROPPED, batches=batches, readers={}, writers={}, bookmarks={}
    )
    return dropped, None


def move_away(state: CollectionState, now_ms: int) -> tuple[CollectionState, None]:
    """Say that the entries continue in another consensus, which has this state. May be repeated.

    From then on the parts belong to the collection there, so nothing deletes them from here.

    Raises:
        CollectionDroppedError: it was dropped.
    """
    del now_ms
    if state.life is Life.MOVED:
        return state, None
    if state.life is Life.DROPPED:
        raise CollectionDroppedError("collection was dropped", collection=name_of(state))
    return replace(state, life=Life.MOVED), None


def upgrade(
    state: CollectionState, now_ms: int, *, format_number: int
) -> tuple[CollectionState, None]:
    """Raise the format: older releases then refuse the collection. May be repeated.

    Raises:
        CollectionDroppedError: it was dropped.
        CollectionMovedError: it continues elsewhere.
        ValueError: this release does not know that format.
    """
    del now_ms
    check_open(state)
    if not 1 <= format_number <= FORMAT:
        raise ValueError(f"formats up to {FORMAT} are known: {format_number}")
    if format_number <= state.format:
        return state, None
    return replace(state, format=format_number), None
