"""Appends of rows: exactly once by writer and sequence, inline or uploaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from operator import index
from typing import Final

import pyarrow

from siltstone.collections.part_objects import PartObjects
from siltstone.collections.place import CollectionPlace
from siltstone.collections.read_times import whole
from siltstone.collections.rows.encode_parts import encode_updates, is_within
from siltstone.collections.rows.encoded_part import EncodedPart
from siltstone.collections.rows.input_rows import Rows, are_few, table_of_changes, table_of_updates
from siltstone.collections.rows.part_file import GROUP_BYTES
from siltstone.collections.rows.row_schema import RowSchema
from siltstone.collections.shared_state import SharedState
from siltstone.collections.state.appends import (
    Appended,
    CollectionAppend,
    appends_wait,
    compare_and_append,
)
from siltstone.collections.state.next_state import lease_ended
from siltstone.collections.state.refusals import check_open
from siltstone.collections.stored_schema import row_schema_of
from siltstone.collections.uploads import UploadRow, Uploads
from siltstone.core.errors import (
    BatchExpiredError,
    CollectionSchemaError,
    InlineLimitError,
    Outcome,
    OutcomeUnknownError,
    SiltstoneError,
)
from siltstone.core.metrics import COLLECTION_APPENDS, COLLECTION_ROWS
from siltstone.core.records.collection_batch import CollectionRun
from siltstone.core.records.collection_frontier import TIME_MAX
from siltstone.core.records.collection_rows import NO_SEQUENCE
from siltstone.core.records.collection_state import CollectionState, Life
from siltstone.core.records.record_copy import copied

UNNAMED_LEASE_MS: Final = 60 * 60 * 1000
"""How long the last sequence of a writer without a name is known after an append."""

FRESH_S: Final = 1.0
"""How old the state may be that a writer without a row appends to. Others free no entry so soon."""

PRESSURE_S: Final = 30.0
"""How long an append waits for a compaction when there are very many batches."""

UPLOADS_TRIED_MAX: Final = 3
"""Of one append. Each after the first means that a lease ended while it was on its way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendResult:
    """An append that counts once.

    Attributes:
        time: of the rows, where the append did not say any; else the last time below ``upper``.
        upper: of the collection after it; 2^64 - 1 if no time is left.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """An append but for its rows.

    Attributes:
        sequence: of the writer; ``None``: the next one, of a writer without a name.
        expected: the upper that the collection has to have; ``None`` takes any.
        new: the upper that it gets; ``None``: that after the time of the commit.
    """

    sequence: int | None
    expected: int | None
    new: int | None = None


@dataclass(frozen=True, slots=True)
class _Made:
    """Rows of an append.

    Attributes:
        table: the rows, as updates.
        schema_id: of their schema.
        schema: the same.
        few: the run that they are, where they fit into the state; ``None`` where they have to be
            uploaded.
        parts: the objects that they are; ``None`` where they are encoded as they are uploaded.
    """

    table: pyarrow.Table
    schema_id: int
    schema: RowSchema
    few: tuple[CollectionRun, ...] | None
    parts: list[EncodedPart] | None


class AsyncCollectionWriter:
    """Appends under one name. Made by ``AsyncCollection.writer``; used on one loop.

    Args:
        shared: the collection.
        place: where it is.
        uploads: rows by which parts are uploaded. A named writer has no such row itself: as its row
            lives for ever, it would keep all garbage.
        name: of the writer, the same in each process that continues its work; ``None``: a random
            one, whose appends are never repeated.
        compact: begins to merge what is due, where that is for this process.
    """

    def __init__(
        self,
        shared: SharedState,
        place: CollectionPlace,
        uploads: Uploads,
        name: str | None,
        compact: Callable[[], None],
    ) -> None:
        self._shared = shared
        self._place = place
        self._uploads = uploads
        self._compact = compact
        self._objects = PartObjects(place, shared.id)
        self._meter = place.meter(shared.id)
        self._numbers = count() if name is None else None
        self._lease_ms = UNNAMED_LEASE_MS if name is None else 0
        self.name = f"unnamed-{place.random_u64():016x}" if name is None else name

    @property
    def sequence(self) -> int:
        """The last sequence that this process knows of; -1 before the first append."""
        row = self._shared.state.writers.get(self.name)
        return NO_SEQUENCE if row is None else row.sequence

    async def append(
        self,
        rows: Rows = (),
        *,
        sequence: int | None,
        remove: Rows | None = None,
        expected_upper: int | None = None,
    ) -> AppendResult:
        """Append rows, and take others away, at one time, which they get as they are committed."""
        make = partial(table_of_changes, rows=rows, remove=remove)
        wanted = _Wanted(sequence=whole(sequence), expected=whole(expected_upper))
        return await self._append(make, wanted, few=are_few(rows) and are_few(remove))

    async def compare_and_append(
        self, updates: Rows, *, expected_upper: int, new_upper: int, sequence: int | None
    ) -> AppendResult:
        """Append updates with their own times, and complete those below ``new_upper``."""
        make = partial(table_of_updates, rows=updates)
        wanted = _Wanted(
            sequence=whole(sequence), expected=index(expected_upper), new=index(new_upper)
        )
        return await self._append(make, wanted, few=are_few(updates))

    async def batch(self, rows: Rows, remove: Rows | None = None) -> CollectionBatchRows:
        """Upload rows without appending them."""
        make = partial(table_of_changes, rows=rows, remove=remove)
        made = await self._made(make, few=False)
        async with self._uploads.taken() as row:
            runs = await self._uploaded(row, made)
            if runs:
                self._uploads.keep(row)
        return CollectionBatchRows(collection_id=self._shared.id, runs=runs)

    async def append_batches(
        self,
        batches: Sequence[CollectionBatchRows],
        *,
        sequence: int | None,
        expected_upper: int | None = None,
        new_upper: int | None = None,
    ) -> AppendResult:
        """Append what was uploaded, by any process, at one time.

        With ``new_upper`` the rows have their times, and those below it are complete.
        """
        for batch in batches:
            if batch.collection_id != self._shared.id:
                raise ValueError("a batch of another collection")
        runs = tuple(run for batch in batches for run in batch.runs)
        wanted = _Wanted(
            sequence=whole(sequence), expected=whole(expected_upper), new=whole(new_upper)
        )
        return await self._commit(runs, wanted)

    async def _append(
        self, make: Callable[[RowSchema], pyarrow.Table], wanted: _Wanted, *, few: bool
    ) -> AppendResult:
        if wanted.expected is not None and wanted.expected < self._shared.state.upper:
            # No upper goes back, so this is refused, or repeated: it needs no rows.
            return await self._commit((), wanted)
        row = self._shared.state.writers.get(self.name)
        if row is not None and row.sequence == wanted.sequence:
            return _result(Appended(upper=row.upper, repeated=True))
        made = await self._made(make, few=few)
        if made.few is not None:
            try:
                return await self._commit(made.few, wanted)
            except InlineLimitError:
                pass
        tried = 1
        while True:
            try:
                return await self._upload_and_commit(made, wanted)
            except BatchExpiredError:
                if tried == UPLOADS_TRIED_MAX:
                    raise
            tried += 1

    async def _made(self, make: Callable[[RowSchema], pyarrow.Table], *, few: bool) -> _Made:
        """Make rows of the newest schema; here, where they are few: a thread takes longer.

        Raises:
            CollectionSchemaError: rows do not fit it.
        """
        state, size = self._shared.state, self._place.settings.part_bytes
        try:
            made = partial(_made_by, state, make, size)
            return made() if few else await self._place.work(made)
        except CollectionSchemaError:
            newest = await self._shared.refresh()
            if newest.schemas == state.schemas:
                raise
            return await self._place.work(partial(_made_by, newest, make, size))

    async def _upload_and_commit(self, made: _Made, wanted: _Wanted) -> AppendResult:
        async with self._uploads.taken() as row:
            runs = await self._uploaded(row, made)
            try:
                result = await self._commit(runs, wanted)
            except SiltstoneError as error:
                if error.outcome is Outcome.NOT_APPLIED:  # None of its tries: no state has them.
                    await self._objects.discard(runs)
                raise
            if result.repeated:
                await self._objects.discard(runs)
            return result

    async def _uploaded(self, row: UploadRow, made: _Made) -> tuple[CollectionRun, ...]:
        size = self._place.settings.part_bytes
        parts: Iterator[EncodedPart] | list[EncodedPart] = (
            encode_updates(made.table, made.schema, made.schema_id, part_size=size, inline=False)
            if made.parts is None
            else made.parts
        )
        run = await self._uploads.upload(row, parts)
        return (run,) if run else ()

    async def _commit(self, runs: tuple[CollectionRun, ...], wanted: _Wanted) -> AppendResult:
        if (wanted.sequence is None) != (self._numbers is not None):
            raise ValueError("an append of a writer with a name has a sequence, and no other has")
        if not self._is_known() and self._shared.certain_age_s > FRESH_S:
            await self._shared.refresh()
        if appends_wait(self._shared.state):
            await self._wait_for_room()
        append = CollectionAppend(
            writer=self.name,
            sequence=0 if wanted.sequence is None else wanted.sequence,
            runs=runs,
            expected=wanted.expected,
            new=wanted.new,
            lease_ms=self._lease_ms,
            who=self._place.who,
        )
        once = _Once(append, self._numbers)
        try:
            result = _result(await self._shared.run(once.command, once.settle))
        except OutcomeUnknownError as error:
            raise OutcomeUnknownError(
                "whether the append was made is not known; a named writer may repeat it with this "
                "sequence",
                collection=self._shared.id.hex(),
                writer=self.name,
                sequence=once.sequence,
            ) from error
        if not result.repeated:
            self._meter.count(COLLECTION_APPENDS)
            self._meter.count(COLLECTION_ROWS, sum([part.rows for run in runs for part in run]))
        return result

    def _is_known(self) -> bool:
        """Whether states tell, for a while at least, what became of an append.

        Where an entry was freed meanwhile, the row of the writer alone tells. A state without one
        says nothing, and after a rest of this process others have freed many.
        """
        row = self._shared.state.writers.get(self.name)
        return row is not None and not lease_ended(row, self._place.now_ms())

    async def _wait_for_room(self) -> None:
        self._compact()  # There may be no other process to do it.
        try:
            await self._shared.wait_for(lambda state: not appends_wait(state), PRESSURE_S)
        except TimeoutError:
            return  # The append itself refuses when there is no room at all.


class _Once:
    """One append, however often it is tried.

    Args:
        append: what to append.
        numbers: gives each try of a writer without a name a sequence of its own. If one that was
            given up as unknown counts after all, no later one is taken for it. ``None``: all tries
            have the sequence of the append.
    """

    def __init__(self, append: CollectionAppend, numbers: Iterator[int] | None) -> None:
        self._append = append
        self._numbers = numbers
        self._answer: Appended | None = None

    @property
    def sequence(self) -> int:
        """Of the last try."""
        return self._append.sequence

    def command(self, state: CollectionState, now_ms: int) -> tuple[CollectionState, Appended]:
        """Run it."""
        if self._numbers is not None:
            self._append = copied(self._append, sequence=next(self._numbers))
        after, self._answer = compare_and_append(state, now_ms, append=self._append)
        return after, self._answer

    def settle(self, state: CollectionState) -> Appended | None:
        """What the last try answered, if the row of the writer tells that it counted.

        Raises:
            OutcomeUnknownError: there is no such row.
            CollectionDroppedError: the collection was dropped, with all rows of writers. What
                counted before that is gone as well.
        """
        row = state.writers.get(self._append.writer)
        if row is not None and row.sequence < self._append.sequence:
            return None
        if row is not None and self._numbers is not None:
            return self._answer  # Only this process has the name, and it makes one entry at a time.
        if row is not None and row.sequence == self._append.sequence:
            return Appended(upper=row.upper, repeated=False)  # By this entry, or a twin of it.
        if state.life is Life.DROPPED:
            check_open(state)
        raise OutcomeUnknownError("no state tells whether the append counted")


def _result(appended: Appended) -> AppendResult:
    time = min(max(0, appended.upper - 1), TIME_MAX)
    return AppendResult(time=time, upper=appended.upper, repeated=appended.repeated)


def _made_by(
    state: CollectionState, make: Callable[[RowSchema], pyarrow.Table], part_size: int
) -> _Made:
    """Make rows, and encode those of one object at once: it saves a turn of the loop. Blocking."""
    schema_id, schema = row_schema_of(state)
    table = make(schema)
    if not is_within(table, min(GROUP_BYTES, part_size)):
        return _Made(table, schema_id, schema, None, None)
    parts = list(encode_updates(table, schema, schema_id, part_size=part_size))
    if None not in [one.part.inline for one in parts]:
        few = tuple([(one.part,) for one in parts])
        return _Made(table, schema_id, schema, few, None)
    return _Made(table, schema_id, schema, None, parts)
