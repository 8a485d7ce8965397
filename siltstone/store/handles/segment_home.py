"""What a handle to a segment asks of the store that made it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from siltstone.core.environment import Environment
    from siltstone.store.handles.async_segment import AsyncSegment


class SegmentHome(Protocol):
    """What a handle to a segment asks of the store that made it."""

    @property
    def environment(self) -> Environment:
        """Where time and threads come from."""
        ...

    @property
    def container_count(self) -> int:
        """How many containers the store has."""
        ...

    def container_index(self, name: str) -> int:
        """Return the index of the container that owns ``name``. Raises ``SegmentNameError``."""
        ...

    def _check_changeable(self, name: str) -> None:
        """Raise ``SegmentNameError`` for what belongs to a keyspace, and for what is no name."""
        ...

    def segment(self, name: str) -> AsyncSegment:
        """Return a handle to a segment."""
        ...
