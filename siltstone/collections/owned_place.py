"""How the owner of a store reaches collections that are in a table of the store."""

from __future__ import annotations

import asyncio
from functools import partial

from siltstone.collections.consensus.table import TableConsensus
from siltstone.collections.consensus.table_keys import TABLE_NAME
from siltstone.collections.consensus.table_plugin import TABLE
from siltstone.collections.opened_place import place_with, storage_for
from siltstone.collections.place import CollectionPlace, CollectionSettings, collection_settings
from siltstone.core.errors import ClosedError, CollectionError, ReadOnlyError
from siltstone.core.storage.uncancellable import run_whole
from siltstone.store.async_store import AsyncStore
from siltstone.store.store_assembly import OPEN_POOL, Assembly
from siltstone.store.system_table import system_table


async def owned_place(store: AsyncStore, chosen: CollectionSettings | None) -> CollectionPlace:
    """Return a place with a client of its own, next to an open store, on whose loop it is used.

    Args:
        store: stays open for as long as the place is used.
        chosen: how this process uses collections; ``None`` means as the settings file says.

    Raises:
        ReadOnlyError: the store is open to be read only.
        ClosedError: it was closed.
        StoreError: its container that has the table is not open here.
        CollectionError: the store's collections are not in a table, so no owner is needed.
        ChunkError: long-term storage did not answer.
        LogError: the log refused, or did not answer.
    """
    if store.closed:
        raise ClosedError("the store was closed")
    if store.read_only:
        raise ReadOnlyError("collections in a table are opened by the owner of the store")
    assembly = store._parts
    assert isinstance(assembly, Assembly), "it was opened by its settings"
    settings = chosen or collection_settings(assembly.settings)
    if settings.consensus != TABLE:
        raise CollectionError(
            "collections of this store belong to no owner: give open_collections the path of the "
            "settings in place of the open store",
            consensus=settings.consensus,
        )
    opened = partial(storage_for, assembly, settings)
    storage = await run_whole(store.environment, OPEN_POOL, opened, lambda one: one.close())
    try:
        system = await system_table(store, TABLE_NAME)
    except BaseException:
        storage.close()
        raise
    consensus = TableConsensus(
        system.table, asyncio.get_running_loop(), store.environment, system.flush
    )
    return place_with(assembly, settings, storage, consensus, store.environment)
