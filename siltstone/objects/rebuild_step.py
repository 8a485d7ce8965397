"""One commit of a rebuild: rows, and how far the rebuild is after it. Nothing here waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.container.models.segments import ChangeKeys, Operation
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
        self._rows: list[LedgerRow] = []

    def put(self, rows: list[LedgerRow], size: int) -> None:
        """Take the rows of an object."""
        self._rows += rows
        self.size += size
        self.count += 1

    def add(self, key: bytes, value: bytes) -> None:
        """Take a row."""
        self._rows.append((key, value))
        self.size += len(key) + len(value)

    def remove(self, key: bytes) -> None:
        """Take away a row."""
        self._rows.append((key, None))

    def operations(self) -> list[Operation]:
        """All of it."""
        rows = [*self._rows, (STATE, encode_rebuild(self.now))]
        keys, values = [key for key, _ in rows], [value for _, value in rows]
        return [ChangeKeys(self._ledger, keys, values)]
