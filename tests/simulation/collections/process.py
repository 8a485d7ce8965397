"""A process that uses collections: its wall clock may be days off, and its calls are in steps."""

from __future__ import annotations

import asyncio
from typing import Any

from siltstone.testing.virtual_time import Clock
from tests.support.simulation.processes import Delays, Process, ProcessLoop
from tests.support.simulation.stepping import pause

_AT_ONCE = Delays(before_s=0.0, after_s=0.0)


class CollectionProcess(Process):
    """An ``Environment`` with a wall clock of its own.

    Args:
        name: in traces.
        clock: the time of all processes.
        seed: of the world.
        in_steps: whether others come between the requests of one blocking call; else a call is one
            step, and takes no time.

    Attributes:
        ahead_s: seconds that its wall clock is ahead of the time; below 0, behind it.
    """

    def __init__(self, name: str, clock: Clock, seed: int, *, in_steps: bool = True) -> None:
        super().__init__(
            name,
            clock,
            seed,
            delays=lambda pool, chance: _AT_ONCE,
            outlives=lambda pool: False,  # What was sent off takes effect by itself.
            steps=lambda pool: in_steps,
        )
        self.ahead_s = 0.0

    def time(self) -> float:
        """Seconds since 1970, as its wall clock says."""
        return super().time() + self.ahead_s

    def pause(self, seconds: float) -> None:
        """Let others work meanwhile."""
        if not pause(seconds):
            super().pause(seconds)


class _Future(asyncio.Future[Any]):
    """A future whose place in a set is the same in every run of a seed."""

    def __init__(self, number: int, loop: asyncio.AbstractEventLoop) -> None:
        self._number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class CollectionLoop(ProcessLoop):
    """The loop of all processes. The code keeps futures in sets, so these have a fixed order."""

    _futures_made = 0

    def create_future(self) -> asyncio.Future[Any]:
        """A new future."""
        self._futures_made += 1
        return _Future(self._futures_made, self)
