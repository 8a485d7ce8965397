"""What folds hold on to: the ledger of a keyspace as it was at one moment, for a limited time.

Heads and manifest are rows of one table, so a snapshot of that shows one moment of all.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from siltstone.core.errors import ClosedError, SnapshotExpiredError
from siltstone.store.handles.async_table import end_snapshot, has_ended

if TYPE_CHECKING:
    from siltstone.store.handles.async_table import AsyncTable, AsyncTableSnapshot

QUERY_TTL_S: Final = 900.0
"""How long a snapshot lives that is told nothing else."""

FOLD_TTL_S: Final = 43_200.0
"""How long one lives at most: twelve hours, for a fold over all values."""


@dataclass(slots=True)
class _Shared:
    """A snapshot of the table, and how many hold it."""

    taken: AsyncTableSnapshot
    since_s: float
    holders: int = 0


class HeldLedger:
    """The ledger as it was at one moment, until it is released or its time is over.

    Args:
        shared: what is read.
        registry: where it is released.
        ttl_s: seconds until it ends.
    """

    def __init__(self, shared: _Shared, registry: LedgerSnapshots, ttl_s: float) -> None:
        self._shared = shared
        self._registry = registry
        self._ended = False
        self._timer = asyncio.get_running_loop().call_later(ttl_s, self.release)

    @property
    def version(self) -> int:
        """The table version that it shows."""
        return self._shared.taken.version

    @property
    def taken(self) -> AsyncTableSnapshot:
        """The ledger. Raises ``SnapshotExpiredError``."""
        if self._ended:
            raise SnapshotExpiredError(
                "snapshot has ended", table=self._registry.table, version=self.version
            )
        return self._shared.taken

    def release(self) -> None:
        """End it. Idempotent."""
        if not self._ended:
            self._ended = True
            self._timer.cancel()
            self._registry.release(self, self._shared)


class LedgerSnapshots:
    """The living snapshots of one keyspace; those of one version share one of the table.

    Args:
        table: the ledger.

    Attributes:
        table: name of the ledger.
        ended: whether the keyspace was closed.
    """

    def __init__(self, table: AsyncTable) -> None:
        self.table = table.name
        self.ended = False
        self._table = table
        self._living: dict[int, _Shared] = {}
        self._held: set[HeldLedger] = set()

    async def take(self, ttl_s: float) -> HeldLedger:
        """Hold on to the ledger as it is acknowledged now.

        Args:
            ttl_s: seconds until it ends, above 0, at most twelve hours.

        Raises:
            SnapshotLimitError: 16 snapshots of tables of this container are living.
            ClosedError: the keyspace was closed.
            ValueError: ``ttl_s`` is out of range.
        """
        if self.ended:
            raise ClosedError("the keyspace was closed")
        if not 0 < ttl_s <= FOLD_TTL_S:
            raise ValueError(f"ttl_s is above 0 and at most {FOLD_TTL_S:.0f}, not {ttl_s}")
        now_s = asyncio.get_running_loop().time()
        shared = self._living.get(await self._table.version())
        if shared is None or has_ended(shared.taken) or now_s - shared.since_s > FOLD_TTL_S:
            # It ends with its container, which may be open again at the same version. And one that
            # comes to share it when it is old needs it as long again.
            taken = await self._table.snapshot(2 * FOLD_TTL_S)
            shared = self._living[taken.version] = _Shared(taken, now_s)
        shared.holders += 1
        held = HeldLedger(shared, self, ttl_s)
        self._held.add(held)
        return held

    def release(self, held: HeldLedger, shared: _Shared) -> None:
        """Let go of what one holder held."""
        self._held.discard(held)
        shared.holders -= 1
        if not shared.holders:
            version = shared.taken.version
            if self._living.get(version) is shared:
                del self._living[version]
            end_snapshot(shared.taken)

    @property
    def oldest(self) -> int | None:
        """The lowest version that a living snapshot shows; ``None`` when none is living."""
        return min((held.version for held in self._held), default=None)

    def end(self) -> None:
        """End all of them; there are to be no others."""
        self.ended = True
        for held in list(self._held):
            held.release()
