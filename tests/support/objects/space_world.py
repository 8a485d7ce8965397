"""A keyspace in a store of one container on virtual time, and the processes that open it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from siltstone.core.environment import Environment
from siltstone.core.errors import LogError, StoreError
from siltstone.core.fenced_log import LogOwner
from siltstone.core.records.store_manifest import StoreManifest
from siltstone.objects.async_keyspace import AsyncKeyspace
from siltstone.objects.open_spaces import open_space
from siltstone.objects.records.space_rows import Space, Strategy
from siltstone.objects.space_names import space_names
from siltstone.objects.space_setup import make_space
from siltstone.objects.value_segments import RollLimits
from siltstone.store.async_store import AsyncStore
from siltstone.store.handles.container_slot import ContainerSlot
from siltstone.store.handles.stand_ins import read_only_container
from siltstone.store.settings.objects_section import ObjectsSection
from siltstone.store.system_table import for_keyspaces
from siltstone.testing.faults.faulty_fenced_log import FaultPlan
from tests.support import inside
from tests.support.container.container_world import Owner, World

NAMES = space_names("photos")

SMALL = RollLimits(length=1_000, records=5, value=1_500, piece=400)
"""So segments roll all the time, and a value over 1,500 bytes is a segment of its own."""

TAGS = {"o": Strategy.RECOVR, "x": Strategy.RETAIN}


class StoreParts:
    """What the containers of the store of one process share; see ``SharedParts``."""

    def __init__(self, world: World, owner: str, index: str, plan: FaultPlan) -> None:
        self.environment: Environment = world.environment
        self.manifest = StoreManifest(store_id=bytes(16), container_count=1, created_ms=0)
        self.owner = owner
        self.owners: list[Owner] = []
        self.dead = False
        self._world = world
        self._index = index
        self._plan = plan

    async def open_owner(self, index: int, *, takeover: bool) -> Any:
        """See ``Opener``."""
        if self.dead:
            raise StoreError("the process is dead")
        owner = await self._world.open(
            takeover=takeover, index=self._index, plan=self._plan, owner=self.owner
        )
        self.owners.append(owner)
        return owner.container

    async def holder(self, index: int) -> LogOwner:
        """See ``Opener``."""
        if self.dead:
            raise LogError("the process is dead")
        log = self._world.new_log()
        try:
            return log.holder()
        finally:
            log.close()

    def close(self) -> None:
        """Nothing is left."""


@dataclass
class Opened:
    """One process.

    Attributes:
        world: where it is.
        parts: what its store rests on.
        store: its store.
        spaces: the keyspaces that it opened.
    """

    world: World
    parts: StoreParts
    store: AsyncStore
    spaces: list[AsyncKeyspace] = field(default_factory=list)

    async def make(self) -> None:
        """Make the keyspace."""
        await make_space(self.store, NAMES, Space(tags=TAGS))

    async def keyspace(
        self, limits: RollLimits = SMALL, settings: ObjectsSection | None = None
    ) -> AsyncKeyspace:
        """Open the keyspace; without settings it does nothing by itself."""
        found = AsyncKeyspace(await open_space(self.store, NAMES, limits, settings))
        self.spaces.append(found)
        return found

    async def die(self, *, keep_index: bool = True) -> None:
        """End as a killed process does: nothing of it has an effect any more."""
        self.parts.dead = True
        await self.world.crash(self.parts.owners[-1], keep_index=keep_index)
        watching = inside.watching(self.store)
        tasks: list[asyncio.Task[None]] = [] if watching is None else [watching]
        for keyspace in self.spaces:
            tasks += inside.space_tasks(inside.open_space(keyspace))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def open_owner(
    world: World, *, takeover: bool = False, index: str = "index", plan: FaultPlan | None = None
) -> Opened:
    """Begin a process that owns the store."""
    parts = StoreParts(world, f"process {world.owners}", index, plan or FaultPlan())
    container = await parts.open_owner(0, takeover=takeover)
    slot = ContainerSlot(0, container, container.epoch)
    store = AsyncStore(parts, [slot], read_only=False, closes=None)
    return Opened(world, parts, for_keyspaces(store))


async def open_reader(world: World) -> Opened:
    """Begin a process that reads the store."""
    parts = StoreParts(world, f"process {world.owners}", "none", FaultPlan())
    reader = await world.open_reader()
    slot = ContainerSlot(0, read_only_container(reader), reader.stats().epoch)
    store = AsyncStore(parts, [slot], read_only=True, closes=None)
    return Opened(world, parts, for_keyspaces(store))
