"""File manifests that expired long ago."""

from __future__ import annotations

import logging

from siltstone.container.models.garbage import SweepFinding
from siltstone.container.reads.pin_watch import StorageClock
from siltstone.container.reads.pins import over_ms
from siltstone.core.chunk_names import FILES_PREFIX
from siltstone.core.errors import ChunkNotFoundError, CorruptDataError, FormatError
from siltstone.core.records.file_manifest import HEAD_BYTES, decode_manifest_head
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.core.storage.listings import listed

logger = logging.getLogger(__name__)


async def expired_manifests(
    storage: AsyncChunkStorage, container: int, kept_ms: int, clock: StorageClock, now_s: float
) -> list[SweepFinding]:
    """Return the manifests of a container that were over ``kept_ms`` ago, by name.

    One that cannot be read is left alone: it is unknown when it expires. See ``over_ms`` for the
    times.

    Raises:
        ChunkError: long-term storage did not answer.
    """
    found = []
    async for stat in listed(storage, f"{FILES_PREFIX}{container}-"):
        try:
            data = await storage.read_all(stat.name, min(stat.length, HEAD_BYTES))
            head = decode_manifest_head(data, where=stat.name)
        except ChunkNotFoundError:
            continue
        except (CorruptDataError, FormatError) as error:
            logger.warning("file manifest is left alone: %s", error)
            continue
        ttl_ms = max(0, head.expires_ms - head.made_ms)
        past_ms = over_ms(head.expires_ms, ttl_ms, stat.modified_s, await clock.now_s(), now_s)
        if past_ms > kept_ms:
            found.append(SweepFinding.of("manifest", stat, "it expired more than 7 days ago"))
    return found
