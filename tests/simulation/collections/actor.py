"""What every actor of a process does: it works on one collection, and judges what it is told."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from siltstone.collections.async_collection import AsyncCollection
from siltstone.core.errors import (
    BackPressureError,
    ChunkError,
    ChunkNotFoundError,
    CollectionExistsError,
    CollectionNotFoundError,
    OutcomeUnknownError,
    SiltstoneError,
)
from tests.simulation.collections.world import SCHEMA
from tests.simulation.facts import ViolationError

if TYPE_CHECKING:
    from tests.simulation.collections.host import CollectionHost
    from tests.simulation.collections.ledger import CollectionLedger

UNANSWERED = (ChunkError, OutcomeUnknownError, BackPressureError)
"""What a call may end with where storage does not answer."""

RESTS_S = (0.1, 0.5, 1.0, 4.0)
LOOKED_UP = 0.03
"""Share of the acts before which a collection is looked up by its name again."""


class Actor:
    """Does one thing after the other, until its process leaves.

    Args:
        host: its process.
        ledger: of the collection.
        chance: of its own.
    """

    def __init__(self, host: CollectionHost, ledger: CollectionLedger, chance: Random) -> None:
        self.host = host
        self.ledger = ledger
        self.chance = chance

    async def run(self) -> None:
        """Work until the process leaves."""
        rest_s = self.chance.choice(RESTS_S)
        gusts: AsyncCollection | None = None
        while not self.host.is_leaving:
            if gusts is None or self.chance.random() < LOOKED_UP:
                gusts = await self.collection()
            if gusts is not None:
                await self.once(gusts)
            await self.host.process.sleep(2 * rest_s * self.chance.random())

    async def once(self, gusts: AsyncCollection) -> None:
        """Do one thing."""
        raise NotImplementedError

    async def collection(self) -> AsyncCollection | None:
        """The collection, made if it is not there; ``None`` where storage does not answer."""
        ledger, collections = self.ledger, self.host.collections
        was_there = ledger.is_there
        try:
            try:
                return await collections.collection(ledger.name)
            except CollectionNotFoundError:
                if was_there:
                    raise ViolationError(f"{ledger.name} was there, and is not found") from None
            await self.host.process.sleep(self.chance.random())
            made = await collections.create(
                ledger.name, SCHEMA, key=["k"], history=ledger.history, times=ledger.times
            )
        except CollectionExistsError:
            return None
        except UNANSWERED as error:
            self.excuse(error)
            return None
        ledger.is_there = True
        self.note(f"made {ledger.name}")
        return made

    def excuse(self, error: SiltstoneError) -> None:
        """Accept that a call had no answer, where that can be."""
        if self.host.process.dead:
            return
        self.note(f"no answer: {type(error).__name__}")
        if self.host.world.is_peaceful or isinstance(error, ChunkNotFoundError):
            raise ViolationError(f"no answer, and no reason: {error}") from error

    def need_trouble(self, error: SiltstoneError) -> None:
        """Accept an end of a lease, where a process stopped, storage failed, or a clock jumped."""
        self.note(f"{type(error).__name__}")
        if self.host.world.is_peaceful and not self.host.process.dead:
            raise ViolationError(f"no reason for: {error}") from error

    def note(self, what: str) -> None:
        """Add to the trace."""
        name = f"{self.host.process.name} {type(self).__name__}"
        self.host.world.trace.note(name, f"{self.ledger.name} {what}")
