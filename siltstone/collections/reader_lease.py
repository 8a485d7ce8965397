"""A reader with a row: the parts that it holds stay, and times that it still needs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from siltstone.collections.place import CollectionPlace
from siltstone.collections.shared_state import SharedState
from siltstone.collections.state.readers import leave_reader, register_reader, renew_reader
from siltstone.collections.state.refusals import check_open
from siltstone.collections.uploads import RENEWALS
from siltstone.core.errors import ClosedError, CollectionError, LeaseExpiredError, SiltstoneError
from siltstone.core.metrics import COLLECTION_LEASE_LOSSES
from siltstone.core.records.collection_rows import CollectionReader
from siltstone.core.records.collection_state import CollectionState


class ReaderLease:
    """The row of one reader, which is renewed until ``close``. Made by ``held``.

    A reader that is at rest holds no part: it will read a state that is not older than the newest
    one. While it reads a state, it holds what that one names.

    Args:
        shared: the collection.
        place: where it is.
        row: as it was registered.
        seqno: of the state that is read; ``None`` at rest.

    Attributes:
        id: of the row.
        since: the frontier that the since of the collection does not pass.
        is_closed: whether ``close`` was called.
    """

    def __init__(
        self, shared: SharedState, place: CollectionPlace, row: CollectionReader, seqno: int | None
    ) -> None:
        self._shared = shared
        self._place = place
        self.id = row.id
        self.since = row.since
        self._reads = seqno
        self.is_closed = False
        self._ended = False
        self._renewal = asyncio.ensure_future(self._renew())

    @classmethod
    async def held(
        cls,
        shared: SharedState,
        place: CollectionPlace,
        since: Callable[[CollectionState], int],
        *,
        reads: bool,
        reader_id: int | None = None,
    ) -> ReaderLease:
        """Begin to hold all parts, and times from one on.

        Args:
            shared: the collection.
            place: where it is.
            since: chooses the time by the state in which the row is made.
            reads: whether the state that it is made in is read from now on; else it is at rest.
            reader_id: of the row, which is taken over where it is there; ``None`` makes a new one.

        Raises:
            SinceError: the time is below the since of the collection.
            CollectionLimitError: there are too many readers.
        """
        own_id = place.random_u64() if reader_id is None else reader_id

        def register(
            state: CollectionState, now_ms: int
        ) -> tuple[CollectionState, CollectionReader]:
            return register_reader(
                state,
                now_ms,
                reader_id=own_id,
                since=since(state),
                lease_ms=place.settings.lease_ms,
                who=place.who,
            )

        shared.own_readers.add(own_id)
        try:
            row = await shared.run(register)
        except BaseException:
            shared.own_readers.discard(own_id)
            raise
        return cls(shared, place, row, row.hold if reads else None)

    def begin(self, state: CollectionState) -> None:
        """Read a state from now on, which is not older than those before."""
        self._reads = state.seqno

    def rest(self) -> None:
        """Read nothing until ``begin``."""
        self._reads = None

    def advance(self, since: int) -> None:
        """Need no times below ``since`` any more, from the next renewal on."""
        self.since = max(self.since, since)

    def check(self) -> None:
        """Check that no committed entry ended the lease, as far as this process knows.

        Raises:
            LeaseExpiredError: it ended.
            CollectionDroppedError: the collection was dropped.
        """
        check_open(self._shared.state)
        if self._ended or self.id not in self._shared.state.readers:
            raise LeaseExpiredError(
                "lease of the reader ended", collection=self._shared.id.hex(), reader=f"{self.id:x}"
            )

    async def close(self) -> None:
        """Hold nothing any more. Idempotent."""
        self.is_closed = True
        self._renewal.cancel()
        await asyncio.wait([self._renewal])
        if self.id in self._shared.own_readers:
            self._shared.own_readers.discard(self.id)
            with suppress(SiltstoneError):  # The row ends with its lease.
                await self._shared.run(partial(leave_reader, reader_id=self.id))

    async def _renew(self) -> None:
        pause_s = self._place.settings.lease_ms / 1000 / RENEWALS
        while True:
            await self._place.environment.sleep(pause_s)
            hold = self._shared.state.seqno if self._reads is None else self._reads
            renew = partial(renew_reader, reader_id=self.id, since=self.since, hold=hold)
            try:
                await self._shared.run(renew)
            except (ClosedError, CollectionError) as error:
                self._ended = True
                if isinstance(error, LeaseExpiredError):
                    self._place.meter(self._shared.id).count(COLLECTION_LEASE_LOSSES)
                return
            except SiltstoneError:
                continue  # Storage does not answer; the next time may be early enough.
