"""The health of long-term storage as one container finds it, and what follows from it.

Every second it is judged again. What follows: appends are held back while bytes are late,
background work rests while storage fails, and while storage is silent it is looked at now and then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from siltstone.container.commit.back_pressure import Pressure
from siltstone.container.health.space import (
    RoomWatch,
    SpaceLimits,
    SpaceWatch,
    is_short,
    look_at_space,
)
from siltstone.container.models.health import (
    HealthLimits,
    HealthReason,
    HealthState,
    Signs,
    judge,
    throttle_s,
)
from siltstone.container.models.settings import ContainerSettings
from siltstone.container.state.clock_watch import ClockWatch
from siltstone.container.state.log_scan import LOG_POOL
from siltstone.container.state.replica import Replica
from siltstone.core.chunk_names import claim_file
from siltstone.core.environment import Environment
from siltstone.core.errors import ChunkError, SiltstoneError
from siltstone.core.fenced_log import FencedLog, LogOwner
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.core.storage.circuit_breaker import CircuitState

logger = logging.getLogger(__name__)

TICK_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerHealth:
    """The health of long-term storage as one container finds it.

    Attributes:
        container: index of the container.
        state: ``ok``, ``slow``, ``degraded`` or ``unavailable``.
        reasons: why it is not ``ok``, the gravest first, and what to know although it is.
        calls: calls to long-term storage that ended in the last minute, 512 at most.
        unanswered: how many of them got no answer.
        slow_calls: how many took longer than ``slow_call_s``, a second.
        latency_s: median of their times, in seconds, without the wait for a thread.
        circuit: ``closed`` while calls are sent; else ``open`` or ``probing``.
        unflushed_age_s: age of the oldest byte or table record that is only in tier 1.
        lateness_s: seconds for which it has been due for a flush; 0 while nothing is.
        throttle_s: how long each append is held back.
        safe_mode: whether appends are refused for lack of room.
        free_bytes: bytes that may still be written; ``None`` when storage does not tell.
        used_bytes: bytes that the store's files hold; ``None`` when it was not looked for: only
            ``space.used_max`` needs it.
        throttled_calls: how many of the calls the service refused for being too many.
        calls_max: how many calls may be in flight now: ``long_term_storage.threads``, or fewer
            since the service throttled.
        clock_jump_s: how far the clock of this machine jumped last, within a day, in seconds: above
            0 ahead, below 0 back; 0 when it did not, or the caller has not run for long.
        clock_behind_s: how far the newest time that was in the log when it was opened lies in the
            future: this clock is behind, or an earlier owner's clock was ahead; 0 when it does not.
        error: why the container is closed, such as while it is opened again after a failure: it
            is ``unavailable``, and every number is 0; ``None`` while it is open.
    """

    container: int
    state: HealthState
    reasons: tuple[HealthReason, ...]
    calls: int
    unanswered: int
    slow_calls: int
    latency_s: float
    circuit: CircuitState
    unflushed_age_s: float
    lateness_s: float
    throttle_s: float
    safe_mode: bool = False
    free_bytes: int | None = None
    used_bytes: int | None = None
    throttled_calls: int = 0
    calls_max: int = 0
    clock_jump_s: float = 0.0
    clock_behind_s: float = 0.0
    error: str | None = None


def closed_health(container: int, error: SiltstoneError) -> ContainerHealth:
    """Return the health of a container that is closed, whatever long-term storage does."""
    return ContainerHealth(
        container=container,
        state=HealthState.UNAVAILABLE,
        reasons=(HealthReason.CLOSED,),
        calls=0,
        unanswered=0,
        slow_calls=0,
        latency_s=0.0,
        circuit=CircuitState.CLOSED,
        unflushed_age_s=0.0,
        lateness_s=0.0,
        throttle_s=0.0,
        error=str(error),
    )


class Gauge:
    """Measures and judges; changes nothing. An owner and a reader have one each.

    Attributes:
        clock: tells whether the clock of this machine jumps.
    """

    def __init__(
        self,
        container: int,
        storage: AsyncChunkStorage,
        environment: Environment,
        settings: ContainerSettings,
    ) -> None:
        self._container = container
        self._storage = storage
        self._environment = environment
        self._settings = settings
        self.clock = ClockWatch(environment)
        self._flush_age_s = settings.resolved(storage.capabilities).age_s
        self.space_limits = SpaceLimits(
            free_bytes_min=settings.free_bytes_min, used_bytes_max=settings.used_bytes_max
        )
        self.limits = HealthLimits(
            late_s=settings.late_s,
            late_s_max=settings.late_s_max,
            throttle_s_max=settings.throttle_s_max,
        )

    def measure(
        self, replica: Replica, owned_since_s: float, space: RoomWatch, *, safe_mode: bool
    ) -> ContainerHealth:
        """Return the health of this moment.

        Args:
            replica: what is acknowledged.
            owned_since_s: since when there has been an owner to flush it, monotonic seconds: time
                before that makes nothing late.
            space: room as it was last seen.
            safe_mode: whether there is too little.
        """
        watch = self._storage.watch
        age_s, lateness_s = self._ages(replica, owned_since_s)
        signs = Signs(
            recent=watch.recent(),
            silent=watch.circuit.state is not CircuitState.CLOSED,
            stuck=not self._storage.healthy,
            lateness_s=lateness_s,
            clock_jump_s=self.clock.jump_s(),
            clock_behind_s=max(0.0, replica.replayed_ms / 1000 - self._environment.time()),
        )
        state, reasons = judge(signs, self.limits)
        return ContainerHealth(
            container=self._container,
            state=state,
            reasons=reasons,
            calls=signs.recent.count,
            unanswered=signs.recent.unanswered,
            slow_calls=signs.recent.slow,
            latency_s=signs.recent.latency_s,
            circuit=watch.circuit.state,
            unflushed_age_s=age_s,
            lateness_s=lateness_s,
            throttle_s=throttle_s(lateness_s, self.limits),
            safe_mode=safe_mode,
            free_bytes=space.free_bytes,
            used_bytes=space.used_bytes,
            throttled_calls=signs.recent.throttled,
            calls_max=self._storage.limit,
            clock_jump_s=signs.clock_jump_s,
            clock_behind_s=signs.clock_behind_s,
        )

    async def look(self, replica: Replica, holder: Callable[[], LogOwner]) -> ContainerHealth:
        """Ask storage for the newest claim, then measure; for a caller that is no owner.

        Args:
            replica: what is acknowledged.
            holder: tells, blocking, whether an owner is there to flush.
        """
        owner = await self._environment.run_blocking(LOG_POOL, holder)
        try:
            await self._storage.stat(claim_file(self._container, owner.epoch))
        except ChunkError as error:
            logger.info("a look at long-term storage failed: %s", error)
        space = await look_at_space(self._storage, self.space_limits, RoomWatch())
        since_s = float("-inf") if owner.alive else self._environment.monotonic()
        safe_mode = is_short(space, self.space_limits, was=False)
        return self.measure(replica, since_s, space, safe_mode=safe_mode)

    def _ages(self, replica: Replica, owned_since_s: float) -> tuple[float, float]:
        """Age of the oldest unflushed byte or record, and for how long one has been due."""
        now = self._environment.monotonic()
        firsts = [segment.tail.first.time_s for segment in replica.dirty.values() if segment.tail]
        oldest = min(firsts, default=now)
        table = replica.table_tail.first.time_s if replica.table_tail else now
        late = now - max(owned_since_s, oldest) - self._flush_age_s
        late_table = now - max(owned_since_s, table) - self._settings.table_flush_age_s
        return now - min(oldest, table), max(0.0, late, late_table)


class ReaderHealth:
    """How a reader finds long-term storage.

    Args:
        gauge: the reader's own.
        refresh: looks at the log.
        seen: what the reader shows, and the newest epoch.
        log: says which owner holds it.
    """

    def __init__(
        self,
        gauge: Gauge,
        refresh: Callable[[], Awaitable[None]],
        seen: Callable[[], tuple[Replica, int]],
        log: FencedLog,
    ) -> None:
        self._gauge = gauge
        self._refresh = refresh
        self._seen = seen
        self._log = log

    async def __call__(self) -> ContainerHealth:
        """Tell it by the calls so far, and one made now."""
        with suppress(ChunkError):  # its calls are counted
            await self._refresh()
        replica, _ = self._seen()
        return await self._gauge.look(replica, self._log.holder)


class HealthMonitor:
    """Judges every second and lets the others know.

    Attributes:
        now: the last judgement.
    """

    def __init__(
        self,
        gauge: Gauge,
        replica: Replica,
        pressure: Pressure,
        storage: AsyncChunkStorage,
        environment: Environment,
        probed: tuple[int, int],
        space: SpaceWatch,
    ) -> None:
        self._space = space
        self._gauge = gauge
        self._replica = replica
        self._pressure = pressure
        self._storage = storage
        self._environment = environment
        self._probe_name = claim_file(*probed)
        self._opened_s = environment.monotonic()
        self.now = self._measure()

    @property
    def failing(self) -> bool:
        """Whether storage should be spared work that can wait: deletions and sweeps.

        Late bytes alone are no reason: they may wait for the very work that makes room.
        """
        return self._storage.silent or HealthReason.FAILING in self.now.reasons

    @property
    def strained(self) -> bool:
        """Whether it should be spared work that is not needed: that of the optimiser."""
        return self._storage.silent or self.now.state is not HealthState.OK or self._space.safe_mode

    async def run(self) -> None:
        """Judge and probe until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._probe())
            group.create_task(self._look_at_space())
            while True:
                self.look()
                await self._environment.sleep(TICK_S)

    def look(self) -> ContainerHealth:
        """Judge now, and throttle as that says."""
        before = self.now
        self.now = self._measure()
        self._pressure.throttle(self.now.throttle_s)
        if (before.state, before.reasons) != (self.now.state, self.now.reasons):
            level = logging.INFO if self.now.state is HealthState.OK else logging.WARNING
            reasons = "; ".join(self.now.reasons)
            states = (before.state, self.now.state)
            logger.log(level, "long-term storage was %s and is %s: %s", *states, reasons)
        return self.now

    def _measure(self) -> ContainerHealth:
        space = self._space
        return self._gauge.measure(
            self._replica, self._opened_s, space.space, safe_mode=space.safe_mode
        )

    async def _look_at_space(self) -> None:
        while True:
            await self._space.look()
            await self._environment.sleep(TICK_S)

    async def _probe(self) -> None:
        """While storage is silent, look at one file now and then; any answer ends the silence."""
        while True:
            await self._environment.sleep(TICK_S)
            if self._storage.watch.circuit.probe_due(self._environment.monotonic()):
                try:
                    await self._storage.stat(self._probe_name)
                except ChunkError as error:
                    logger.debug("probe of long-term storage: %s", error)
