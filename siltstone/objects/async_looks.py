"""Looking at a keyspace as a whole, for asyncio: what it holds, and whether all of it is there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from siltstone.objects.async_folds import AsyncFolds
from siltstone.objects.snapshots import FOLD_TTL_S
from siltstone.objects.space_check import SpaceCheck
from siltstone.objects.space_info import KeyspaceInfo, look_at

if TYPE_CHECKING:
    from siltstone.container.models.segments import Finding


class AsyncLooks(AsyncFolds):
    """What is asked of a whole keyspace."""

    __slots__ = ()

    async def stat(self) -> KeyspaceInfo:
        """Count objects, value segments, and bytes that are needed or not, as of now.

        It goes through all heads, and reads no value.

        Raises:
            CorruptDataError: rows are damaged.
        """
        async with self._moment(FOLD_TTL_S) as moment:
            return await look_at(moment)

    async def check(
        self, *, deep: bool = False, progress: Callable[[float], None] = lambda _: None
    ) -> AsyncIterator[Finding]:
        """Yield what is wrong with the keyspace as it is now; changes nothing.

        Heads, entries of the index and times of expiry are compared with one another, the manifest
        with the value segments that are there and with their lengths. What is not readable at all
        by its rows is not opened: ``objects.check`` looks at that too.

        Args:
            deep: also read every record and footer, verify them, and compare them with the heads.
                What is found lost is known from then on, as after a read of it.
            progress: called on the store's loop with how much is done, from 0 to 1.

        Raises:
            ChunkError: long-term storage refused, or did not answer.
            SnapshotExpiredError: it took more than twelve hours.
        """
        async with self._moment(FOLD_TTL_S) as moment:
            parts = self._parts
            check = SpaceCheck(
                parts.store, parts.names, moment.ledger, progress, note=parts.losses.note
            )
            async for finding in check.findings(deep=deep):
                yield finding
