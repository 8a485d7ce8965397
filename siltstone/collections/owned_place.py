"""How collections are reached that are in a table of a store: by its owner, or by a reader."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

from siltstone.collections.consensus.table import TableConsensus
from siltstone.collections.consensus.table_keys import TABLE_NAME
from siltstone.collections.consensus.table_plugin import TABLE
from siltstone.collections.consensus.table_reader import TableReaderConsensus
from siltstone.collections.opened_place import place_with, storage_for
from siltstone.collections.place import CollectionPlace, CollectionSettings, collection_settings
from siltstone.collections.unchanged_storage import UnchangedStorage
from siltstone.core.errors import ClosedError, CollectionError
from siltstone.core.storage.uncancellable import run_whole
from siltstone.store.async_store import AsyncStore
from siltstone.store.store_assembly import OPEN_POOL, Assembly
from siltstone.store.system_table import SystemTable, system_table


async def owned_place(store: AsyncStore, chosen: CollectionSettings | None) -> CollectionPlace:
    """Return a place with a client of its own, next to an open store, on whose loop it is used.

    Args:
        store: stays open for as long as the place is used. Where it is open to be read only,
            nothing of the place can be changed.
        chosen: how this process uses collections; ``None`` means as the settings file says.

    Raises:
        ClosedError: it was closed.
        StoreError: its container that has the table is not open here.
        CollectionError: the store's collections are not in a table, so no owner is needed.
        ChunkError: long-term storage did not answer.
        LogError: the log refused, or did not answer.
    """
    if store.closed:
        raise ClosedError("the store was closed")
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
    if store.read_only:
        storage = UnchangedStorage(storage)
    try:
        consensus = await _consensus(store)
    except BaseException:
        storage.close()
        raise
    return place_with(assembly, settings, storage, consensus, store.environment)


async def viewed_place(store: AsyncStore) -> CollectionPlace:
    """Return a place that shows collections in a table, whatever the settings choose.

    Args:
        store: open read-only for as long as the place is used.

    Raises:
        ChunkError: long-term storage did not answer.
    """
    assert isinstance(store._parts, Assembly), "it was opened by its settings"
    settings = replace(collection_settings(store._parts.settings), consensus=TABLE)
    return await owned_place(store, settings)


async def _consensus(store: AsyncStore) -> TableConsensus:
    loop = asyncio.get_running_loop()
    if store.read_only:
        seen = SystemTable(store, TABLE_NAME)
        return TableReaderConsensus(seen.table, loop, store.environment, seen.look)
    system = await system_table(store, TABLE_NAME)
    return TableConsensus(system.table, loop, store.environment, system.flush, system.is_pinned)
