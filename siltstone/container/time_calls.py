"""What an owner answers about when bytes were appended."""

from __future__ import annotations

from typing import Protocol

from siltstone.container.reading import Reading


class _Owner(Protocol):
    def _reading(self) -> Reading: ...


class TimeCalls:
    """The calls of a container that ask for times."""

    async def offset_at(self: _Owner, name: str, time_ms: int) -> int:
        """See ``Reading.offset_at``."""
        return self._reading().offset_at(name, time_ms)
