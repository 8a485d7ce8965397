"""The calls of a container that are about times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.container.retention.retention import Retention

if TYPE_CHECKING:
    from siltstone.container.assembly import OwnerParts
    from siltstone.container.reads.reads import Reading


class TimeCalls:
    """What an owned container knows of the age of bytes; a part of ``Container``."""

    _parts: OwnerParts

    def _reading(self) -> Reading:
        raise NotImplementedError

    async def offset_at(self, name: str, time_ms: int) -> int:
        """See ``Reading.offset_at``."""
        now_ms = int(self._parts.environment.time() * 1000)
        return self._reading().offset_at(name, time_ms, now_ms)

    @property
    def retention(self) -> Retention:
        """The rules by which segments are shortened."""
        return self._parts.retention
