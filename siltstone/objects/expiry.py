"""What has expired is removed from the ledger, some of it a round."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from siltstone.objects.changes import ReapRequest
from siltstone.objects.records.keys import EXPIRY, decode_expiry_key, expired_until

if TYPE_CHECKING:
    from siltstone.objects.batches import BatchWriter
    from siltstone.objects.space_names import SpaceNames
    from siltstone.store.async_store import AsyncStore

REAPED_MAX: Final = 1_000
"""Objects of one step, so that applications have their turn."""


async def reap(store: AsyncStore, names: SpaceNames, batches: BatchWriter) -> int:
    """Remove what has expired; return how many objects that were.

    Raises what a put raises; what was removed stays so.
    """
    table = store.table(names.ledger)
    count = 0
    while True:
        found: list[asyncio.Future[int | None]] = []
        end = expired_until(int(store.environment.time()))
        async for key, _ in table.scan(EXPIRY, end):
            expires_s, object_key = decode_expiry_key(key)
            request = ReapRequest(key=object_key, expires_s=expires_s)
            found.append(batches.reap(request))
            if len(found) == REAPED_MAX:
                break
        await asyncio.gather(*found)
        count += len(found)
        if len(found) < REAPED_MAX:
            return count
