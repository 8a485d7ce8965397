"""Room on long-term storage: how much there is, and the safe mode while there is too little.

In safe mode appends, concats and puts of users are refused, at once and with a typed error. All
that makes room continues, and so does what the container writes for itself: flushes, checkpoints.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from siltstone.container.commit.back_pressure import Pressure
from siltstone.core.environment import Environment
from siltstone.core.errors import CapabilityError, ChunkError, SafeModeError
from siltstone.core.storage.async_storage import AsyncChunkStorage

logger = logging.getLogger(__name__)

FREE_LEAVE: Final = 1.25
"""Safe mode ends when a quarter more is free than it begins at; else it would come and go."""
USED_LEAVE: Final = 0.9
"""Safe mode ends when a tenth less is used than it begins at."""
SHORT_INTERVAL_S: Final = 10.0
"""How often room is looked at in safe mode, at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceLimits:
    """When room is short.

    Attributes:
        free_bytes_min: less than this is free; 0 never is.
        used_bytes_max: this much, or more, is used; ``None`` never is.
    """

    free_bytes_min: int
    used_bytes_max: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomWatch:
    """Room as it was last seen.

    Attributes:
        free_bytes: bytes that may still be written; ``None`` when not asked for or unknown.
        used_bytes: bytes that the store's chunks and files hold; ``None`` likewise.
    """

    free_bytes: int | None = None
    used_bytes: int | None = None


def is_short(space: RoomWatch, limits: SpaceLimits, *, was: bool) -> bool:
    """Whether room is short; once it was, it stops being so only with a margin."""
    free_min = limits.free_bytes_min * (FREE_LEAVE if was else 1)
    short = space.free_bytes is not None and space.free_bytes < free_min
    if limits.used_bytes_max is not None and space.used_bytes is not None:
        short = short or space.used_bytes >= limits.used_bytes_max * (USED_LEAVE if was else 1)
    return short


async def look_at_space(
    storage: AsyncChunkStorage, limits: SpaceLimits, last: RoomWatch
) -> RoomWatch:
    """Ask storage for what the limits need; what it does not answer stays as it was."""
    free, used = last.free_bytes, last.used_bytes
    try:
        if limits.free_bytes_min and storage.capabilities.free_space:
            free = await storage.free_space()
        if limits.used_bytes_max is not None and storage.capabilities.used_space:
            used = await storage.used_space()
    except (ChunkError, CapabilityError) as error:
        logger.warning("room on long-term storage is not known: %s", error)
    return RoomWatch(free_bytes=free, used_bytes=used)


class SpaceWatch:
    """Looks at room and enters and leaves safe mode.

    Args:
        storage: long-term storage.
        environment: gives the time.
        limits: when room is short.
        interval_s: how often room is looked at, if anything was written since.
        pressure: refuses appends.
        full: whether a flush failed because storage was full, and none succeeded since.

    Attributes:
        space: room as it was last seen.
        safe_mode: whether appends are refused.
    """

    def __init__(
        self,
        storage: AsyncChunkStorage,
        environment: Environment,
        limits: SpaceLimits,
        interval_s: float,
        pressure: Pressure,
        full: Callable[[], bool],
    ) -> None:
        self._storage = storage
        self._environment = environment
        self._limits = limits
        self._interval_s = interval_s
        self._pressure = pressure
        self._full = full
        self._short = False
        self._writes = -1
        self._looked_s = float("-inf")
        self.space = RoomWatch()
        self.safe_mode = False

    async def look(self) -> None:
        """Look at room if it is time to, and enter or leave safe mode."""
        interval_s = self._interval_s
        if self._short:
            interval_s = min(interval_s, SHORT_INTERVAL_S)
        now = self._environment.monotonic()
        writes = self._storage.watch.writes
        # A container that writes nothing needs no room, and is idle without a call.
        wanted = self._short or writes != self._writes
        if wanted and now - self._looked_s >= interval_s and not self._storage.silent:
            self._looked_s = now
            self._writes = writes
            self.space = await look_at_space(self._storage, self._limits, self.space)
            self._short = is_short(self.space, self._limits, was=self._short)
        self._settle(self._short or self._full())

    def _settle(self, safe_mode: bool) -> None:
        if safe_mode == self.safe_mode:
            return
        self.safe_mode = safe_mode
        self._pressure.refuse(self._error if safe_mode else None)
        if safe_mode:
            logger.error("safe mode: %s", self._error())
        else:
            logger.warning("safe mode is over: there is room on long-term storage again")

    def _error(self) -> SafeModeError:
        return SafeModeError(
            "long-term storage has too little room: truncate or delete segments, or make room",
            free_bytes=self.space.free_bytes,
            free_bytes_min=self._limits.free_bytes_min,
            used_bytes=self.space.used_bytes,
            used_bytes_max=self._limits.used_bytes_max,
        )
