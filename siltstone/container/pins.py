"""Pins: promises, made by anyone without a claim, that nothing a table version names is deleted.

A pin promises something from the end of its create on, and what counts is what its maker reads
behind that. A folder shows a file before all of its bytes are there: one whose record is cut was
never told to its maker, and so promises as little as one that is not there yet. He may have died.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from siltstone.core.chunk_names import PINS_PREFIX
from siltstone.core.chunk_storage import ChunkStat
from siltstone.core.environment import Environment
from siltstone.core.errors import ChunkNotFoundError
from siltstone.core.records.envelope import is_cut
from siltstone.core.records.pin import PIN_BYTES, Pin, decode_pin, encode_pin
from siltstone.core.threads import AsyncChunkStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPin:
    """A pin on long-term storage.

    Attributes:
        name: its key.
        length: bytes of its object.
        pin: what it says.
    """

    name: str
    length: int
    pin: Pin


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
    """Return all pins, and of those which were never finished what the service says of them.

    Raises what ``list_pins`` raises.
    """
    looked: list[FoundPin | ChunkStat] = []
    start_after = ""
    while page := await storage.list(f"{PINS_PREFIX}{container}-", start_after):
        start_after = page[-1].name
        for stat in page:
            try:
                # It may have been finished behind the listing, and then it promises something.
                data = await storage.read_all(stat.name, max(stat.length, PIN_BYTES))
            except ChunkNotFoundError:
                continue
            if is_cut(data):
                looked.append(stat)
                continue
            pin = decode_pin(bytes(data), where=stat.name)
            looked.append(FoundPin(name=stat.name, length=len(data), pin=pin))
    return looked


async def living_pins(
    storage: AsyncChunkStorage, environment: Environment, container: int, lineage: bytes
) -> list[FoundPin]:
    """Return the pins that promise something now.

    A pin of another lineage promises nothing: its table versions are of another table log.

    Raises:
        CorruptDataError: a pin is damaged; then nothing may be deleted.
        ChunkError: long-term storage did not answer.
    """
    now_ms = environment.time() * 1000
    return [
        found
        for found in await list_pins(storage, container)
        if found.pin.lineage == lineage and found.pin.expires_ms > now_ms
    ]


async def oldest_pin(
    storage: AsyncChunkStorage, environment: Environment, container: int, lineage: bytes
) -> int | None:
    """Return the oldest table version that an unexpired pin promises, ``None`` without pins.

    Raises what ``living_pins`` raises.
    """
    pins = await living_pins(storage, environment, container, lineage)
    return min((found.pin.version for found in pins), default=None)


async def make_pin(
    storage: AsyncChunkStorage, environment: Environment, container: int, pin: Pin
) -> FoundPin:
    """Create a pin, durably. What counts is what is read *behind* it: see ``ReadContainer.pin``.

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
    expires_ms = int((environment.time() + ttl_s) * 1000)
    new = await make_pin(storage, environment, container, replace(old.pin, expires_ms=expires_ms))
    await remove_pin(storage, old)
    return new


async def remove_pin(storage: AsyncChunkStorage, pin: FoundPin) -> None:
    """Give back a pin of ours: what it held may go. Raises ``ChunkError``."""
    with suppress(ChunkNotFoundError):
        await storage.delete(pin.name)
