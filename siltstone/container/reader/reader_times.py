"""The calls of a read-only container that are about times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.container.retention.retention import ReadRetention
from siltstone.container.state.replica import Replica
from siltstone.core.environment import Environment

if TYPE_CHECKING:
    from siltstone.container.reads.reads import Reading


class ReaderTimes:
    """What a read-only container knows of the age of bytes; a part of ``ReadContainer``."""

    _environment: Environment

    async def _fresh(self) -> Reading:
        raise NotImplementedError

    async def offset_at(self, name: str, time_ms: int) -> int:
        """See ``Reading.offset_at``."""
        reading = await self._fresh()
        return reading.offset_at(name, time_ms, int(self._environment.time() * 1000))

    async def append_borders(self, name: str, start: int, end: int) -> list[int]:
        """See ``Reading.append_borders``."""
        return (await self._fresh()).append_borders(name, start, end)

    @property
    def retention(self) -> ReadRetention:
        """The rules by which segments are shortened."""

        async def seen() -> Replica:
            return (await self._fresh()).replica

        return ReadRetention(seen, self._environment)
