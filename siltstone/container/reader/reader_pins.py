"""The calls of a read-only container that keep what it shows from being deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.container.reads.pinned_maps import PinCalls
from siltstone.container.reads.pins import FoundPin, remove_pin, renew_pin

if TYPE_CHECKING:
    from siltstone.container.reader.reader_view import View


class ReaderPins(PinCalls):
    """How a read-only container keeps chunks for whoever reads them; part of ``ReadContainer``."""

    if TYPE_CHECKING:

        def _current(self) -> View: ...

    async def pin(self, ttl_s: float) -> FoundPin:
        """Keep every chunk that this container shows from now on, for ``ttl_s`` seconds.

        The pin names the version that was shown before it. Whoever deletes lists the pins after a
        drop was acknowledged, and what was acknowledged before the pin is seen by the look behind
        it; so nothing that is shown afterwards goes while the pin lives.

        Raises:
            ChunkError: long-term storage did not answer, or refuses to create anything.
            StoreError: another lineage came, again and again.
        """
        async with self._behind_pin(self._current().reading, ttl_s) as (made, _):
            return made

    async def renew(self, pin: FoundPin, ttl_s: float) -> FoundPin:
        """Let a pin hold for ``ttl_s`` seconds from now on; use what is returned instead of it."""
        index, storage, environment = self._pin_place()
        return await renew_pin(storage, environment, index, pin, ttl_s)

    async def unpin(self, pin: FoundPin) -> None:
        """Give a pin back: what it held may go."""
        await remove_pin(self._pin_place()[1], pin)
