"""What the owner of a container offers to code that keeps metadata in its tables.

Only the contract lives here; the container implements it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from siltstone.core.records.table_record import TableEntry


class LogWriter(Protocol):
    """Puts table updates through the tier-1 log."""

    @property
    def epoch(self) -> int:
        """The owner's epoch."""
        ...

    def pending(self, table_id: int, key: bytes) -> bytes | None:
        """The newest assigned value of a key, acknowledged or not; ``None`` when there is none."""
        ...

    async def update(self, entries: Sequence[TableEntry]) -> int:
        """Put one atomic update into the next frame; return its table version when acknowledged.

        The update is assigned before this coroutine first suspends: what was read by ``pending`` in
        the same step of the loop is still true. It does not wait for back-pressure.

        Raises:
            LogError: the log failed; outcome unknown, the owner is closing.
        """
        ...
