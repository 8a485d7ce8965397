"""Pins: promises, made by anyone without a claim, that nothing a table version names is deleted.

A pin promises something from the end of its create on, and what counts is what its maker reads
after that. A folder shows a file before all its bytes are there: one whose record is cut was never
told to its maker, which may have died, and so promises as little as one not there yet.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from siltstone.core.chunk_names import PINS_PREFIX
from siltstone.core.chunk_storage import ChunkStat
from siltstone.core.environment import Environment
from siltstone.core.errors import ChunkNotFoundError
from siltstone.core.records.envelope import is_cut
from siltstone.core.records.pin import PIN_BYTES, Pin, decode_pin, encode_pin
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.core.storage.listings import listed


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPin:
    """A pin on long-term storage.

    Attributes:
        name: its key.
        length: bytes of its object.
        pin: what it says.
        modified_s: when it was made by the clock of the service, seconds since 1970; 0 if that
            does not tell.
    """

    name: str
    length: int
    pin: Pin
    modified_s: float = 0.0

    def over_ms(self, storage_now_s: float, now_s: float) -> int:
        """For how long it has been over, in milliseconds; below 0 while it is not."""
        pin = self.pin
        return over_ms(pin.expires_ms, pin.ttl_ms, self.modified_s, storage_now_s, now_s)


def over_ms(
    expires_ms: int, ttl_ms: int, modified_s: float, storage_now_s: float, now_s: float
) -> int:
    """For how long something has been over that was made for a time; below 0 while it is not.

    Args:
        expires_ms: its end by the clock of its maker, milliseconds since 1970.
        ttl_ms: for how long it was made; 0: it does not say.
        modified_s: when it was made by the clock of the service, seconds since 1970; 0: unknown.
        storage_now_s: the time by that clock.
        now_s: the time by the clock of this machine.
    """
    if not modified_s:
        return int(now_s * 1000) - expires_ms
    age_ms = int(storage_now_s * 1000) - int(modified_s * 1000)
    # With nothing more, its maker's clock counts; but it cannot be over longer than it is there.
    return age_ms - ttl_ms if ttl_ms else min(int(now_s * 1000) - expires_ms, age_ms)


async def list_pins(storage: AsyncChunkStorage, container: int) -> list[FoundPin]:
    """Return all pins of a container, of whatever lineage and age, by name.

    Raises:
        CorruptDataError: a pin is damaged.
        ChunkError: long-term storage did not answer.
    """
    return [
        found for found in await look_at_pins(storage, container) if isinstance(found, FoundPin)
    ]


async def look_at_pins(storage: AsyncChunkStorage, container: int) -> list[FoundPin | ChunkStat]:
    """Return all pins, and what the service says of those that were never finished.

    Raises what ``list_pins`` raises.
    """
    looked: list[FoundPin | ChunkStat] = []
    async for stat in listed(storage, f"{PINS_PREFIX}{container}-"):
        try:
            # It may have been finished after the listing, and then it promises something.
            data = await storage.read_all(stat.name, max(stat.length, PIN_BYTES))
        except ChunkNotFoundError:
            continue
        if is_cut(data):
            looked.append(stat)
            continue
        pin = decode_pin(bytes(data), where=stat.name)
        found = FoundPin(name=stat.name, length=len(data), pin=pin, modified_s=stat.modified_s)
        looked.append(found)
    return looked


def new_pin(environment: Environment, lineage: bytes, version: int, ttl_s: float) -> Pin:
    """A pin that is made now for ``ttl_s`` seconds, above 0."""
    ttl_ms = max(1, int(ttl_s * 1000))
    expires_ms = int(environment.time() * 1000) + ttl_ms
    return Pin(lineage=lineage, version=version, expires_ms=expires_ms, ttl_ms=ttl_ms)


async def make_pin(
    storage: AsyncChunkStorage, environment: Environment, container: int, pin: Pin
) -> FoundPin:
    """Create a pin, durably. What counts is what is read *after* it: see ``ReadContainer.pin``.

    Raises:
        ChunkError: long-term storage failed. A pin whose outcome is unknown only holds garbage
            until it expires.
    """
    name = f"{PINS_PREFIX}{container}-{environment.uuid().hex()}"
    data = encode_pin(pin)
    await storage.create(name, [data])
    return FoundPin(name=name, length=len(data), pin=pin)


async def renew_pin(
    storage: AsyncChunkStorage,
    environment: Environment,
    container: int,
    old: FoundPin,
    ttl_s: float,
) -> FoundPin:
    """Let a pin of ours hold for ``ttl_s`` seconds from now on: a new one, then the old one goes.

    Raises:
        ChunkError: long-term storage failed; the old pin may still hold.
    """
    pin = new_pin(environment, old.pin.lineage, old.pin.version, ttl_s)
    new = await make_pin(storage, environment, container, pin)
    await remove_pin(storage, old)
    return new


async def remove_pin(storage: AsyncChunkStorage, pin: FoundPin) -> None:
    """Give back a pin of ours: what it held may go. Raises ``ChunkError``."""
    with suppress(ChunkNotFoundError):
        await storage.delete(pin.name)
