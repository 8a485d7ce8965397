"""What has expired is removed from the ledger, some of it a round."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from siltstone.core.errors import ClosedError, FencedError, SiltstoneError
from siltstone.objects.changes import ReapRequest
from siltstone.objects.records.keys import EXPIRY, decode_expiry_key, expired_until

if TYPE_CHECKING:
    from siltstone.objects.batches import BatchWriter
    from siltstone.objects.names import SpaceNames
    from siltstone.store.async_store import AsyncStore

_log = logging.getLogger(__name__)

INTERVAL_S: Final = 60.0
"""What has expired is invisible meanwhile, and takes room a minute longer."""

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


async def reap_always(store: AsyncStore, names: SpaceNames, batches: BatchWriter) -> None:
    """Do it once a minute until cancelled, or until the store has another owner."""
    while True:
        await store.environment.sleep(INTERVAL_S)
        try:
            await reap(store, names, batches)
        except (FencedError, ClosedError):
            return
        except SiltstoneError as error:
            _log.warning("expired objects of keyspace %s: %s", names.name, error)
