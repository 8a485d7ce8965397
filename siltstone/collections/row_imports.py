"""Imports of tables that lie elsewhere: all of their rows in one append, once for each content."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Final

import pyarrow

from siltstone.collections.async_writer import (
    AppendResult,
    AsyncCollectionWriter,
    CollectionBatchRows,
)
from siltstone.collections.part_objects import PartObjects
from siltstone.collections.place import CollectionPlace
from siltstone.collections.read_times import checked_time
from siltstone.collections.rows.encode_parts import at_time, encode_updates
from siltstone.collections.rows.encoded_part import EncodedPart
from siltstone.collections.rows.input_rows import table_of_rows
from siltstone.collections.rows.row_schema import RowSchema
from siltstone.collections.rows.taken_file import runs_in_order
from siltstone.collections.shared_state import SharedState
from siltstone.collections.sources.table_source import Note, SourcePiece, TableSource
from siltstone.collections.state.refusals import check_open
from siltstone.collections.stored_schema import row_schema_of
from siltstone.collections.upload_ticket import heaps_of
from siltstone.collections.uploads import Uploads
from siltstone.core.errors import (
    CollectionSchemaError,
    CollectionSourceError,
    Outcome,
    SiltstoneError,
    UpdateTimeError,
)
from siltstone.core.records.collection_batch import CollectionRun
from siltstone.core.records.collection_frontier import DONE, TIME_MAX
from siltstone.core.records.collection_state import CollectionState

SEQUENCE: Final = 0
"""Of each import: a content has a writer of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionImport:
    """An import that counts once.

    Attributes:
        time: of the rows.
        upper: of the collection after it; 2^64 - 1 if no time is left.
        repeated: an earlier call had imported this content of the source; this one read nothing.
        rows: how many rows this call appended.
        files: how many files it read.
        taken: how many of them became objects of the collection as they are.
    """

    time: int
    upper: int
    repeated: bool
    rows: int
    files: int
    taken: int


class RowImports:
    """Imports into one collection. Used on one loop.

    Args:
        shared: the collection.
        place: where it is.
        uploads: rows of writers that upload.
        writer_of: gives the writer of a name.
    """

    def __init__(
        self,
        shared: SharedState,
        place: CollectionPlace,
        uploads: Uploads,
        writer_of: Callable[[str], AsyncCollectionWriter],
    ) -> None:
        self._shared = shared
        self._place = place
        self._uploads = uploads
        self._writer_of = writer_of
        self._objects = PartObjects(place, shared.id)

    async def run(
        self,
        source: TableSource,
        *,
        time: int | None,
        writer: str | None,
        sequence: int | None,
        progress: Note | None,
    ) -> CollectionImport:
        """Append all rows of ``source`` at one time. See ``AsyncCollection.import_rows``."""
        if (writer is None) != (sequence is None):
            raise ValueError("a writer and a sequence go together")
        time = None if time is None else checked_time(time)
        by = self._writer_of(source.writer() if writer is None else writer)
        number = SEQUENCE if sequence is None else sequence
        state = await self._shared.refresh()
        last = state.writers.get(by.name)
        if last is not None and last.sequence >= number:  # It tells, or refuses, without the rows.
            return _import(await by.append_batches([], sequence=number), _Counts())
        if writer is None:
            _check_first(state, source)
        check_open(state)
        if state.upper == DONE:
            raise UpdateTimeError("collection is finished")
        if time is not None and time < state.upper:
            raise UpdateTimeError(
                "rows can come at a time from the upper on only", time=time, upper=state.upper
            )
        schema_id, schema = row_schema_of(state)
        source.check(schema)
        counts = _Counts()
        made = _encoded(source, schema, schema_id, self._part_bytes, counts, progress or _ignore)
        expected = None if time is None else state.upper
        return _import(await self._appended(made, counts, by, number, time, expected), counts)

    @property
    def _part_bytes(self) -> int:
        return self._place.settings.part_bytes

    async def _appended(
        self,
        made: Iterator[EncodedPart],
        counts: _Counts,
        by: AsyncCollectionWriter,
        sequence: int,
        time: int | None,
        expected: int | None,
    ) -> AppendResult:
        async with self._uploads.taken() as row:
            try:
                runs = counts.split(await self._uploads.upload(row, made))
            except Exception:
                with suppress(SiltstoneError):  # Its lease ends.
                    await self._uploads.end(row)  # So the sweep may delete what was uploaded.
                raise
            if time is not None:
                runs = [tuple(at_time(part, time) for part in run) for run in runs]
            batch = CollectionBatchRows(collection_id=self._shared.id, runs=tuple(runs))
            try:
                result = await by.append_batches(
                    [batch],
                    sequence=sequence,
                    expected_upper=expected,
                    new_upper=_after(time),
                )
            except SiltstoneError as error:
                if error.outcome is Outcome.NOT_APPLIED:  # None of its tries: no state has them.
                    await self._objects.discard(runs)
                raise
            if result.repeated:  # Another process was faster.
                await self._objects.discard(runs)
            return result


class _Counts:
    """What an import has done.

    Attributes:
        rows: that were read.
        files: that were read.
        taken: how many of them became parts as they are: these parts come first.
        runs: how many parts each run has that comes after them.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.files = 0
        self.taken = 0
        self.runs: list[int] = []

    def split(self, parts: CollectionRun) -> list[CollectionRun]:
        """Return all parts as the runs that they are."""
        rest = iter(parts[self.taken :])
        copied = [tuple(islice(rest, length)) for length in self.runs]
        return [*runs_in_order(parts[: self.taken]), *copied]


def _encoded(
    source: TableSource,
    schema: RowSchema,
    schema_id: int,
    part_bytes: int,
    counts: _Counts,
    note: Note,
) -> Iterator[EncodedPart]:
    """Yield the parts of all runs, one after the other. Blocking; about 500 MiB are in memory."""
    copied: list[SourcePiece] = []
    for piece in source.pieces():
        part = piece.part(schema, schema_id, source.columns, part_bytes)
        if part is None:
            copied.append(piece)
            continue
        note(piece.size_bytes)
        counts.rows += part.part.rows
        counts.files += piece.files
        counts.taken += 1
        yield part
    for heap in heaps_of(_tables(copied, source.columns, schema, counts, note)):
        encoded = encode_updates(heap, schema, schema_id, part_size=part_bytes, inline=False)
        length = 0
        for part in encoded:
            yield part
            length += 1
        counts.runs.append(length)


def _tables(
    pieces: Iterable[SourcePiece],
    columns: Sequence[str],
    schema: RowSchema,
    counts: _Counts,
    note: Note,
) -> Iterator[pyarrow.Table]:
    """Yield all rows, in the columns of the collection."""
    for piece in pieces:
        for table in piece.tables(schema, columns, note):
            yield _fitting(schema, table, piece.where)
            counts.rows += len(table)
        counts.files += piece.files


def _fitting(schema: RowSchema, table: pyarrow.Table, where: str) -> pyarrow.Table:
    """Return rows as the collection has them. Raises ``CollectionSchemaError`` with the file."""
    try:
        return table_of_rows(schema, table)
    except CollectionSchemaError as error:
        raise CollectionSchemaError(f"{where}: {error}") from error


def _check_first(state: CollectionState, source: TableSource) -> None:
    """Raise ``CollectionSourceError`` where other rows of the source were imported before."""
    prefix = source.writer_prefix()
    before = next((name for name in state.writers if name.startswith(prefix)), None)
    if before is not None:
        raise CollectionSourceError(
            "other content of this source was imported before, and its rows would come twice; "
            "import into a collection of its own, or give a writer and a sequence of your own",
            source=source.where,
            writer=before,
        )


def _import(result: AppendResult, counts: _Counts) -> CollectionImport:
    return CollectionImport(
        time=result.time,
        upper=result.upper,
        repeated=result.repeated,
        rows=0 if result.repeated else counts.rows,
        files=0 if result.repeated else counts.files,
        taken=0 if result.repeated else counts.taken,
    )


def _after(time: int | None) -> int | None:
    if time is None:
        return None
    return DONE if time == TIME_MAX else time + 1


def _ignore(count: int) -> None:
    """Tell no one."""
