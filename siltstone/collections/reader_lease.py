"""A reader with a row: the parts that it holds stay, and times that it still needs."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial

from siltstone.collections.place import Place
from siltstone.collections.shared_state import SharedState
from siltstone.collections.state.readers import leave_reader, register_reader, renew_reader
from siltstone.collections.uploads import RENEWALS
from siltstone.core.errors import CollectionError, LeaseExpiredError, SiltstoneError


class ReaderLease:
    """The row of one reader, which is renewed until ``close``. Made by ``held``.

    Args:
        shared: the collection.
        place: where it is.
        reader_id: of the row.
        since: what the reader needs, a frontier.
        hold: the seqno from which on it needs every part.
    """

    def __init__(
        self, shared: SharedState, place: Place, reader_id: int, since: int, hold: int
    ) -> None:
        self._shared = shared
        self._place = place
        self.id = reader_id
        self._since = since
        self._hold = hold
        self._ended = False
        self._renewal = asyncio.ensure_future(self._renew())

    @classmethod
    async def held(cls, shared: SharedState, place: Place, since: int) -> ReaderLease:
        """Begin to hold all parts, and times from ``since`` on.

        Raises:
            SinceError: ``since`` is below that of the collection.
            CollectionLimitError: there are too many readers.
        """
        reader_id = place.random_u64()
        row = await shared.run(
            partial(
                register_reader,
                reader_id=reader_id,
                since=since,
                lease_ms=place.settings.lease_ms,
                who=place.who,
            )
        )
        shared.own_readers.add(reader_id)
        return cls(shared, place, reader_id, row.since, row.hold)

    @property
    def hold(self) -> int:
        """The seqno from which on every part is there."""
        return self._hold

    def advance(self, *, since: int, hold: int) -> None:
        """Need less from the next renewal on: both move forward only."""
        self._since = max(self._since, since)
        self._hold = max(self._hold, hold)

    def check(self) -> None:
        """Raise ``LeaseExpiredError`` if a committed entry said that the lease had ended."""
        if self._ended or self.id not in self._shared.state.readers:
            raise LeaseExpiredError(
                "lease of the reader ended", collection=self._shared.id.hex(), reader=f"{self.id:x}"
            )

    async def close(self) -> None:
        """Hold nothing any more. Idempotent."""
        self._renewal.cancel()
        with suppress(asyncio.CancelledError):
            await self._renewal
        if self.id in self._shared.own_readers:
            self._shared.own_readers.discard(self.id)
            with suppress(SiltstoneError):  # The row ends with its lease.
                await self._shared.run(partial(leave_reader, reader_id=self.id))

    async def _renew(self) -> None:
        pause_s = self._place.settings.lease_ms / 1000 / RENEWALS
        while True:
            await self._place.environment.sleep(pause_s)
            renew = partial(renew_reader, reader_id=self.id, since=self._since, hold=self._hold)
            try:
                await self._shared.run(renew)
            except CollectionError:
                self._ended = True
                return
            except SiltstoneError:
                continue  # Storage does not answer; the next time may be early enough.
