"""Pins: promises, made by anyone without a claim, that nothing a table version names is deleted."""

from __future__ import annotations

from siltstone.core.chunk_names import PINS_PREFIX
from siltstone.core.environment import Environment
from siltstone.core.errors import ChunkNotFoundError
from siltstone.core.records.pin import decode_pin
from siltstone.core.threads import AsyncChunkStorage


async def oldest_pin(
    storage: AsyncChunkStorage, environment: Environment, container: int, lineage: bytes
) -> int | None:
    """Return the oldest table version that an unexpired pin promises, ``None`` without pins.

    A pin of another lineage promises nothing: its table versions are of another table log.

    Raises:
        CorruptDataError: a pin is damaged; then nothing may be deleted.
        ChunkError: long-term storage did not answer.
    """
    now_ms = environment.time() * 1000
    versions = []
    for stat in await storage.list(f"{PINS_PREFIX}{container}-"):
        try:
            data = await storage.read_all(stat.name, stat.length)
        except ChunkNotFoundError:
            continue
        pin = decode_pin(bytes(data), where=stat.name)
        if pin.lineage == lineage and pin.expires_ms > now_ms:
            versions.append(pin.version)
    return min(versions, default=None)
