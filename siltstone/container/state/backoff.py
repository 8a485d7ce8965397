"""How background work waits: until it is woken, and after a failure, longer each time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from siltstone.core.environment import Environment
from siltstone.core.errors import ChunkError, CorruptDataError, SiltstoneError, StorageFullError

PAUSE_S_MIN = 0.5
PAUSE_S_MAX = 30.0
HELD_S = 1.0
"""How often work that is held back asks whether it still is."""


async def woken(awake: asyncio.Event, seconds: float) -> bool:
    """Wait until ``awake`` is set, or for this long; clear it, and return whether it was set."""
    try:
        async with asyncio.timeout(seconds):
            await awake.wait()
    except TimeoutError:
        return False
    finally:
        awake.clear()
    return True


class Backoff:
    """The last failure of a kind of background work, and the pause that it costs.

    Attributes:
        error: why it last failed; ``None`` once it worked again.
        suspended: whether work of this kind should rest now, whether it failed or not.

    Args:
        environment: gives time and randomness.
        suspended: asked whenever it might work; by default it never rests.
    """

    __slots__ = ("_environment", "_pause_s", "_until", "error", "suspended")

    def __init__(
        self, environment: Environment, suspended: Callable[[], bool] = lambda: False
    ) -> None:
        self._environment = environment
        self._pause_s = PAUSE_S_MIN
        self._until = 0.0
        self.error: Exception | None = None
        self.suspended = suspended

    @property
    def pausing(self) -> bool:
        """Whether work of this kind should wait."""
        return self.suspended() or (self.error is not None and self.remaining_s > 0)

    @property
    def remaining_s(self) -> float:
        """Seconds that are left to wait; below 0 when none are."""
        left = self._until - self._environment.monotonic()
        return max(left, HELD_S) if self.suspended() else left

    async def rest(self) -> None:
        """Wait while work of this kind is held back."""
        while self.suspended():
            await self._environment.sleep(HELD_S)

    @contextmanager
    def attempt(self, log: logging.Logger, work: str) -> Iterator[None]:
        """Note whether the block succeeded; a failure of storage is logged, and not raised."""
        try:
            yield
        except (ChunkError, CorruptDataError, StorageFullError) as error:
            log.warning("%s failed: %s", work, error)
            self.failed(error)
        else:
            self.succeeded()

    def failed(self, error: Exception) -> None:
        """Work failed: the next try waits twice as long, with jitter, up to a bound."""
        jitter = 0.75 + self._environment.random() / 2
        self.error = error
        self._until = self._environment.monotonic() + self._pause_s * jitter
        self._pause_s = min(PAUSE_S_MAX, self._pause_s * 2)

    def succeeded(self) -> None:
        """Work succeeded."""
        self.error = None
        self._pause_s = PAUSE_S_MIN


class Failures:
    """What failed in a round of acts that do not depend on one another."""

    def __init__(self) -> None:
        self._first: SiltstoneError | None = None

    def add(self, error: SiltstoneError) -> None:
        """Remember that an act failed."""
        self._first = self._first or error

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Around one act: a failure that says nothing about the others waits for their turn.

        What ends the owner, above all ``FencedError``, ends the round at once.
        """
        try:
            yield
        except (ChunkError, CorruptDataError, StorageFullError) as error:
            self.add(error)

    def raise_first(self) -> None:
        """End the round: raise the first failure, if there was one."""
        if self._first is not None:
            raise self._first
