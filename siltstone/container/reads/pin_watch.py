"""Which pins still promise something, without comparing the clocks of two machines.

A pin says for how long it was made. An owner dates that from when it first saw the pin, by a clock
that cannot be set; so a pin lives for its whole time, whatever the clocks of its maker and of the
owner say. An owner that has just opened the container has not seen any pin before; for it the age
of a pin is told by long-term storage alone, which dated both the pin and the owner's claim. A day
more passes then, since storage on a disk of this machine has the clock of this machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from siltstone.container.reads.pins import FoundPin, list_pins
from siltstone.core.chunk_names import claim_file
from siltstone.core.environment import Environment
from siltstone.core.errors import ChunkNotFoundError
from siltstone.core.storage.async_storage import AsyncChunkStorage

GRACE_S: Final = 24 * 3600.0
"""By the clock of storage a pin has to be this much older than its time."""


class StorageClock:
    """The time by the clock of long-term storage, as far as that tells.

    Attributes:
        is_owners: whether it goes by the claim of an owner.

    Args:
        storage: long-term storage.
        environment: gives the time.
        claim: name of the claim that is made about now; ``None`` for a caller that makes none. Then
            it is the time of this machine.
    """

    def __init__(
        self, storage: AsyncChunkStorage, environment: Environment, claim: str | None
    ) -> None:
        self._storage = storage
        self._environment = environment
        self._claim = claim
        self.is_owners = claim is not None
        self._made_s = environment.monotonic()
        self._claimed_s: float | None = None

    async def now_s(self) -> float:
        """Seconds since 1970, but for the few seconds of a boot.

        Raises:
            ChunkError: long-term storage did not answer.
        """
        if self._claim is not None and self._claimed_s is None:
            try:
                self._claimed_s = (await self._storage.stat(self._claim)).modified_s
            except ChunkNotFoundError:
                self._claimed_s = 0.0  # a newer owner removed it
        if not self._claimed_s:
            return self._environment.time()
        return self._claimed_s + self._environment.monotonic() - self._made_s


class PinWatch:
    """The pins of a container as one owner or reader sees them.

    Attributes:
        clock: that of long-term storage.
    """

    def __init__(
        self,
        storage: AsyncChunkStorage,
        environment: Environment,
        container: int,
        claimed_epoch: int | None,
    ) -> None:
        claim = None if claimed_epoch is None else claim_file(container, claimed_epoch)
        self.clock = StorageClock(storage, environment, claim)
        self._storage = storage
        self._environment = environment
        self._container = container
        self._seen_s: dict[str, float] = {}

    async def living(self, lineage: bytes) -> list[FoundPin]:
        """Return the pins that promise something now.

        A pin of another lineage promises nothing: its table versions are of another table log.

        Raises:
            CorruptDataError: a pin is damaged; then nothing may be deleted.
            ChunkError: long-term storage did not answer.
        """
        found = await list_pins(self._storage, self._container)
        self._note(found)
        now_s = await self.clock.now_s() if found else 0.0
        return [one for one in found if one.pin.lineage == lineage and self._lives(one, now_s)]

    async def oldest(self, lineage: bytes) -> int | None:
        """Return the oldest table version that a living pin promises, ``None`` without pins.

        Raises what ``living`` raises.
        """
        return min((found.pin.version for found in await self.living(lineage)), default=None)

    def _note(self, found: Sequence[FoundPin]) -> None:
        """Remember since when each pin has been seen, and forget those that are gone."""
        now_s = self._environment.monotonic()
        self._seen_s = {one.name: self._seen_s.get(one.name, now_s) for one in found}

    def _lives(self, found: FoundPin, storage_now_s: float) -> bool:
        pin, now_s = found.pin, self._environment.time()
        if not pin.ttl_ms:
            return pin.expires_ms > int(now_s * 1000)
        over_ms = found.over_ms(storage_now_s, now_s)
        if not self.clock.is_owners:
            return over_ms < 0
        seen_s = self._environment.monotonic() - self._seen_s[found.name]
        return seen_s * 1000 < pin.ttl_ms and over_ms < GRACE_S * 1000
