"""The collections of a store, for asyncio: made, found, renamed and dropped. Nothing is claimed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow

from siltstone.collections.async_collection import AsyncCollection
from siltstone.collections.catalog import (
    CATALOG_ID,
    CATALOG_NAME,
    Catalog,
    CatalogRow,
    begun,
    catalog_row,
    new_row,
    opened_catalog,
)
from siltstone.collections.check import check_each, found_ids, stored_parts
from siltstone.collections.collection_warnings import warnings_of_each
from siltstone.collections.compaction import ShareDone
from siltstone.collections.consensus.object_names import CHOICE_NAME, COLLECTIONS_PREFIX
from siltstone.collections.housekeeping import Housekeeping
from siltstone.collections.import_plan import import_wish, planned_import
from siltstone.collections.opened_place import opened_place
from siltstone.collections.part_objects import leftovers_swept
from siltstone.collections.place import CollectionPlace, CollectionSettings
from siltstone.collections.row_imports import CollectionImport, told_plan
from siltstone.collections.rows.row_schema import row_schema
from siltstone.collections.source_parts import SourceParts
from siltstone.collections.sources.table_source import Note, TableSource
from siltstone.collections.state.state_warnings import CollectionWarning
from siltstone.collections.stored_schema import row_schema_of
from siltstone.collections.used_space import CollectionSpace, used_space
from siltstone.container.models.segments import Finding
from siltstone.core.closed_on_exit import AsyncClosing
from siltstone.core.consensus import Opened
from siltstone.core.environment import Environment, SystemEnvironment
from siltstone.core.errors import (
    ChunkNotFoundError,
    ClosedError,
    CollectionExistsError,
    CollectionNotFoundError,
    CorruptDataError,
    FormatError,
    LostDataError,
)
from siltstone.core.records.collection_part import CollectionPart
from siltstone.core.records.collection_state import Life
from siltstone.core.storage.uncancellable import run_whole
from siltstone.store.store_assembly import OPEN_POOL

if TYPE_CHECKING:
    from siltstone.store.async_store import AsyncStore


async def open_async_collections(
    store: Path | str | AsyncStore,
    *,
    settings: CollectionSettings | None = None,
    environment: Environment | None = None,
) -> AsyncCollections:
    """Open the collections of a store.

    By a path, any number of processes may have them open, next to an owner of the store: nothing
    is claimed. Where ``collections.consensus`` is ``table``, they belong to the owner of the store,
    who gives the open store; one that is open read-only shows them, without leases, and what would
    change them is a ``ReadOnlyError``. The store closes them before it closes itself.

    Args:
        store: a settings file, the folder that holds ``siltstone.yaml``, or an open store.
        settings: how this process uses them; ``None`` means as the settings file says.
        environment: gives time, randomness and threads; ``None`` means the real world, or that of
            the open store.

    Raises:
        StoreNotFoundError: there is no settings file, or no store on long-term storage.
        SettingsError: the settings file is wrong, or no such consensus is installed.
        CapabilityError: long-term storage has no whole creates.
        CollectionError: the store's collections use another consensus; or one with an owner, and
            a path was given; or one without, and an open store was given.
        ChunkError: long-term storage did not answer.
        LogError: the log of the open store refused, or did not answer.
    """
    if not isinstance(store, Path | str):
        return await _open_owned(store, settings)
    world = SystemEnvironment() if environment is None else environment
    try:
        place = await run_whole(
            world,
            OPEN_POOL,
            partial(opened_place, store, world, settings),
            CollectionPlace.close,
        )
    except BaseException:
        if environment is None:
            world.close()
        raise
    return AsyncCollections(place, closes=world if environment is None else None)


async def _open_owned(store: AsyncStore, settings: CollectionSettings | None) -> AsyncCollections:
    # An owner has loaded all of it.
    from siltstone.collections.owned_place import owned_place
    from siltstone.store.system_table import close_before

    opened = AsyncCollections(await owned_place(store, settings))
    close_before(store, opened)
    return opened


class AsyncCollections(AsyncClosing):
    """All collections of a store. Made by ``open_async_collections``; used on its loop.

    Args:
        place: where they are; its storage is closed here.
        closes: an environment that is closed here, too; ``None`` for none.
    """

    def __init__(self, place: CollectionPlace, *, closes: Environment | None = None) -> None:
        self._place = place
        self._closes = closes
        self._open: dict[bytes, Housekeeping] = {}
        self._handles: list[AsyncCollection] = []
        self._opening = asyncio.Lock()
        self._is_closed = False

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._is_closed

    async def create(
        self,
        name: str,
        schema: pyarrow.Schema,
        *,
        key: Sequence[str],
        history: str | int = "all",
        times: str = "ms",
    ) -> AsyncCollection:
        """Make a collection.

        Args:
            name: 1 to 255 bytes of printable UTF-8.
            schema: flat columns of Arrow.
            key: names of the columns that rows are sorted by; no floats, no nulls.
            history: how far back it can be read: a time such as ``"7d"``, ``"12h"``, ``"30min"``, a
                count of times, or ``"all"``.
            times: ``"ms"``: an append without a time has the present one, in milliseconds since
                1970. ``"count"``: each append has the next number.

        Raises:
            CollectionExistsError: the name is taken.
            CollectionSchemaError: a column or the key cannot be; the message names it.
            ValueError: the name, history or times are not as described.
        """
        row = new_row(self._place, name, row_schema(schema, key), history=history, times=times)
        await Catalog(await self._handle(catalog_row())).add(row)
        return await self._handle(row)

    async def import_new(
        self,
        name: str,
        source: TableSource,
        *,
        key: Sequence[str],
        time: int | None = None,
        writer: str | None = None,
        sequence: int | None = None,
        progress: Note | None = None,
        dry_run: bool = False,
    ) -> CollectionImport:
        """Make a collection with the columns of a table elsewhere, and append all rows of that.

        It is made after the first 128 MiB were read: a mistake in these leaves nothing. Later ones
        leave it without rows.

        Args:
            name: as in ``create``.
            source: by ``table_source``.
            key: as in ``create``.
            time: as in ``AsyncCollection.import_rows``, and so all that follows.
            writer: name of it.
            sequence: of the writer.
            progress: told what was read.
            dry_run: make and read nothing.

        Raises:
            CollectionExistsError: the name is taken.
            Exception: what ``create`` and ``import_rows`` raise.
        """
        row = new_row(self._place, name, row_schema(source.schema, key))
        first = row.initial_state()
        wish = import_wish(source, time=time, writer=writer, sequence=sequence)
        plan = planned_import(first, self._place.now_ms(), source, wish)
        if name in await self.list():
            raise CollectionExistsError("collection exists", collection=name)
        if dry_run:
            return told_plan(plan)
        schema_id, schema = row_schema_of(first)
        size = self._place.settings.part_bytes
        begun = SourceParts(source, schema, schema_id, size, progress)
        await self._place.work(begun.begin)
        made = await self.create(name, source.schema, key=key)
        return await made.imports.run(source, wish, progress=progress, begun=begun)

    async def collection(self, name: str) -> AsyncCollection:
        """Return the collection of this name. Raises ``CollectionNotFoundError``."""
        return await self._handle(await (await self._catalog(name)).row(name))

    async def list(self) -> list[str]:
        """Names of all collections, in order."""
        catalog = await self._catalog_if_any()
        return [] if catalog is None else list(await catalog.rows())

    async def rename(self, name: str, new: str) -> None:
        """Give a collection another name; handles of it go on.

        Raises:
            CollectionNotFoundError: there is no ``name``.
            CollectionExistsError: ``new`` is taken.
            ValueError: ``new`` can be no name.
        """
        await (await self._catalog(name)).rename(name, new)

    async def drop(self, name: str) -> None:
        """Drop a collection for ever: its rows are deleted, then its name is free.

        Where this fails, the name stays; to drop it again goes on from there.

        Raises:
            CollectionNotFoundError: there is none of this name.
        """
        catalog = await self._catalog(name)
        row = await catalog.row(name)
        await (await self._opened(row)).drop()
        await catalog.remove(row.id)

    async def collect(self, *, dry_run: bool = False) -> int:
        """Delete what nothing needs any more in any collection, dropped ones too.

        Handles do this for their own collection as they append. See ``AsyncCollection.collect``.

        Args:
            dry_run: only count it.

        Returns:
            How many objects of rows that were.
        """
        return await self._sum(await self._ids(), lambda one: one.collect(dry_run=dry_run))

    async def sweep(self, *, nameless: bool = False) -> int:
        """Delete what died processes left in any collection, dropped ones too.

        Args:
            nameless: drop collections that have no name in the catalog, and never get one again.

        Returns:
            How many objects that were, without those of collections that were dropped here.

        Raises:
            LostDataError: the catalog is gone, so no collection has a name.
        """
        ids = await self._ids()
        named = await self._names() if nameless else {}  # After the ids: names come before objects.

        async def swept(one: Housekeeping) -> int:
            if nameless and one.shared.id not in named and one.shared.state.life is Life.OPEN:
                await one.drop()
            return await one.sweep()

        count = await self._sum(ids, swept)
        return count + await leftovers_swept(self._place, CHOICE_NAME)

    async def check(
        self,
        names: Sequence[str] = (),
        *,
        deep: bool = False,
        reads_parts: bool = True,
        progress: ShareDone | None = None,
    ) -> AsyncIterator[Finding]:
        """Compare what collections name with long-term storage, both ways; yield what is wrong.

        ``damage`` is what is named and is not there, or not with its length. ``garbage`` is what
        is there and never counts: a sweep deletes it. A ``warning`` is a foreign name, or a
        collection that was begun or dropped half-way. Needs no right to write.

        Args:
            names: of the collections; all, and what else is below ``collections/``, if none.
            deep: read every object, and compare it with its sum.
            reads_parts: with ``deep``, also the objects of rows, which are most of the bytes.
            progress: told how much is done, from 0 to 1; on any thread.

        Raises:
            CollectionNotFoundError: there is none of such a name.
            ChunkError: long-term storage did not answer.
        """
        wanted: dict[bytes, str | None]
        if names:
            wanted = dict(await self._ids_of(names))
        else:
            ids, others = await self._place.ask(partial(found_ids, self._place))
            try:
                named = await self._names()  # After the ids, as for a sweep.
                wanted = {one: named.get(one) for one in [*ids, *named]}
            except (CorruptDataError, FormatError, ChunkNotFoundError) as error:
                yield Finding(severity="damage", where="the catalog", message=str(error))
                wanted = {one: one.hex() for one in ids}
            for finding in others:
                yield finding
        async for finding in check_each(
            self._place, wanted, deep=deep, reads_parts=reads_parts, progress=progress
        ):
            yield finding

    async def stored_parts(self) -> dict[str, CollectionPart]:
        """The parts that readable collections need, by object. Raises ``ChunkError``."""
        found: dict[str, CollectionPart] = {}
        for one in await self._ids():
            found |= await self._place.ask(partial(stored_parts, self._place, one))
        return found

    async def space(self, names: Sequence[str] = ()) -> Sequence[CollectionSpace]:
        """Say how much of long-term storage collections use, by their names; one listing.

        Args:
            names: of the collections; all, dropped and nameless ones too, if none.

        Raises:
            CollectionNotFoundError: there is none of such a name.
            LostDataError: the catalog is gone, so no collection has a name.
            ChunkError: long-term storage did not answer.
        """
        every = not names
        known = await (self._names() if every else self._ids_of(names))
        return await self._place.ask(partial(used_space, self._place.storage, known, every=every))

    async def warnings(self) -> Sequence[CollectionWarning]:
        """Say what people should look at, such as bookmarks that hold much history.

        Opens each collection that has a name. Raises ``LostDataError`` and ``ChunkError``.
        """
        return await warnings_of_each(self._place, await self._names())

    async def _ids_of(self, names: Sequence[str]) -> dict[bytes, str]:
        return {(await (await self._catalog(name)).row(name)).id: name for name in names}

    async def settle(self) -> None:
        """Wait until what appends of this process made due is done: for programs that end soon.

        A process that lives on does it in the background. One that appends once and ends would
        leave rollups and compactions to others, and the rows by which its appends are known.
        """
        await asyncio.gather(*(handle.settle() for handle in self._handles))

    async def close(self) -> None:
        """End all handles. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        await asyncio.gather(*(handle.close() for handle in self._handles))
        await asyncio.gather(*(one.close() for one in self._open.values()))
        await self._place.ask(self._place.close)
        if self._closes is not None:
            self._closes.close()

    async def _catalog(self, name: str) -> Catalog:
        """The catalog, which is there if there is any collection."""
        catalog = await self._catalog_if_any()
        if catalog is None:
            raise CollectionNotFoundError("no such collection", collection=name)
        return catalog

    async def _catalog_if_any(self) -> Catalog | None:
        """Who only reads makes none."""
        row = catalog_row()
        opened = await self._opened_by(row.id, lambda: opened_catalog(self._place))
        return None if opened is None else Catalog(self._handle_of(row, opened))

    async def _names(self) -> dict[bytes, str]:
        """The name of each collection that has one, by its id; the catalog's own too.

        Raises:
            LostDataError: there are collections, and no catalog.
        """
        catalog = await self._catalog_if_any()
        if catalog is None:
            if not await self._ids():
                return {}
            catalog = await self._catalog_if_any()  # It may have been made meanwhile.
        if catalog is None:
            raise LostDataError("the catalog of collections is gone", where=COLLECTIONS_PREFIX)
        rows = {row.id: name for name, row in (await catalog.rows()).items()}
        return {CATALOG_ID: CATALOG_NAME, **rows}

    async def _ids(self) -> Sequence[bytes]:
        """Of all collections that were begun, also those that have no name."""
        return await self._place.ask(lambda: list(self._place.consensus.keys()))

    async def _handle(self, row: CatalogRow) -> AsyncCollection:
        return self._handle_of(row, await self._opened(row))

    def _handle_of(self, row: CatalogRow, housekeeping: Housekeeping) -> AsyncCollection:
        for handle in self._handles:
            if handle.id == row.id and handle.name == row.name:
                return handle
        handle = AsyncCollection(row.name, self._place, housekeeping)
        self._handles.append(handle)
        return handle

    async def _opened(self, row: CatalogRow) -> Housekeeping:
        opened = await self._opened_by(row.id, lambda: begun(self._place, row))
        assert opened is not None, "what was not there was begun"
        return opened

    async def _opened_by(
        self, collection_id: bytes, open_it: Callable[[], Opened | None]
    ) -> Housekeeping | None:
        self._check_open()
        async with self._opening:
            if collection_id not in self._open:
                opened = await self._place.ask(open_it)
                if opened is None:
                    return None
                self._open[collection_id] = Housekeeping(self._place, opened)
            return self._open[collection_id]

    async def _sum(
        self, ids: Sequence[bytes], act: Callable[[Housekeeping], Awaitable[int]]
    ) -> int:
        """Do the same to collections, one after the other; return the sum of its results."""
        count = 0
        for collection_id in ids:
            count += await self._done(collection_id, act)
        return count

    async def _done(
        self, collection_id: bytes, act: Callable[[Housekeeping], Awaitable[int]]
    ) -> int:
        if collection_id in self._open:
            return await act(self._open[collection_id])
        opened = await self._place.ask(lambda: self._place.consensus.open(collection_id))
        if opened is None:
            return 0
        housekeeping = Housekeeping(self._place, opened)
        try:
            return await act(housekeeping)
        finally:
            await housekeeping.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("the collections were closed")
