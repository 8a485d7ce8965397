"""Another story: owners that live for seconds, as cron jobs, notebooks and the command do.

Each opens, does a few operations, and closes, in one of three ways; or it dies: in its opening, in
its work, or in its close. Between two lives passes a moment, or longer than anything waits for a
flush. What must hold, on top of the rules of every story: a close that flushed everything leaves
nothing that only tier 1 has; and a life in which nothing failed leaves no chunk that nothing names,
and no frames of more than two owners in tier 1.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from siltstone.core.chunk_names import data_prefix
from siltstone.core.records.task import TaskKind
from tests.simulation.facts import ViolationError
from tests.simulation.host import AuditorParts, Host
from tests.simulation.looking import Look
from tests.simulation.story import OPENING_S, Story
from tests.simulation.weather import CALM
from tests.support.container.row_checks import all_chunks

if TYPE_CHECKING:
    from tests.simulation.world import World

LIVES = 14
CALM_RUNS = 0.5
OPERATIONS_MAX = 6
CLOSE_S = 60.0
GAPS_S = (0.0, 0.0, 0.2, 3.0, 40.0)
"""What passes between two lives; the last one is longer than a flush by age waits."""

ENDS = (("close", 12), ("kill in boot", 1), ("kill", 3), ("power", 1), ("take over", 2))


class ShortLives(Story):
    """One run of short lives."""

    async def _weather(self) -> None:
        """In half of the runs the services do not fail at all, so that the added rules apply."""
        if self.chance.random() < CALM_RUNS:
            return
        await super()._weather()

    async def _live(self) -> None:
        names, weights = [name for name, _ in ENDS], [weight for _, weight in ENDS]
        for _ in range(LIVES):
            end = self.chance.choices(names, weights)[0]
            self.world.trace.note("story", end)
            await self._one_life(end)
            self._check()
            if self.chance.random() < 0.2:
                await self._look_alone()
            if self.chance.random() < 0.2:
                await self._reader()
            await asyncio.sleep(self.chance.choice(GAPS_S))

    async def _one_life(self, end: str) -> None:
        free = [machine for machine in self.world.machines if not machine.busy]
        if not free:
            await asyncio.sleep(1)
            return
        world, before = self.world, _Peace(self.world)
        host = Host(world, "short", self.chance.choice(free))
        # One that lies dead may still hold the claim; the command waits for it, or takes over.
        host.start_owner(self.plans, _do_little, takeover=self.chance.random() < 0.7)
        self.hosts.append(host)
        if end == "close":
            await asyncio.wait([host.task], timeout=OPENING_S + CLOSE_S)
            self._check()
            if not host.task.done():
                await self._kill(host)
            elif before.held_for(host) and not self._owners_alive():
                await before.check(host)
        elif end == "kill in boot":
            await asyncio.sleep(self.chance.random() ** 3 * 2)
            await self._kill(host)
        elif end == "kill":
            # In its work, or in its close: which one, time tells.
            await asyncio.wait([host.task], timeout=5 * self.chance.random())
            await self._kill(host)
        elif end == "power":
            await asyncio.wait([host.task], timeout=2 * self.chance.random())
            await self._power()
        else:
            await asyncio.sleep(3 * self.chance.random())  # The next one comes meanwhile.

    def _owners_alive(self) -> bool:
        return any(host.applications and not host.task.done() for host in self.hosts)


async def _do_little(host: Host) -> None:
    """A few operations, one after the other or two at a time, and no waiting."""
    async with asyncio.TaskGroup() as group:
        for application in host.applications:
            count = host.process.chance.randint(0, OPERATIONS_MAX)
            group.create_task(application.run_few(count))


class _Peace:
    """What a life in which nothing failed has to leave, compared with what was there before it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._chunks = [self._data_chunks(index) for index in range(world.containers)]
        self._failures = world.weather.failures

    def _data_chunks(self, index: int) -> set[str]:
        return {stat.name for stat in self._world.bare_storage().list(data_prefix(index))}

    def held_for(self, host: Host) -> bool:
        """Whether nothing failed in the life of ``host``, the newest owner to its end."""
        weather = self._world.weather
        quiet = weather.climate == CALM and weather.failures == self._failures
        return quiet and host.closed is not None and host.is_newest

    async def check(self, host: Host) -> None:
        """Check the rules that the story adds.

        Raises:
            ViolationError: one of them is broken.
        """
        world = self._world
        world.trace.note("story", f"{host.process.name} closed in peace, flush {host.closed}")
        auditor = _auditor(world)
        await auditor.read(partial(self._leftovers, host, auditor))
        if host.closed == "always":
            auditor = _auditor(world, without_log=True)
            await auditor.read(auditor.look_at_segments)

    async def _leftovers(self, host: Host, auditor: Host, who: Look) -> None:
        index = who.ledger.index
        view = auditor.parts.readers[index]._view
        assert view is not None
        rows = view.replica.rows
        named = {chunk.name for chunk in all_chunks(rows).values()}
        named |= {task.name for task in rows.tasks(2**62) if task.kind is TaskKind.DELETE_CHUNK}
        # Only its own: what a dead owner asked for may still arrive.
        own = f"{data_prefix(index)}e{who.ledger.epoch:020d}/"
        made = {name for name in self._data_chunks(index) if name.startswith(own)}
        if orphans := made - self._chunks[index] - named:
            raise ViolationError(f"a close left chunks that nothing names: {sorted(orphans)}")
        begin = host.parts.log_ends[index]
        tails = [segment.tail for segment in view.replica.dirty.values()]
        old = [tail.first.index for tail in tails if tail.first.index < begin]
        if old and host.closed != "never":
            raise ViolationError(f"a close left what older owners appended in tier 1: {old}")


def _auditor(world: World, *, without_log: bool = False) -> Host:
    """A reader that nothing fails for."""
    parts = AuditorParts(world, without_log=without_log)
    return Host(world, "auditor", world.machines[0], parts=parts)
