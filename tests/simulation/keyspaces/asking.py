"""How clients of a keyspace ask it, and what its errors mean for the ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from math import inf
from random import Random
from typing import TYPE_CHECKING, TypeVar

from siltstone.core.errors import (
    CorruptDataError,
    Outcome,
    SiltstoneError,
)
from siltstone.objects.async_keyspace import AsyncKeyspace
from siltstone.objects.errors import KeyspaceExistsError, KeyspaceNotFoundError
from siltstone.objects.open_spaces import new_space, open_space
from siltstone.store.async_store import AsyncStore
from tests.simulation.facts import ViolationError
from tests.simulation.keyspaces.facts import Key, SpaceChange
from tests.simulation.keyspaces.ledger import NOTHING, Fact
from tests.simulation.keyspaces.world import NAMES, SPACE
from tests.support import inside

if TYPE_CHECKING:
    from tests.simulation.keyspaces.world import KeyspaceProcess, KeyspaceWorld

T = TypeVar("T")

REFUSALS_MAX = 12
"""A client that is refused this often in a row stops."""


class Since:
    """What was known when a look began.

    Args:
        client: that looks.
    """

    def __init__(self, client: Asking) -> None:
        self._process = client.process
        self._jumps = self._process.jumps
        self._began_s = self._process.time()
        self.least = client.world.space.least(client.epoch)
        self.end = len(client.world.space.changes)

    @property
    def now_s(self) -> float:
        """What has expired by then is not to be shown."""
        return self._began_s if self._process.jumps == self._jumps else -inf

    def of(self, key: Key) -> Fact:
        """What was known of an object."""
        return self.least.get(key, NOTHING)


class Asking:
    """What all verbs of the clients of one open store share.

    Args:
        world: everything else.
        store: the open store.
        process: that has it.
        chance: of these clients.

    Attributes:
        leaving: whether the clients are to end.
    """

    def __init__(
        self, world: KeyspaceWorld, store: AsyncStore, process: KeyspaceProcess, chance: Random
    ) -> None:
        self.world = world
        self.store = store
        self.process = process
        self.chance = chance
        self.leaving = False
        self._refusals = 0
        self._slot = inside.slots(store)[0]

    @property
    def epoch(self) -> int:
        """Of the owner that would be asked now."""
        return self._slot.epoch

    @property
    def is_current(self) -> bool:
        """Whether no newer owner is known."""
        return self.epoch == self.world.ledgers[0].epoch

    @property
    def is_done(self) -> bool:
        """Whether the clients end."""
        return self.leaving or self._refusals >= REFUSALS_MAX

    def note(self, what: str) -> None:
        """Add to the trace."""
        self.world.trace.note(self.process.name, what)

    async def ask(
        self,
        call: Callable[[], Awaitable[T]],
        change: SpaceChange | None = None,
        hears: tuple[type[SiltstoneError], ...] = (),
    ) -> T | None:
        """Make a call and tell the ledger what its error means; ``None`` if there was one.

        Args:
            call: what is asked.
            change: that is asked for.
            hears: errors that the caller judges itself.
        """
        try:
            result = await call()
        except SiltstoneError as error:
            if self.process.dead:
                raise asyncio.CancelledError from error
            self._refusals += 1
            if isinstance(error, hears):
                raise
            self.note(f"{'' if change is None else change.what}: {type(error).__name__} {error}")
            if isinstance(error, CorruptDataError):
                raise ViolationError(f"{self.process.name}: {error!r}") from error
            if change is not None and error.outcome is Outcome.NOT_APPLIED:
                change.failed(f"its error says so: {error!r}")
            return None
        if self.process.dead:
            raise asyncio.CancelledError
        self._refusals = 0
        return result

    async def keyspace(self) -> AsyncKeyspace | None:
        """The keyspace, made if it is not there; ``None`` where that fails."""
        world, was_there, current = self.world, self.world.space.is_made, self.is_current
        try:
            space = await self.ask(
                lambda: open_space(self.store, NAMES, world.limits, world.objects),
                hears=(KeyspaceNotFoundError,),
            )
        except KeyspaceNotFoundError as error:
            if was_there and current and self.is_current:
                raise ViolationError(f"{self.process.name} finds no keyspace") from error
            with suppress(KeyspaceExistsError):
                await self.ask(self._make, hears=(KeyspaceExistsError,))
            return None
        if space is None:
            return None
        world.space.is_made = True
        return AsyncKeyspace(space)

    async def _make(self) -> None:
        await new_space(self.store, NAMES, SPACE)
        self.world.space.is_made = True
        self.note("made the keyspace")
