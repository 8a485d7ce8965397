"""One process that has collections open, and the actors in it."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING

from siltstone.collections.async_collections import AsyncCollections
from siltstone.core.errors import SiltstoneError
from tests.simulation.collections.keepers import BookmarkActor, Keeper
from tests.simulation.collections.readers import Divider, Follower, SnapshotReader
from tests.simulation.collections.writers import Appender, Batcher, LoaderActor

if TYPE_CHECKING:
    from tests.simulation.collections.actor import Actor
    from tests.simulation.collections.ledger import CollectionLedger
    from tests.simulation.collections.world import CollectionWorld

ROLES: tuple[type[Actor], ...] = (
    Appender,
    Appender,
    LoaderActor,
    LoaderActor,
    Batcher,
    SnapshotReader,
    SnapshotReader,
    Divider,
    Follower,
    BookmarkActor,
    BookmarkActor,
    Keeper,
    Keeper,
    Keeper,
)
ACTORS = (1, 2, 3, 4)


class CollectionHost:
    """A process, from its start to its end.

    Args:
        world: where it lives.

    Attributes:
        process: the process.
        place: where the collections are.
        collections: what it has open.
        task: all that it does.
        is_leaving: whether it is to end.
    """

    def __init__(self, world: CollectionWorld) -> None:
        self.world = world
        self.process = world.process("host")
        self.chance = Random(f"{world.seed}/{self.process.name}/roles")
        self.place = world.place(self.process)
        self.collections = AsyncCollections(self.place)
        self.is_leaving = False
        self._followers: list[asyncio.Task[None]] = []
        self.task = self.process.start(self._live())

    def leave(self) -> None:
        """Let every actor end what it does, and close."""
        self.is_leaving = True
        for follower in self._followers:
            follower.cancel()

    async def die(self) -> None:
        """End without any other effect than that of requests on their way."""
        self.world.trace.note("story", f"{self.process.name} dies")
        await self.process.die()
        self.task.cancel()
        await asyncio.wait([self.task], timeout=1.0)

    async def _live(self) -> None:
        ledgers = list(self.world.ledgers.values())
        async with asyncio.TaskGroup() as group:
            for number in range(self.chance.choice(ACTORS)):
                actor = self._actor(number, self.chance.choice(ledgers))
                task = group.create_task(actor.run())
                if isinstance(actor, Follower):
                    self._followers.append(task)
        try:
            if self.chance.random() < 0.5:
                await self.collections.settle()
        except SiltstoneError as error:
            self.world.trace.note(self.process.name, f"did not settle: {error}")
        await self.collections.close()

    def _actor(self, number: int, ledger: CollectionLedger) -> Actor:
        chance = Random(f"{self.world.seed}/{self.process.name}/{number}")
        return self.chance.choice(ROLES)(self, ledger, chance)
