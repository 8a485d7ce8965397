"""One commit of a rebuild: rows, and how far the rebuild is after it. Nothing here waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.container.models.segments import Operation, Put, Remove
from siltstone.objects.records.keys import STATE
from siltstone.objects.records.rebuild_rows import Rebuild, encode_rebuild

if TYPE_CHECKING:
    from siltstone.objects.evaluation import LedgerRow


class RebuildStep:
    """What one commit does.

    Args:
        ledger: name of the table.
        now: how far the rebuild is before it.

    Attributes:
        now: how far it is after it.
        size: about how many bytes it takes of a frame.
        count: objects whose rows it has.
    """

    def __init__(self, ledger: str, now: Rebuild) -> None:
        self.now = now
        self.size = 0
        self.count = 0
        self._ledger = ledger
        self._operations: list[Operation] = []

    def put(self, rows: list[LedgerRow], size: int) -> None:
        """Take the rows of an object."""
        ledger = self._ledger
        self._operations += [
            Remove(ledger, key) if value is None else Put(ledger, key, value) for key, value in rows
        ]
        self.size += size
        self.count += 1

    def add(self, operation: Put) -> None:
        """Take a row."""
        self._operations.append(operation)
        self.size += len(operation.key) + len(operation.value)

    def remove(self, key: bytes) -> None:
        """Take away a row."""
        self._operations.append(Remove(self._ledger, key))

    def operations(self) -> list[Operation]:
        """All of it."""
        return [*self._operations, Put(self._ledger, STATE, encode_rebuild(self.now))]
