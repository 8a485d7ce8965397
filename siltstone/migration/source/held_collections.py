"""The collections of a store kept for a copy, whichever consensus they have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from siltstone.collections.consensus.table_plugin import TABLE
from siltstone.pipelines.store_view import store_view
from siltstone.store.manifest import read_manifest
from siltstone.store.store_assembly import storage_of

if TYPE_CHECKING:
    from siltstone.collections.blocking.held import BlockingHold


@contextmanager
def held_collections(path: Path | str, *, is_pinned: bool = False) -> Iterator[BlockingHold | None]:
    """Hold all collections of a store until the end of the block; ``None`` if it has none.

    Leases keep what is held. Collections that are in a table of the owner cannot have a lease of
    another process, so the store is pinned for them, and the owner heeds that.

    Args:
        path: the settings file, or its folder. Its package for collections is installed.
        is_pinned: whether the caller has pinned what the store shows, as a ``store_view`` does.

    Raises:
        StoreNotFoundError: there is no store.
        CollectionLimitError: a collection has too many readers.
        SiltstoneError: whatever opening the collections of a store raises.
    """
    # What needs the package of collections is imported where there may be any.
    from siltstone.collections.consensus_choice import chosen_consensus

    with closing(storage_of(path)) as storage:
        read_manifest(storage)
        chosen = chosen_consensus(storage)
    if chosen is None:
        yield None
        return
    from siltstone.collections.blocking.held import hold_collections, show_collections

    with ExitStack() as stack:
        if chosen == TABLE:
            if not is_pinned:
                stack.enter_context(store_view(path))
            yield stack.enter_context(show_collections(path))
        else:
            yield stack.enter_context(hold_collections(path))
