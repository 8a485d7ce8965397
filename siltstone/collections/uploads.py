"""A writer with a row: what it uploads can be appended as long as its lease is renewed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Final

from siltstone.collections.part_objects import PartObjects
from siltstone.collections.place import Place
from siltstone.collections.rows.encoded_part import EncodedPart
from siltstone.collections.shared_state import SharedState
from siltstone.collections.state.writers import leave_writer, register_writer, renew_writer
from siltstone.core.errors import BatchExpiredError, SiltstoneError
from siltstone.core.records.collection_batch import CollectionRun
from siltstone.core.records.collection_rows import CollectionWriter

RENEWALS: Final = 3
"""Of a lease in its time: two may fail."""


class Uploads:
    """The right of one name to upload parts. It registers before the first one.

    Args:
        shared: the collection.
        place: where it is.
        name: of the writer.
    """

    def __init__(self, shared: SharedState, place: Place, name: str) -> None:
        self._shared = shared
        self._place = place
        self._objects = PartObjects(place, shared.id)
        self._name = name
        self._row: CollectionWriter | None = None
        self._registering = asyncio.Lock()
        self._renewal: asyncio.Task[None] | None = None

    async def upload(self, parts: Iterator[EncodedPart]) -> CollectionRun:
        """Write parts, which can be appended from now on. See ``PartObjects.upload``.

        Raises:
            CollectionLimitError: there are too many writers.
            CollectionDroppedError: the collection was dropped.
        """
        row = await self._registered()
        born = max(row.hold, self._shared.state.seqno)
        return await self._objects.upload(parts, writer=row.id, born=born)

    async def close(self) -> None:
        """Renew no more. The row stays until its lease ends."""
        if self._renewal is not None:
            self._renewal.cancel()
            with suppress(asyncio.CancelledError):
                await self._renewal
        self._shared.own_writers.discard(self._name)

    async def leave(self) -> None:
        """Give the row up: what was uploaded and not appended can never be appended."""
        await self.close()
        if self._row is not None:
            await self._shared.run(partial(leave_writer, name=self._name))

    async def _registered(self) -> CollectionWriter:
        async with self._registering:
            row = self._row
            if row is not None:
                found = self._shared.state.writers.get(self._name)
                if found is not None and found.id == row.id:
                    return row
            register = partial(
                register_writer,
                name=self._name,
                writer_id=self._place.random_u64(),
                lease_ms=self._place.settings.lease_ms,
                who=self._place.who,
            )
            self._row = row = await self._shared.run(register)
            self._shared.own_writers.add(self._name)
            if self._renewal is None:
                self._renewal = asyncio.ensure_future(self._renew())
            return row

    async def _renew(self) -> None:
        pause_s = self._place.settings.lease_ms / 1000 / RENEWALS
        while True:
            await self._place.environment.sleep(pause_s)
            row = self._row
            assert row is not None, "a writer renews what it registered"
            renew = partial(renew_writer, name=self._name, writer_id=row.id, hold=row.hold)
            try:
                self._row = await self._shared.run(renew)
            except BatchExpiredError:
                self._row = None  # The next upload registers again.
                self._renewal = None
                return
            except SiltstoneError:
                continue  # Storage does not answer; the next time may be early enough.
