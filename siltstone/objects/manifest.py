"""The manifest: which value segment has the records of which SQNs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from siltstone.objects.ledger import Ledger
from siltstone.objects.records.space_rows import ManifestRow, ValueStatus


class Manifest:
    """The value segments at one moment.

    Args:
        rows: in the order of their SQNs.

    Attributes:
        rows: the same.
        numbers: of the segments.
        newest: the highest of them.
    """

    def __init__(self, rows: Sequence[ManifestRow]) -> None:
        self.rows = tuple(rows)
        self.numbers = frozenset(row.number for row in rows)
        self.newest = max(self.numbers, default=0)
        self._firsts = [row.first_sqn for row in rows]

    def row_of(self, sqn: int) -> ManifestRow | None:
        """The segment that has the record of this SQN, if there is one; ``None`` if none can."""
        position = bisect_right(self._firsts, sqn) - 1
        if position < 0:
            return None
        row = self.rows[position]
        return row if row.status is ValueStatus.ACTIVE or sqn <= row.last_sqn else None


class LiveManifest:
    """The manifest of an open keyspace, looked up again when it is known to have changed.

    Args:
        ledger: has the rows.
        rows: as they were just now.
    """

    def __init__(self, ledger: Ledger, rows: Sequence[ManifestRow]) -> None:
        self._ledger = ledger
        self._known = Manifest(rows)

    async def with_number(self, number: int) -> Manifest:
        """What is known, or what is there now if this segment is newer than those known."""
        return await self.now() if number > self._known.newest else self._known

    async def now(self) -> Manifest:
        """What is there now."""
        self._known = Manifest(await self._ledger.manifest())
        return self._known
