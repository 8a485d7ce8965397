"""The calls of a read-only container that keep what it shows from being deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from siltstone.container.pins import FoundPin, make_pin, remove_pin, renew_pin
from siltstone.core.environment import Environment
from siltstone.core.errors import StoreError
from siltstone.core.records.pin import Pin
from siltstone.core.threads import AsyncChunkStorage

if TYPE_CHECKING:
    from siltstone.container.view import View

_TRIES: Final = 3


class ReaderPins:
    """How a read-only container keeps chunks for whoever reads them; part of ``ReadContainer``."""

    _container: int
    _environment: Environment
    _storage: AsyncChunkStorage

    if TYPE_CHECKING:

        def _current(self) -> View: ...

    async def refresh(self) -> None:
        """See what was acknowledged since."""
        raise NotImplementedError

    async def pin(self, ttl_s: float) -> FoundPin:
        """Keep every chunk that this container shows from now on, for ``ttl_s`` seconds.

        The pin names the version that was shown before it. Whoever deletes lists the pins after a
        drop was acknowledged, and what was acknowledged before the pin is seen by the look behind
        it; so nothing that is shown afterwards goes while the pin lives.

        Raises:
            ChunkError: long-term storage did not answer, or refuses to create anything.
            StoreError: another lineage came, again and again.
        """
        for _ in range(_TRIES):
            view = self._current()
            pin = Pin(
                lineage=view.where.lineage,
                version=view.replica.tables.applied_version,
                expires_ms=int((self._environment.time() + ttl_s) * 1000),
            )
            made = await make_pin(self._storage, self._environment, self._container, pin)
            await self.refresh()
            if self._current().where.lineage == pin.lineage:
                return made
            await self.unpin(made)
        raise StoreError("the container was made anew while it was pinned", tries=_TRIES)

    async def renew(self, pin: FoundPin, ttl_s: float) -> FoundPin:
        """Let a pin hold for ``ttl_s`` seconds from now on; use what is returned instead of it."""
        return await renew_pin(self._storage, self._environment, self._container, pin, ttl_s)

    async def unpin(self, pin: FoundPin) -> None:
        """Give a pin back: what it held may go."""
        await remove_pin(self._storage, pin)
