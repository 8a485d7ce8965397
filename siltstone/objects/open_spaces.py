"""The keyspaces that are open in a store: at most one for each name, which all handles share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from siltstone.core.errors import ReadOnlyError
from siltstone.objects.large_tasks import do_large_tasks
from siltstone.objects.ledger import Ledger
from siltstone.objects.losses import Losses
from siltstone.objects.lost_changes import pass_lost_sqns
from siltstone.objects.manifest import LiveManifest
from siltstone.objects.open_space import OpenSpace
from siltstone.objects.snapshots import LedgerSnapshots
from siltstone.objects.space_meter import SpaceMeter
from siltstone.objects.space_parts import SpaceParts
from siltstone.objects.space_removal import RemovedKeyspace, remove_space
from siltstone.objects.space_setup import find_space, make_space
from siltstone.objects.value_log import ValueLog
from siltstone.objects.value_segments import RollLimits
from siltstone.objects.value_tasks import delete_unnamed
from siltstone.store.own_settings import keyspace_settings, metrics_of
from siltstone.store.system_table import close_before, for_keyspaces

if TYPE_CHECKING:
    from siltstone.objects.records.space_rows import Space
    from siltstone.objects.space_names import SpaceNames
    from siltstone.store.async_store import AsyncStore
    from siltstone.store.settings.objects_section import ObjectsSection


class _OpenSpaces:
    """The open keyspaces of one store."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.spaces: dict[str, OpenSpace] = {}


_open: WeakKeyDictionary[AsyncStore, _OpenSpaces] = WeakKeyDictionary()


def _forget(space: OpenSpace) -> None:
    opened = _open.get(space.parts.store)  # which would keep the store in memory
    if opened is not None and opened.spaces.get(space.parts.names.name) is space:
        del opened.spaces[space.parts.names.name]


async def new_space(store: AsyncStore, names: SpaceNames, space: Space) -> None:
    """Make a keyspace. Raises what ``make_space`` raises."""
    store = for_keyspaces(store)
    async with _open.setdefault(store, _OpenSpaces()).lock:
        await make_space(store, names, space)


async def destroy_space(store: AsyncStore, names: SpaceNames) -> RemovedKeyspace:
    """Close a keyspace if it is open in this store, and remove it.

    Raises:
        KeyspaceNotFoundError: there never was one of this name.
        CompactionBusyError: a value compaction of it is running.
        ReadOnlyError: the store was opened read-only.
    """
    if store.read_only:
        raise ReadOnlyError("the store was opened read-only", keyspace=names.name)
    store = for_keyspaces(store)
    opened = _open.setdefault(store, _OpenSpaces())
    async with opened.lock:
        space = opened.spaces.get(names.name)
        if space is not None:
            space.check_not_compacting()
            await space.close()
        return await remove_space(store, names)


def snapshots_of(store: AsyncStore, names: SpaceNames) -> LedgerSnapshots:
    """What takes snapshots of a ledger, which need not be one of a keyspace that opens.

    Where the keyspace is open in this store, it keeps the value segments that they need.
    """
    store = for_keyspaces(store)
    space = _open.setdefault(store, _OpenSpaces()).spaces.get(names.name)
    return LedgerSnapshots(store.table(names.ledger)) if space is None else space.parts.snapshots


@asynccontextmanager
async def space_closed(store: AsyncStore, names: SpaceNames) -> AsyncIterator[None]:
    """Close a keyspace of a store, and keep it from being opened until the end of the block."""
    store = for_keyspaces(store)
    opened = _open.setdefault(store, _OpenSpaces())
    async with opened.lock:
        space = opened.spaces.get(names.name)
        if space is not None and not space.closed:
            space.rebuilt = True
            await space.close()
        yield


async def open_space(
    store: AsyncStore,
    names: SpaceNames,
    limits: RollLimits | None = None,
    settings: ObjectsSection | None = None,
) -> OpenSpace:
    """Return the open keyspace of a store, which all its handles share.

    Args:
        store: of the keyspace; it closes the keyspace before it closes itself.
        names: of the keyspace.
        limits: when a value segment is full, if it is not open yet; ``None`` is the default.
        settings: how keyspaces are used, likewise; ``None`` means by the settings of the store.

    Raises what ``find_space`` and ``pass_lost_sqns`` raise.
    """
    store = for_keyspaces(store)
    opened = _open.setdefault(store, _OpenSpaces())
    async with opened.lock:
        space = opened.spaces.get(names.name)
        if space is None or space.closed:
            found = await find_space(store, names)
            if not store.read_only:
                found = await pass_lost_sqns(store, names, found)
            ledger = Ledger(store, names)
            settings = settings or keyspace_settings(store)
            meter = SpaceMeter(metrics_of(store, names.ledger), names.name)
            parts = SpaceParts(
                store=store,
                names=names,
                space=found.space,
                ledger=ledger,
                manifest=LiveManifest(ledger, found.manifest),
                values=ValueLog(store, names),
                snapshots=LedgerSnapshots(store.table(names.ledger)),
                losses=Losses(names.name, meter, missing=settings.lost == "missing"),
                meter=meter,
            )
            limits = limits or RollLimits(length=settings.value_segment)
            space = OpenSpace(parts, found, limits, settings, _forget)
            close_before(store, space)
            if not store.read_only:
                try:
                    await delete_unnamed(parts)
                    await do_large_tasks(parts)
                except BaseException:
                    await space.close()
                    raise
            opened.spaces[names.name] = space
        return space
