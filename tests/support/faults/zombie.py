"""An owner that stops at one of its calls and continues later, when another one has taken over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

import pytest

from siltstone.container.container import Container
from siltstone.core.environment import Pool
from siltstone.core.errors import SiltstoneError
from siltstone.testing.virtual_time import VirtualEnvironment
from tests.support.container.container_world import Owner, World, pattern
from tests.support.model.container_model import InFlight

T = TypeVar("T")


class PausingEnvironment(VirtualEnvironment):
    """The environment of one process that is stopped at a call, with all its threads.

    Attributes:
        calls: how many blocking calls it made.
        names: pools of all calls, in order.
        reached: set when it stopped.
        resume: lets it continue.
    """

    def __init__(self, world: World, number: int, *, after: bool) -> None:
        super().__init__(7, latency=world.environment.latency, clock=world.environment.clock)
        self.calls = 0
        self.names: list[str] = []
        self.reached = asyncio.Event()
        self.resume = asyncio.Event()
        self._number = number
        self._after = after

    async def run_blocking(self, pool: Pool, call: Callable[[], T]) -> T:
        self.calls += 1
        mine = self.calls
        self.names.append(pool.name)
        if mine > self._number or (mine == self._number and not self._after):
            await self._stop()
        result = await super().run_blocking(pool, call)
        if mine == self._number and self._after:
            await self._stop()
        return result

    def stop_now(self) -> None:
        """Stop at the next call."""
        self._number = self.calls

    def stop_at(self, number: int) -> None:
        """Stop at the ``number``-th call from now on, 1 being the next."""
        self._number = self.calls + number

    def stop_after_next(self) -> None:
        """Stop after the next call."""
        assert self._after, "it stops before calls"
        self._number = self.calls + 1

    async def _stop(self) -> None:
        self.reached.set()
        await self.resume.wait()


class OldOwner:
    """An owner that lives until it stops at a call, and continues when it has been overtaken.

    Attributes:
        environment: counts its calls, its boot's included.
        owner: the container, once it is open.

    Args:
        made: the world; the owner has an index folder of its own there.
        environment: stops it.
        life: what it does when it is open.
    """

    def __init__(
        self,
        made: World,
        environment: PausingEnvironment,
        life: Callable[[Owner], Awaitable[object]],
    ) -> None:
        self.environment = environment
        self.owner: Owner | None = None
        self._made = made
        self._life = life
        self._living: asyncio.Task[None] | None = None

    async def _live(self) -> None:
        with suppress(SiltstoneError):
            self.owner = await self._made.open(index="older", environment=self.environment)
            await self._life(self.owner)

    async def begin(self) -> int:
        """Live until it stops or its life ends; return how many calls it made."""
        self._living = asyncio.create_task(self._live())
        reached = asyncio.create_task(self.environment.reached.wait())
        await asyncio.wait([self._living, reached], return_when=asyncio.FIRST_COMPLETED)
        reached.cancel()
        calls = self.environment.calls
        self.environment.stop_now()
        return calls

    async def resume(self) -> None:
        """Let it do whatever it still does; it acknowledges nothing more."""
        assert self._living is not None, "it has begun to live"
        self.environment.resume.set()
        await self._made.environment.sleep(30)
        await self._living
        if self.owner is not None:
            with pytest.raises(SiltstoneError):
                await self.owner.container.append("a", b"late")
            await self.owner.container.close()


@dataclass
class Deeds:
    """What the older owner was asked for, and what it acknowledged."""

    flights: list[InFlight] = field(default_factory=list)
    truncated: int = 0
    truncating: int = 0
    deleted: bool = False
    ended: bool = False
    failure: BaseException | None = None


async def duty(container: Container, world: World, deeds: Deeds) -> None:
    """Use every verb that leads to something destructive, until something fails."""
    try:
        await _work(container, world, deeds)
        deeds.ended = True
    except SiltstoneError as error:
        deeds.failure = error


async def _append(container: Container, deeds: Deeds, length: int) -> None:
    flight = InFlight("a", pattern(len(deeds.flights) + 1, length))
    deeds.flights.append(flight)
    flight.offset = await container.append("a", flight.data)


async def _truncate(container: Container, deeds: Deeds, offset: int) -> None:
    deeds.truncating = offset
    await container.truncate("a", offset)
    deeds.truncated = offset


async def _work(container: Container, world: World, deeds: Deeds) -> None:
    await _append(container, deeds, 6_000)
    await container.flush()
    await _append(container, deeds, 500)
    await container.create("gone")
    await container.append("gone", pattern(99, 5_000))
    await container.flush()
    await container.checkpoint()
    await _truncate(container, deeds, 5_000)
    await container.delete("gone")
    deeds.deleted = True
    await _append(container, deeds, 3_000)
    await container.flush()
    await world.environment.sleep(8)
    await container.collect()
    await container.checkpoint()
    await _append(container, deeds, 700)
    await container.checkpoint()
    await _append(container, deeds, 4_500)
    await container.flush("a")


async def content(owner: Owner, name: str) -> tuple[int, bytes]:
    """Where the readable bytes begin, and the bytes."""
    info = await owner.container.info(name)
    length = info.length - info.start_offset
    return info.start_offset, await owner.container.read(name, info.start_offset, length)


async def check_deeds(owner: Owner, deeds: Deeds) -> None:
    """What the older owner acknowledged is there, and nothing that it was not asked for."""
    start, data = await content(owner, "a")
    assert deeds.truncated <= start <= deeds.truncating or start == 0
    for flight in deeds.flights:
        if flight.offset is None:
            continue
        begin = max(flight.offset, start)
        mine = flight.data[begin - flight.offset :]
        assert data[begin - start : begin - start + len(mine)] == mine, "an acknowledged byte"
    names = {info.name for info in await owner.container.list_segments()}
    if deeds.deleted:
        assert "gone" not in names
