"""Rows of writers, by which this process may upload parts: one for each append or batch.

What is appended moves the hold of its row past its parts, so that they count once. Two appends
with one row would end each other. A row that is not used holds nothing for long: it is given up, or
another append gets it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from siltstone.collections.part_objects import PartObjects
from siltstone.collections.place import CollectionPlace
from siltstone.collections.rows.encoded_part import EncodedPart
from siltstone.collections.shared_state import SharedState
from siltstone.collections.state.writers import leave_writer, register_writer, renew_writer
from siltstone.core.errors import CollectionError, SiltstoneError
from siltstone.core.records.collection_batch import CollectionRun

RENEWALS: Final = 3
"""Of a lease in its time: two may fail."""


@dataclass(slots=True, eq=False)
class UploadRow:
    """The row of a writer, while one append or one batch has it.

    Attributes:
        name: of the writer, random.
        id: of the writer, in the names of its parts.
        born: what its parts have in their names; they can be appended while its hold is not above.
        is_used: whether it was used since it was last renewed.
    """

    name: str
    id: int
    born: int
    is_used: bool = True


class Uploads:
    """All rows of this process that upload to one collection. Used on one loop.

    Args:
        shared: the collection.
        place: where it is.
    """

    def __init__(self, shared: SharedState, place: CollectionPlace) -> None:
        self._shared = shared
        self._place = place
        self._objects = PartObjects(place, shared.id)
        self._idle: list[UploadRow] = []
        self._busy: list[UploadRow] = []
        self._batches: list[UploadRow] = []
        self._renewal: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[UploadRow]:
        """Have a row for one append, and its parts held for that time.

        Raises:
            CollectionLimitError: there are too many writers.
            CollectionDroppedError: the collection was dropped.
            ChunkError: long-term storage did not answer.
        """
        row = await self._take()
        try:
            yield row
        finally:
            if row in self._busy:
                self._busy.remove(row)
                self._idle.append(row)

    async def upload(
        self, row: UploadRow, parts: Iterator[EncodedPart] | list[EncodedPart]
    ) -> CollectionRun:
        """Write parts, which can be appended from now on. See ``PartObjects.upload``."""
        return await self._objects.upload(parts, writer=row.id, born=row.born)

    def keep(self, row: UploadRow) -> None:
        """Hold what was uploaded until it was appended, by any process, or until ``close``."""
        self._busy.remove(row)
        self._batches.append(row)

    async def end(self, row: UploadRow) -> None:
        """Give up a row: what was uploaded by it and not appended can never be appended."""
        self._forget(row)
        await self._shared.run(partial(leave_writer, name=row.name))

    async def end_idle(self) -> None:
        """Give up the rows that no append and no batch has."""
        self._free_batches()
        idle, self._idle = self._idle, []
        await asyncio.gather(*map(self._ended, idle))

    async def close(self) -> None:
        """Renew nothing more, and give up what holds no batch. Idempotent."""
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.wait([self._renewal])
        await self.end_idle()
        for row in list(self._batches):
            self._forget(row)

    async def _take(self) -> UploadRow:
        row = self._reused() or await self._registered()
        self._busy.append(row)
        if self._renewal is None or self._renewal.done():
            self._renewal = asyncio.ensure_future(self._renew())
        return row

    def _reused(self) -> UploadRow | None:
        self._free_batches()
        while self._idle:
            row = self._idle.pop()
            found = self._shared.state.writers.get(row.name)
            if found is not None and found.id == row.id:
                row.born, row.is_used = max(found.hold, self._shared.state.seqno), True
                return row
            self._forget(row)
        return None

    async def _registered(self) -> UploadRow:
        writer_id = self._place.random_u64()
        name = f"upload-{writer_id:016x}"
        self._shared.own_writers.add(name)
        try:
            found = await self._shared.run(
                partial(
                    register_writer,
                    name=name,
                    writer_id=writer_id,
                    lease_ms=self._place.settings.lease_ms,
                    who=self._place.who,
                )
            )
        except BaseException:
            self._shared.own_writers.discard(name)
            raise
        return UploadRow(name=name, id=writer_id, born=found.hold)

    def _free_batches(self) -> None:
        """Let go of the rows of batches that were appended, or no longer can be."""
        for row in list(self._batches):
            found = self._shared.state.writers.get(row.name)
            if found is None or found.hold > row.born:
                self._batches.remove(row)
                self._idle.append(row)

    def _forget(self, row: UploadRow) -> None:
        self._shared.own_writers.discard(row.name)
        for rows in (self._idle, self._busy, self._batches):
            if row in rows:
                rows.remove(row)

    async def _renew(self) -> None:
        pause_s = self._place.settings.lease_ms / 1000 / RENEWALS
        while self._idle or self._busy or self._batches:
            await self._place.environment.sleep(pause_s)
            self._free_batches()
            unused = [row for row in self._idle if not row.is_used]
            for row in self._idle:
                row.is_used = False
            for row in unused:
                self._idle.remove(row)  # No append may get it while it is given up.
            kept = [*self._idle, *self._busy, *self._batches]
            await asyncio.gather(*map(self._ended, unused), *map(self._renewed, kept))

    async def _ended(self, row: UploadRow) -> None:
        with suppress(SiltstoneError):  # It ends with its lease.
            await self.end(row)

    async def _renewed(self, row: UploadRow) -> None:
        renew = partial(renew_writer, name=row.name, writer_id=row.id, hold=row.born)
        try:
            await self._shared.run(renew)
        except CollectionError:
            self._forget(row)  # An append that has it is refused, and gets another one.
        except SiltstoneError:
            return  # Storage does not answer; the next time may be early enough.
