"""A story of a keyspace: owners that come, go, pause, die, and lose tier 1 now and then.

What may fail: any call to long-term storage or the log, with each outcome; any process may die or
be paused, at any step; the wall clock of each jumps by days; tier 1 is lost as a whole. What must
hold: what was acknowledged is there, or what came after it; what is not known happened as a whole
or not at all; no SQN is given twice; the index is that of the heads; each value is the one that was
put; a snapshot does not change; without tier 1 the keyspace is what it was at one moment, not
before the last flush; in the end no segment is left that nothing names.
"""

from __future__ import annotations

import asyncio
from functools import partial

from siltstone.container.models.recovery_report import RecoveryState
from siltstone.container.recovery.lossy_recovery import recover_container
from siltstone.tier1.memory.fenced_log import MemoryFencedLog
from siltstone.tier1.memory.shared_log import SharedLog
from tests.simulation.alone import check_alone
from tests.simulation.facts import ViolationError
from tests.simulation.host import Host
from tests.simulation.keyspaces.end import bring_to_an_end
from tests.simulation.keyspaces.host import KeyspaceHost, check_state_alone
from tests.simulation.keyspaces.world import KeyspaceWorld
from tests.simulation.ledger import Ledger
from tests.simulation.story import EVENT, Story
from tests.simulation.world import Machine

SECONDS = (25.0, 40.0)
LOOKS_ALONE = 0.2
JUMP_S_MAX = 2 * 86_400.0
EVENTS = (
    ("crash", 5),
    ("power", 2),
    ("take over", 3),
    ("ask", 1),
    ("stop", 4),
    ("crash in boot", 2),
    ("close", 3),
    ("lose", 3),
    ("jump", 3),
    ("nothing", 4),
)


class KeyspaceStory(Story):
    """One run."""

    world: KeyspaceWorld

    async def _end(self) -> None:
        await bring_to_an_end(self.world)

    async def _live(self) -> None:
        world = self.world
        end = world.clock.now + self.chance.choice(SECONDS)
        names, weights = [name for name, _ in EVENTS], [weight for _, weight in EVENTS]
        while world.clock.now < end:
            await self._have_owner()
            await asyncio.sleep(1 + 6 * self.chance.random())
            self._check()
            if self.chance.random() < LOOKS_ALONE:
                process = world.auditor()
                await process.start(check_alone(world, process, partial(check_state_alone, world)))
            name = self.chance.choices(names, weights)[0]
            world.trace.note("story", name)
            if name == "lose":
                await self._lose_tier_1()
            elif name == "jump":
                self._jump()
            else:
                await EVENT[name](self)
            self._check()

    def _host(self, machine: Machine) -> Host:
        return KeyspaceHost(self.world, machine)

    def _check(self) -> None:
        super()._check()
        for host in self.hosts:
            if isinstance(host, KeyspaceHost) and not host.task.done():
                host.check()

    def _jump(self) -> None:
        """The wall clock of a process jumps by seconds, hours or days, or is right again."""
        if self.owner is not None:
            most_s = self.chance.choice((0.0, 30.0, 3_600.0, JUMP_S_MAX))
            self.owner.process.jump(most_s * (2 * self.chance.random() - 1))  # type: ignore[attr-defined]

    async def _lose_tier_1(self) -> None:
        """Every process ends, tier 1 is gone, and a person lets long-term storage continue."""
        world = self.world
        if world.log_disk is not None:
            await self._crash()
            return
        for host in [*self.hosts, *([] if self.owner is None else [self.owner])]:
            await self._kill(host)
        world.shared_logs[0] = SharedLog()
        process = world.auditor()
        report = await process.start(
            recover_container(
                container=0,
                new_log=lambda: MemoryFencedLog("sim", 0, shared=world.shared_logs[0]),
                storage=world.bare_storage(),
                environment=process,
                settings=world.settings,
                owner=process.name,
                accept_loss=True,
                takeover=True,
            )
        )
        world.trace.note("story", f"recovered: {report.state} {report.done}")
        world.space.lost_tier_1()
        if report.state is RecoveryState.NEW:
            world.ledgers[0] = Ledger(0, world.now_ms)
        elif not report.done:
            raise ViolationError(f"nothing was recovered: {report}")
