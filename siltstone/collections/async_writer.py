"""Appends of rows: exactly once by writer and sequence, inline or uploaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import pyarrow

from siltstone.collections.place import Place
from siltstone.collections.rows.encode_parts import INLINE_BYTES, encode_updates
from siltstone.collections.rows.encoded_part import EncodedPart
from siltstone.collections.rows.input_rows import Rows, table_of_changes, table_of_updates
from siltstone.collections.rows.row_schema import RowSchema
from siltstone.collections.shared_state import SharedState
from siltstone.collections.state.appends import (
    Appended,
    CollectionAppend,
    appends_wait,
    compare_and_append,
)
from siltstone.collections.stored_schema import row_schema_of
from siltstone.collections.uploads import Uploads
from siltstone.core.errors import InlineLimitError, OutcomeUnknownError
from siltstone.core.records.collection_batch import CollectionRun
from siltstone.core.records.collection_rows import NO_SEQUENCE
from siltstone.core.records.collection_state import CollectionState

UNNAMED_LEASE_MS: Final = 60 * 60 * 1000
"""How long the last sequence of a writer without a name is known after an append."""

PRESSURE_S: Final = 30.0
"""How long an append waits for a compaction when there are very many batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendResult:
    """An append that counts once.

    Attributes:
        time: of the rows, where the append did not say any; else the last time below ``upper``.
        upper: of the collection after it.
        repeated: an earlier call with this writer and sequence had made the append.
    """

    time: int
    upper: int
    repeated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionBatchRows:
    """Rows that were uploaded, to be appended by any process. It pickles.

    Attributes:
        collection_id: 16 bytes.
        runs: their parts.
    """

    collection_id: bytes
    runs: tuple[CollectionRun, ...]


class AsyncCollectionWriter:
    """Appends under one name. Made by ``AsyncCollection.writer``; used on one loop.

    Args:
        shared: the collection.
        place: where it is.
        name: of the writer, the same in each process that continues its work.
        lease_ms: how long its last sequence is known; 0 means for ever.
    """

    def __init__(self, shared: SharedState, place: Place, name: str, *, lease_ms: int) -> None:
        self._shared = shared
        self._place = place
        self._lease_ms = lease_ms
        # A row that lives for ever would keep all garbage, so uploads have a row of their own.
        uploader = name if lease_ms else f"upload-{place.random_u64():016x}"
        self._uploads = Uploads(shared, place, uploader)
        self.name = name

    @property
    def sequence(self) -> int:
        """The last sequence that this process knows of; -1 before the first append."""
        row = self._shared.state.writers.get(self.name)
        return NO_SEQUENCE if row is None else row.sequence

    async def append(
        self,
        rows: Rows,
        *,
        sequence: int | None,
        remove: Rows | None = None,
        expected_upper: int | None = None,
    ) -> AppendResult:
        """Append rows, and take others away, at one time, which they get as they are committed."""
        make = partial(_changes, rows=rows, remove=remove)
        return await self._append(make, sequence, expected=expected_upper, new=None)

    async def compare_and_append(
        self, updates: Rows, *, expected_upper: int, new_upper: int, sequence: int | None
    ) -> AppendResult:
        """Append updates with their own times, and complete those below ``new_upper``."""
        make = partial(_updates, rows=updates)
        return await self._append(make, sequence, expected=expected_upper, new=new_upper)

    async def batch(self, rows: Rows, remove: Rows | None = None) -> CollectionBatchRows:
        """Upload rows without appending them."""
        schema_id, schema = row_schema_of(self._shared.state)
        table = await self._place.work(lambda: _changes(schema, rows=rows, remove=remove))
        runs = await self._uploaded(table, schema_id, schema)
        return CollectionBatchRows(collection_id=self._shared.id, runs=runs)

    async def append_batches(
        self,
        batches: Sequence[CollectionBatchRows],
        *,
        sequence: int | None,
        expected_upper: int | None = None,
    ) -> AppendResult:
        """Append what was uploaded, by whomever, at one time."""
        for batch in batches:
            if batch.collection_id != self._shared.id:
                raise ValueError("a batch of another collection")
        runs = tuple(run for batch in batches for run in batch.runs)
        return await self._commit(runs, sequence, expected=expected_upper, new=None)

    async def close(self) -> None:
        """Renew nothing any more. Idempotent."""
        await self._uploads.close()

    async def leave(self) -> None:
        """Give up what was uploaded and not appended."""
        await self._uploads.leave()

    async def _append(
        self,
        make: Callable[[RowSchema], pyarrow.Table],
        sequence: int | None,
        *,
        expected: int | None,
        new: int | None,
    ) -> AppendResult:
        schema_id, schema = row_schema_of(self._shared.state)
        table = await self._place.work(lambda: make(schema))
        few = None
        if table.nbytes <= 2 * INLINE_BYTES:
            few = await self._place.work(lambda: _inline(encode_updates(table, schema, schema_id)))
        if few is not None:
            try:
                return await self._commit(few, sequence, expected=expected, new=new)
            except InlineLimitError:
                pass
        runs = await self._uploaded(table, schema_id, schema)
        return await self._commit(runs, sequence, expected=expected, new=new)

    async def _uploaded(
        self, table: pyarrow.Table, schema_id: int, schema: RowSchema
    ) -> tuple[CollectionRun, ...]:
        parts = encode_updates(
            table, schema, schema_id, part_size=self._place.settings.part_bytes, inline=False
        )
        run = await self._uploads.upload(parts)
        return (run,) if run else ()

    async def _commit(
        self,
        runs: tuple[CollectionRun, ...],
        sequence: int | None,
        *,
        expected: int | None,
        new: int | None,
    ) -> AppendResult:
        if appends_wait(self._shared.state):
            await self._wait_for_room()
        append = CollectionAppend(
            writer=self.name,
            sequence=0 if sequence is None else sequence,
            runs=runs,
            expected=expected,
            new=new,
            lease_ms=self._lease_ms,
            who=self._place.who,
        )
        once = _Once(append, chooses=sequence is None)
        try:
            done = await self._shared.run(once.command, once.is_done)
        except OutcomeUnknownError as error:
            raise OutcomeUnknownError(
                "whether the append was made is not known; repeat it with this sequence",
                writer=self.name,
                sequence=once.sequence,
            ) from error
        return AppendResult(time=max(0, done.upper - 1), upper=done.upper, repeated=done.repeated)

    async def _wait_for_room(self) -> None:
        try:
            await self._shared.wait_for(lambda state: not appends_wait(state), PRESSURE_S)
        except TimeoutError:
            return  # The append itself refuses when there is no room at all.


class _Once:
    """One append, however often it is tried.

    Args:
        append: what to append.
        chooses: whether it takes the sequence after the writer's last one.
    """

    def __init__(self, append: CollectionAppend, *, chooses: bool) -> None:
        self._append = append
        self._chooses = chooses

    @property
    def sequence(self) -> int:
        """Of the last try."""
        return self._append.sequence

    def command(self, state: CollectionState, now_ms: int) -> tuple[CollectionState, Appended]:
        """Run it."""
        if self._chooses:
            row = state.writers.get(self._append.writer)
            last = NO_SEQUENCE if row is None else row.sequence
            self._append = replace(self._append, sequence=last + 1)
        return compare_and_append(state, now_ms, append=self._append)

    def is_done(self, state: CollectionState) -> bool | None:
        """Whether the row of the writer tells that the last try counted."""
        row = state.writers.get(self._append.writer)
        return None if row is None else row.sequence >= self._append.sequence


def _changes(schema: RowSchema, rows: Rows, remove: Rows | None) -> pyarrow.Table:
    return table_of_changes(schema, rows, remove)


def _updates(schema: RowSchema, rows: Rows) -> pyarrow.Table:
    return table_of_updates(schema, rows)


def _inline(parts: Iterator[EncodedPart]) -> tuple[CollectionRun, ...] | None:
    """The run of an append that fits into the state; ``None`` where it has to be uploaded."""
    first = next(parts, None)
    if first is None:
        return ()
    return ((first.part,),) if first.part.inline is not None else None
