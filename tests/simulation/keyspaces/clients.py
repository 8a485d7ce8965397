"""What clients of a keyspace do: they change it, look at it, and take care of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from siltstone.core.errors import StoreInUseError
from siltstone.objects.async_keyspace import AsyncKeyspace
from siltstone.objects.errors import CompactionBusyError
from tests.simulation.facts import ViolationError
from tests.simulation.keyspaces.held import Holding
from tests.simulation.keyspaces.world import PLACE, MadeBackup


class SpaceClients(Holding):
    """The clients of one open store."""

    async def run(self, clients: int) -> None:
        """Be busy until told to leave, or until the store is of no use."""
        self.held = []
        async with asyncio.TaskGroup() as group:
            for _ in range(clients):
                group.create_task(self._client())

    async def _client(self) -> None:
        space: AsyncKeyspace | None = None
        while not self.is_done:
            await self.process.sleep(0.6 * self.chance.random())
            if space is None or self.chance.random() < 0.02:
                space = await self.keyspace()
            if space is not None:
                verb, _ = self.chance.choices(VERBS, WEIGHTS)[0]
                await verb(self, space)

    # --- care -------------------------------------------------------------------------------------

    async def compact(self, space: AsyncKeyspace) -> None:
        """Compact values."""
        try:
            report = await self.ask(space.compact, hears=(CompactionBusyError,))
        except CompactionBusyError:
            return
        if report is not None:
            self.note(f"compacted {report.run} to {report.made}")
            if report.unreadable or report.dropped:
                raise ViolationError(f"a compaction finds damage: {report}")

    async def reap(self, space: AsyncKeyspace) -> None:
        """Remove what has expired."""
        await self.ask(space.reap)

    async def flush(self, space: AsyncKeyspace) -> None:
        """Bring all to long-term storage."""
        newest, current = self.world.space.newest, self.is_current

        async def call() -> bool:
            await self.store.flush()
            return True

        if await self.ask(call) and current and self.is_current:
            self.world.space.flushed = max(self.world.space.flushed, newest)

    async def backup(self, space: AsyncKeyspace) -> None:
        """Take a backup."""
        newest, lineage = self.world.space.newest, self.world.space.lineage
        current = self.is_current
        takeover = self.chance.random() < 0.5
        try:
            made = await self.ask(
                lambda: space.backup(PLACE, takeover=takeover), hears=(StoreInUseError,)
            )
        except StoreInUseError:
            return
        if made is None:
            return
        self.note(f"backup {made.generation} up to {made.sqn}")
        if current and self.is_current and made.sqn < newest:
            raise ViolationError(f"a backup up to {made.sqn}; {newest} was there before")
        self.world.backups.append(MadeBackup(made.generation, made.sqn, lineage))

    async def check(self, space: AsyncKeyspace) -> None:
        """Compare all parts of the keyspace."""
        deep = self.chance.random() < 0.7

        async def call() -> bool:
            found = [each async for each in space.check(deep=deep)]
            damage = [each for each in found if each.severity == "damage"]
            if damage and self.is_current:
                raise ViolationError(f"a check finds damage: {damage}")
            return True

        await self.ask(call, hears=())

    async def care(self, space: AsyncKeyspace) -> None:
        """Do now what the store does by itself."""
        choice = self.chance.randrange(3)
        if choice == 0:
            await self.ask(lambda: self._slot.container.checkpoint())
        elif choice == 1:
            await self.ask(self.store.collect)
        else:

            async def sweep() -> int:
                return len([each async for each in self.store.sweep(delete=True)])

            await self.ask(sweep)


VERBS: tuple[tuple[Callable[[SpaceClients, AsyncKeyspace], Awaitable[object]], int], ...] = (
    (SpaceClients.put, 30),
    (SpaceClients.burst, 8),
    (SpaceClients.delete, 8),
    (SpaceClients.head, 6),
    (SpaceClients.get, 12),
    (SpaceClients.open_value, 5),
    (SpaceClients.fold, 6),
    (SpaceClients.snapshot, 2),
    (SpaceClients.look_back, 8),
    (SpaceClients.compact, 5),
    (SpaceClients.reap, 2),
    (SpaceClients.flush, 3),
    (SpaceClients.backup, 2),
    (SpaceClients.check, 1),
    (SpaceClients.care, 2),
)

WEIGHTS = [weight for _, weight in VERBS]
