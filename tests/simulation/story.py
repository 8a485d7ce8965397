"""What happens in a run: owners that come, go, pause and die, while the weather changes."""

from __future__ import annotations

import asyncio

from tests.simulation.alone import check_alone
from tests.simulation.asking import Plans
from tests.simulation.ending import bring_to_an_end
from tests.simulation.facts import ViolationError
from tests.simulation.host import Host
from tests.simulation.world import Machine, World

SECONDS = 60.0
CLIENTS = 3
OPENING_S = 30.0
CUT_TICKS_MAX = 500
LOOKS_ALONE = 0.4
EVENTS = (
    ("crash", 5),
    ("power", 3),
    ("take over", 3),
    ("ask", 2),
    ("stop", 5),
    ("crash in boot", 2),
    ("close", 2),
    ("reader", 4),
    ("nothing", 3),
)


class Story:
    """One run."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.chance = world.chance
        self.plans = [Plans() for _ in world.ledgers]
        self.hosts: list[Host] = []
        self.owner: Host | None = None

    async def run(self) -> None:
        """Play it to its end, and check that."""
        world = self.world
        weather = asyncio.create_task(self._weather())
        try:
            await self._live()
        finally:
            weather.cancel()
        await self._calm_down()
        await self._end()
        self._check()
        world.check_closed()
        if world.failures_unheard:
            raise ViolationError(f"not heard of: {world.failures_unheard}")

    async def _end(self) -> None:
        """What the last owners find."""
        await bring_to_an_end(self.world, self.plans)

    async def _live(self) -> None:
        """Everything but the end."""
        world = self.world
        begin = world.clock.now
        while world.clock.now < begin + SECONDS:
            await self._have_owner()
            await asyncio.sleep(1 + 8 * self.chance.random())
            self._check()
            if self.chance.random() < LOOKS_ALONE:
                await self._look_alone()
            names = [name for name, _ in EVENTS]
            name = self.chance.choices(names, [weight for _, weight in EVENTS])[0]
            world.trace.note("story", name)
            await EVENT[name](self)
            self._check()

    async def _look_alone(self) -> None:
        """Were tier 1 lost at this moment, what is on long-term storage would be whole."""
        process = self.world.auditor()
        await process.start(check_alone(self.world, process))

    def _check(self) -> None:
        """Raise what a process found."""
        if self.world.broken:
            raise ViolationError(f"a rule was broken: {self.world.broken}")
        for host in list(self.hosts):
            if host.task.done():
                self.hosts.remove(host)
                host.task.result()

    async def _weather(self) -> None:
        while True:
            await asyncio.sleep(2 + 10 * self.chance.random())
            self.world.weather.change()
            if self.world.kafka is not None:
                self.world.kafka.change_weather()
            self.world.trace.note("weather", repr(self.world.weather.climate))

    async def _have_owner(self) -> None:
        """Have an owner whose clients work, if the weather allows one soon."""
        for _ in range(4):
            owner = self.owner
            busy = owner is not None and not owner.task.done() and not owner.process.stopped
            if owner is not None and busy and (owner.is_newest or self.chance.random() < 0.2):
                return
            await self._open(takeover=self.chance.random() < 0.3)
            self._check()

    async def _open(self, *, takeover: bool) -> Host | None:
        """Start an owner and wait a while for it to open."""
        free = [machine for machine in self.world.machines if not machine.busy]
        if not free:
            await asyncio.sleep(1)
            return None
        host = self._host(self.chance.choice(free))
        host.start_owner(self.plans, be_busy, takeover=takeover)
        self.hosts.append(host)
        try:
            async with asyncio.timeout(OPENING_S):
                await host.opened.wait()
        except TimeoutError:
            await self._kill(host)
            return None
        if host.refusal is None:
            self.owner = host
            return host
        await asyncio.sleep(0.5)
        return None

    def _host(self, machine: Machine) -> Host:
        """A process that is to own the store."""
        return Host(self.world, "owner", machine)

    async def _kill(self, host: Host) -> None:
        await host.die(keep_index=self.chance.random() < 0.7)
        if host in self.hosts:
            self.hosts.remove(host)
        if self.owner is host:
            self.owner = None

    # --- events -----------------------------------------------------------------------------------

    async def _crash(self) -> None:
        if self.owner is not None:
            await self._kill(self.owner)

    async def _power(self) -> None:
        """The power of the disk under the log fails at one of the next calls, with all on it."""
        disk = self.world.log_disk
        if disk is None:
            await self._crash()
            return
        if self.chance.random() < 0.5:
            # What a failed sync left in the page cache is shown to the next owner anyway.
            disk.fail_a_sync()
            await asyncio.sleep(2 * self.chance.random())
        disk.cut_at(self.chance.randint(1, 80), keep=self.chance.choice((0.0, 0.3, 0.7, 1.0)))
        for _ in range(CUT_TICKS_MAX):
            await asyncio.sleep(0.01)
            if disk.is_down:
                break
        else:
            disk.cut_now()
        for host in [*self.hosts, *([] if self.owner is None else [self.owner])]:
            await self._kill(host)
        disk.restart()

    async def _take_over(self) -> None:
        """A new owner next to one that knows nothing of it."""
        await self._open(takeover=True)

    async def _ask(self) -> None:
        """A polite new owner next to one that lives: it may get what is free just then."""
        await self._open(takeover=False)

    async def _stop(self) -> None:
        """The owner is paused for a while, and another one takes its place."""
        older = self.owner
        if older is None or older.task.done():
            return
        older.process.stop()
        await asyncio.sleep(3 * self.chance.random())
        await self._open(takeover=True)
        self.hosts.append(older) if older not in self.hosts else None
        asyncio.get_running_loop().call_later(20 * self.chance.random(), older.process.resume)

    async def _crash_in_boot(self) -> None:
        """An owner that dies while it opens, having claimed the log or not."""
        free = [machine for machine in self.world.machines if not machine.busy]
        if not free:
            return
        host = self._host(self.chance.choice(free))
        host.start_owner(self.plans, be_busy, takeover=True)
        self.hosts.append(host)
        await asyncio.sleep(self.chance.random() ** 3 * 2)
        await self._kill(host)

    async def _close(self) -> None:
        owner = self.owner
        if owner is not None and owner.applications:
            owner.leave()
            await asyncio.wait([owner.task], timeout=20)

    async def _reader(self) -> None:
        host = Host(self.world, "reader", self.world.machines[0])
        host.start_reader()
        self.hosts.append(host)

    async def _nothing(self) -> None:
        """Let them work."""

    # --- the end ----------------------------------------------------------------------------------

    async def _calm_down(self) -> None:
        """No more failures; some of those that live die, the others come to their end."""
        world = self.world
        world.weather.climate = type(world.weather.climate)()
        if world.log_disk is not None:
            world.log_disk.calls.forget()
        if world.kafka is not None:
            world.kafka.calm_down()
        for host in list(self.hosts):
            host.process.resume()
            host.leave()
        if self.hosts:
            await asyncio.wait([host.task for host in self.hosts], timeout=120)
        for host in list(self.hosts):
            if not host.task.done():
                raise ViolationError(f"{host.process.name} does not end: {host.process.stuck()}")
        if world.kafka is not None:
            # What their last requests do; the next owner is to have peace.
            world.kafka.calm_down()
        self._check()


async def be_busy(host: Host) -> None:
    """What every owner but the last ones does."""
    clients = max(1, CLIENTS // len(host.applications))
    async with asyncio.TaskGroup() as group:
        for application in host.applications:
            group.create_task(application.run(clients))


EVENT = {
    "crash": Story._crash,
    "power": Story._power,
    "take over": Story._take_over,
    "ask": Story._ask,
    "stop": Story._stop,
    "crash in boot": Story._crash_in_boot,
    "close": Story._close,
    "reader": Story._reader,
    "nothing": Story._nothing,
}
