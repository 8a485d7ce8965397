"""A story of collections: processes that work on them, stop, die and come back late.

What may fail: any request, in each way, and any may come minutes after its sender gave up, stopped
or died; a process may die or stand still at any step, for longer than its leases; its wall clock
may jump by days, by itself. What must hold: each answer is true, and agrees with all others; in the
end all drains, and nothing is left that nothing names.
"""

from __future__ import annotations

import asyncio
from functools import partial

from tests.simulation.collections.end import bring_to_an_end
from tests.simulation.collections.held import check_held
from tests.simulation.collections.host import CollectionHost
from tests.simulation.collections.ledger import CollectionLedger
from tests.simulation.collections.service import CALM
from tests.simulation.collections.world import CollectionWorld
from tests.simulation.facts import ViolationError

SECONDS = (12.0, 20.0, 40.0)
HOSTS = (2, 3, 3)
COLLECTIONS_MAX = 3
JUMP_S_MAX = 2 * 86_400.0
"""How far a clock goes from the time; the end waits longer than that."""
EVENTS = (
    ("kill", 3),
    ("stop", 4),
    ("leave", 2),
    ("jump", 3),
    ("weather", 4),
    ("another", 1),
    ("nothing", 3),
)
PEACEFUL_EVENTS = (("leave", 3), ("another", 1), ("nothing", 5))


class CollectionStory:
    """One run."""

    def __init__(self, world: CollectionWorld) -> None:
        self.world = world
        self.chance = world.chance
        self.hosts: list[CollectionHost] = []
        outside = world.calm_place(world.process("witness", in_steps=False))
        world.witness = partial(check_held, outside)

    async def run(self) -> None:
        """Play it to its end, and check that."""
        self._another()
        await self._live()
        await self._calm_down()
        await bring_to_an_end(self.world)
        if self.world.failures_unheard:
            raise ViolationError(f"not heard of: {self.world.failures_unheard}")

    async def _live(self) -> None:
        world, count = self.world, self.chance.choice(HOSTS)
        events = PEACEFUL_EVENTS if world.is_peaceful else EVENTS
        names, weights = [name for name, _ in events], [weight for _, weight in events]
        end = world.clock.now + self.chance.choice(SECONDS)
        while world.clock.now < end:
            while len(self.hosts) < count:
                self.hosts.append(CollectionHost(world))
            await asyncio.sleep(0.5 + 5 * self.chance.random())
            self._check()
            name = self.chance.choices(names, weights)[0]
            world.trace.note("story", name)
            await self._event(name)
            self._check()

    async def _event(self, name: str) -> None:
        host = self.chance.choice(self.hosts) if self.hosts else None
        if name == "weather":
            self.world.weather.change()
            self.world.trace.note("weather", repr(self.world.weather.climate))
        elif name == "another":
            self._another()
        elif host is None:
            return
        elif name == "kill":
            self.hosts.remove(host)
            await host.die()
        elif name == "stop" and not host.process.stopped:
            host.process.stop()
            seconds = 4 * self.world.lease_s * self.chance.random()
            asyncio.get_running_loop().call_later(seconds, self._resume, host)
        elif name == "leave":
            host.leave()
        elif name == "jump":
            host.process.ahead_s = self._jump()

    def _resume(self, host: CollectionHost) -> None:
        if not host.process.dead:
            self.world.trace.note("story", f"{host.process.name} goes on")
            host.process.resume()

    def _jump(self) -> float:
        """How far a clock is ahead from now on: seconds, hours or days, or right again."""
        most_s = self.chance.choice((0.0, 30.0, 3_600.0, JUMP_S_MAX))
        return most_s * (2 * self.chance.random() - 1)

    def _another(self) -> None:
        """A collection that processes from now on make, all at once perhaps."""
        ledgers = self.world.ledgers
        if len(ledgers) == COLLECTIONS_MAX:
            return
        times = self.chance.choice(("ms", "count"))
        histories: tuple[tuple[str | int, int | None], ...] = (("all", None), (1, 1), (9, 9))
        if times == "ms":
            histories = (("all", None), ("20s", 20_000), ("2min", 120_000))
        history, keeps = self.chance.choice(histories)
        name = f"gusts-{len(ledgers) + 1}"
        ledgers[name] = CollectionLedger(name, times, history, keeps)

    def _check(self) -> None:
        """Raise what a process found, and look at what rows hold."""
        self.world.witness()
        if self.world.broken:
            raise ViolationError(f"when parts were deleted: {self.world.broken}")
        for host in list(self.hosts):
            if host.task.done():
                self.hosts.remove(host)
                host.task.result()

    async def _calm_down(self) -> None:
        """No more failures; some of those that live die, the others come to their end."""
        world = self.world
        world.weather.climate = CALM
        for host in self.hosts:
            host.process.resume()
        await asyncio.sleep(2 + 3 * self.chance.random())
        self._check()
        for host in list(self.hosts):
            if not world.is_peaceful and self.chance.random() < 0.4:
                self.hosts.remove(host)
                await host.die()
            else:
                host.leave()
        if self.hosts:
            await asyncio.wait([host.task for host in self.hosts], timeout=600)
        for host in self.hosts:
            if not host.task.done():
                raise ViolationError(f"{host.process.name} does not end: {host.process.stuck()}")
        self._check()
        await asyncio.sleep(max(0.0, world.busy_until - world.clock.now) + 1)
