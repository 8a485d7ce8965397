"""What it means that an object of rows is gone: read a newer state, or nothing will help."""

from __future__ import annotations

from functools import partial
from typing import Final

from siltstone.collections.reader_lease import ReaderLease
from siltstone.collections.shared_state import SharedState
from siltstone.collections.state.part_names import names_in, part_name
from siltstone.collections.state.refusals import check_open, name_of
from siltstone.core.errors import ChunkNotFoundError, LeaseExpiredError, LostDataError
from siltstone.core.records.collection_state import CollectionState
from siltstone.store.manifest import check_not_left

PLANS_MAX: Final = 8
"""Of one read without a lease. Each after the first means that parts were replaced and collected
while it went on, which takes 15 minutes."""


async def state_without(
    shared: SharedState, error: ChunkNotFoundError, lease: ReaderLease | None
) -> CollectionState:
    """Return a newer state, which does not name the part that a read did not find.

    Args:
        shared: the collection.
        error: of the read.
        lease: of the reader; ``None`` where it has none.

    Raises:
        LeaseExpiredError: the lease ended, so the part was not held.
        StoreNotFoundError: the store was switched to another long-term storage.
        LostDataError: the part was held, or is needed still: its object was deleted by others.
        CollectionDroppedError: the collection was dropped, and its parts with it.
        ChunkError: long-term storage did not answer.
    """
    state = await shared.refresh()
    check_open(state)
    if lease is not None:
        lease.check()
    if lease is not None or is_needed(state, error):
        await check_store_here(shared)
        raise LostDataError(
            "rows of a collection are gone", where=error.chunk, collection=name_of(state)
        ) from error
    return state


async def check_store_here(shared: SharedState) -> None:
    """Look whether objects are gone since the store was switched to another long-term storage.

    Raises:
        StoreNotFoundError: it was: it is opened by its new settings.
        ChunkError: long-term storage did not answer.
    """
    place = shared.place
    await place.ask(partial(check_not_left, place.storage))


def is_needed(state: CollectionState, error: ChunkNotFoundError) -> bool:
    """Whether a state names the part that a read did not find."""
    missing = part_name(error.chunk)
    return any(missing in names_in(batch) for batch in state.batches.items)


def too_slow(state: CollectionState) -> LeaseExpiredError:
    """What a reader without a lease is told whose parts go faster than it reads them."""
    return LeaseExpiredError(
        "parts were collected while they were read without a lease; read with one",
        collection=name_of(state),
    )
