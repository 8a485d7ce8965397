"""Collections that a caller that blocks makes of copies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from siltstone.collections.catalog import CatalogRow
from siltstone.collections.consensus.table_plugin import TABLE
from siltstone.collections.new_copies import CopyPlan, NewCopies
from siltstone.collections.opened_place import opened_place
from siltstone.collections.owned_place import owned_place
from siltstone.core.closed_on_exit import Closing
from siltstone.core.environment import Environment, SystemEnvironment
from siltstone.core.records.collection_state import CollectionState
from siltstone.store.blocking.background_loop import BackgroundLoop
from siltstone.store.opening import open_async_store
from siltstone.store.settings.effective import load_settings


def open_copies(path: Path | str) -> BlockingCopies:
    """Open the collections of a store for copies of others.

    The store is claimed where its settings say that collections are in a table.

    Raises:
        StoreInUseError: another process owns the store, which it would have to own.
        SiltstoneError: whatever ``open_async_collections`` raises.
    """
    environment = SystemEnvironment()
    loop = BackgroundLoop("siltstone-copies")
    try:
        copies = loop.run(_opened(path, environment))
    except BaseException:
        loop.close()
        environment.close()
        raise
    return BlockingCopies(loop, copies, environment)


async def _opened(path: Path | str, environment: Environment) -> NewCopies:
    if load_settings(path).collections.consensus != TABLE:
        return NewCopies(opened_place(path, environment, None))
    store = await open_async_store(path, environment=environment)
    try:
        return NewCopies(await owned_place(store, None), store)
    except BaseException:
        await store.close()
        raise


class BlockingCopies(Closing):
    """See ``NewCopies``."""

    def __init__(
        self, loop: BackgroundLoop, copies: NewCopies, environment: SystemEnvironment
    ) -> None:
        self._loop = loop
        self._copies = copies
        self._environment = environment

    @property
    def store_id(self) -> bytes:
        """Of the store, 16 bytes."""
        return self._copies.place.store_id

    def plan(self, name: str, source: CollectionState) -> CopyPlan:
        """See ``NewCopies.plan``."""
        return self._loop.run(self._copies.plan(name, source))

    def make(self, row: CatalogRow, first: CollectionState) -> None:
        """Make the collection of the id of ``first``. See ``NewCopies.make``."""
        self._loop.run(self._copies.make(replace(row, id=first.id), first))

    def lengths(self, prefix: str) -> dict[str, int]:
        """The lengths of objects whose names begin with ``prefix``. Raises ``ChunkError``."""
        return {stat.name: stat.length for stat in self._copies.place.storage.list(prefix)}

    def close(self) -> None:
        """End what names made due, and close the place. Idempotent."""
        try:
            self._loop.run(self._finished())
        finally:
            self._loop.close()
            self._environment.close()

    async def _finished(self) -> None:
        try:
            await self._copies.settle()
        finally:
            await self._copies.close()
