"""Clients that continue while owners crash and are taken over, and the clock of what they saw."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

from siltstone.core.errors import ClosedError, LogError, OutcomeUnknownError
from siltstone.testing.virtual_time import jittered
from tests.support.container.container_world import Owner, World, close_quietly, with_settings

SETTINGS = with_settings(flush_age_s=0.5, table_flush_age_s=0.5, checkpoint_age_s=4.0)
LOST = (LogError, OutcomeUnknownError, ClosedError)
"""What clients hear whose call may or may not have taken effect."""


class UnquietOwners:
    """One container whose owners do not last.

    Attributes:
        chance: gives every choice from the seed.
        owner: the newest owner.
        events: a number for each thing that a client began or saw.
    """

    def __init__(self, seed: int, *, quiet_s: tuple[float, float]) -> None:
        self.world = World(seed, settings=SETTINGS, latency=jittered(0.02))
        self.chance = Random(seed)
        self.owner: Owner = self.world.run(self.world.open())
        self.events = 0
        self._quiet_s = quiet_s
        self._old: list[Owner] = []
        self._coming = 0

    def now(self) -> int:
        """The next number of the common clock."""
        self.events += 1
        return self.events

    def newest(self, owner: Owner) -> bool:
        """Whether no other owner has begun to follow this one. What others read may be old."""
        return owner is self.owner and not self._coming

    async def pause(self, most_s: float) -> None:
        """Let a little time pass."""
        await self.world.environment.sleep(most_s * self.chance.random())

    async def during(self, clients: list[Callable[[], Awaitable[None]]]) -> None:
        """Let owners come and go until all clients are done."""
        unrest = asyncio.create_task(self._unrest())
        try:
            await asyncio.gather(*(client() for client in clients))
        finally:
            unrest.cancel()
            await asyncio.gather(unrest, return_exceptions=True)
        if self._coming or self.owner.dead or self.owner.container.closed:
            self._coming = 0
            self.owner = await self.world.open(takeover=True, index=self._folder())

    async def close(self) -> None:
        """End every owner."""
        for owner in (*self._old, self.owner):
            await close_quietly(owner)

    def _folder(self) -> str:
        return f"index-{self.world.owners}"

    async def _unrest(self) -> None:
        low, high = self._quiet_s
        while True:
            await self.world.environment.sleep(self.chance.uniform(low, high))
            old = self.owner
            self._coming += 1
            folder = self._folder()
            if self.chance.random() < 0.5:
                keep = self.chance.random() < 0.5
                await self.world.crash(old, keep_index=keep)
                folder = old.folder.name
            self.owner = await self.world.open(takeover=True, index=folder)
            self._coming -= 1
            self._old.append(old)
