"""The objects of parts: written under names that were never used, read, and deleted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from siltstone.collections.consensus.object_names import collection_prefix
from siltstone.collections.part_puts import put_part
from siltstone.collections.place import CollectionPlace
from siltstone.collections.rows.encoded_part import EncodedPart
from siltstone.collections.rows.stored_run import Piece
from siltstone.collections.state.part_names import (
    PartName,
    name_of_part,
    part_key,
    part_name,
    parts_prefix,
)
from siltstone.core.errors import (
    ChunkError,
    CorruptDataError,
)
from siltstone.core.records.collection_batch import CollectionBatch, CollectionRun
from siltstone.core.records.collection_part import CollectionPart
from siltstone.core.storage.optional_verbs import LEFTOVER_S, delete_many, sweep_leftovers

_log = logging.getLogger(__name__)

UPLOADS_MAX: Final = 2
"""Parts of one append that are written at the same time: each is in memory as a whole."""

DELETES_MAX: Final = 1_000
"""Names of one call."""


def pieces_of(collection_id: bytes, batches: Iterable[CollectionBatch]) -> list[list[Piece]]:
    """Return the runs of batches as pieces, each with the name of its object."""
    return [
        [_piece(collection_id, part) for part in run] for batch in batches for run in batch.runs
    ]


def _piece(collection_id: bytes, part: CollectionPart) -> Piece:
    name = "" if part.inline is not None else part_key(collection_id, name_of_part(part))
    return Piece(part=part, name=name)


class PartObjects:
    """The objects of the parts of one collection.

    Args:
        place: where they are.
        collection_id: 16 bytes.
    """

    def __init__(self, place: CollectionPlace, collection_id: bytes) -> None:
        self._place = place
        self._id = collection_id

    async def upload(
        self, parts: Iterator[EncodedPart] | list[EncodedPart], *, writer: int, born: int
    ) -> CollectionRun:
        """Write parts as they are made, and return their rows in that order.

        Args:
            parts: what was encoded; or blocking, encodes one after the other.
            writer: id of a registered writer.
            born: a seqno that is not below its hold, and that was seen.

        Raises:
            ChunkError: a part could not be written. What was written, the sweep deletes.
        """
        rows: list[CollectionPart] = []
        tasks: list[asyncio.Task[CollectionPart]] = []
        try:
            async with asyncio.TaskGroup() as group:
                gate = asyncio.Semaphore(UPLOADS_MAX)
                made = iter(parts)
                while True:
                    await gate.acquire()
                    if made is parts:
                        encoded = await self._place.work(lambda: next(made, None))
                    else:
                        encoded = next(made, None)
                    if encoded is None:
                        break
                    number = len(tasks)
                    put = self._put(encoded, writer, born, number, gate)
                    tasks.append(group.create_task(put))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        rows = [task.result() for task in tasks]
        return tuple(rows)

    async def _put(
        self, encoded: EncodedPart, writer: int, born: int, number: int, gate: asyncio.Semaphore
    ) -> CollectionPart:
        try:
            if encoded.part.inline is not None:
                return encoded.part
            place = self._place
            return await place.ask(
                partial(
                    put_part,
                    place.storage,
                    self._id,
                    replace(encoded.part, writer=writer, born=born, number=number),
                    encoded.buffers,
                    place.environment,
                )
            )
        finally:
            gate.release()

    async def discard(self, runs: Iterable[CollectionRun]) -> None:
        """Delete what was uploaded, and is known to be in no state, now or later.

        What cannot be deleted, the sweep deletes.
        """
        names = [name_of_part(part) for run in runs for part in run if part.inline is None]
        with suppress(ChunkError):
            await self.delete(names)

    async def delete(self, names: Sequence[PartName]) -> None:
        """Delete objects; those that are gone already are no failure.

        Raises:
            ChunkError: one of them may still be there.
        """
        keys = [part_key(self._id, name) for name in names]
        for start in range(0, len(keys), DELETES_MAX):
            some = keys[start : start + DELETES_MAX]
            failed = await self._place.ask(partial(delete_many, self._place.storage, some))
            if failed:
                raise next(iter(failed.values()))

    async def listed(self) -> tuple[list[PartName], list[str]]:
        """Return the names of all objects of parts, and what else is there."""
        return await self._place.ask(self._listed)

    async def sweep_leftovers(self) -> int:
        """Delete what creates of any object of the collection left; return how many there were."""
        return await leftovers_swept(self._place, collection_prefix(self._id))

    def _listed(self) -> tuple[list[PartName], list[str]]:
        names, foreign = [], []
        for stat in self._place.storage.list(parts_prefix(self._id)):
            try:
                names.append(part_name(stat.name))
            except CorruptDataError:
                foreign.append(stat.name)
        return names, foreign


async def leftovers_swept(place: CollectionPlace, prefix: str) -> int:
    """Delete what creates below ``prefix`` left a day ago; return how many there were."""
    try:
        return await place.ask(partial(sweep_leftovers, place.storage, prefix, LEFTOVER_S))
    except ChunkError as error:
        # A right may be missing that nothing else needs.
        _log.warning("unfinished uploads below %s cannot be removed: %s", prefix, error)
        return 0
