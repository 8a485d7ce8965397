"""Updates of a range of times, for those who follow a collection."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow
from pyarrow import compute

from siltstone.collections.rows.consolidate import diffs_of
from siltstone.collections.rows.open_part import OpenPart, fields_of, shares_of
from siltstone.collections.rows.piece_shares import (
    SPLIT_BYTES,
    PieceShare,
    groups_between,
    shares_by_rows,
)
from siltstone.collections.rows.row_schema import DIFF, TIME, PackedSchema, RowSchema
from siltstone.collections.rows.snapshot import SnapshotSplit
from siltstone.collections.rows.stored_run import Piece, ReadPart, RunReader, shown_in, times_of
from siltstone.core.records.collection_part import CollectionPart


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeShare:
    """A share of the updates of a range of times. It pickles, and needs a reader of objects alone.

    Attributes:
        start: the first time.
        end: the frontier at which the times end.
        schemas: by id, those of the pieces, packed.
        schema_id: id of the schema that rows are shown in.
        columns: names of columns to show, in this order; ``None`` means all.
        pieces: what is read.
    """

    start: int
    end: int
    schemas: Mapping[int, PackedSchema]
    schema_id: int
    columns: tuple[str, ...] | None
    pieces: tuple[PieceShare, ...]

    @property
    def arrow_schema(self) -> pyarrow.Schema:
        """Schema of the record batches: the columns, ``_time`` and ``_diff``."""
        schema = self._schema(self.schema_id).arrow
        names = schema.names if self.columns is None else self.columns
        return _with_time_and_diff([schema.field(name) for name in names])

    def read(self, read: ReadPart) -> Iterator[pyarrow.RecordBatch]:
        """Yield the updates as they lie, some at a time.

        Args:
            read: reads objects; not called where all pieces are inline.

        Raises:
            CorruptDataError: bytes of a part are not what was written.
            Exception: what ``read`` raises.
        """
        schemas = {schema_id: self._schema(schema_id) for schema_id in self.schemas}
        reader = RunReader(
            schemas=schemas,
            schema=schemas[self.schema_id],
            with_time=True,
            time_end=self.end,
            read=read,
        )
        shown = self.arrow_schema
        for piece, start, stop in self.pieces:
            opened = reader.open(piece)
            for groups in shares_of(opened, groups_between(opened, start, stop)):
                yield from self._updates(opened, groups, shown).to_batches()

    def _updates(
        self, opened: OpenPart, groups: Sequence[int], shown: pyarrow.Schema
    ) -> pyarrow.Table:
        part = opened.part
        there = fields_of(part, opened.schema).names
        # Rows are counted by a column, so one is read in any case.
        names = [name for name in there if name in shown.names] or there[:1]
        table = opened.read(groups, names)
        times, counts = times_of(table, part), diffs_of(table)
        rows = shown_in(pyarrow.schema(list(shown)[:-2]), table)
        columns = [*rows.columns, times, counts]
        return self._in_range(pyarrow.table(columns, schema=shown), part)

    def _in_range(self, table: pyarrow.Table, part: CollectionPart) -> pyarrow.Table:
        if part.time_min < self.start:
            table = table.filter(compute.greater_equal(table[TIME], self.start))
        if part.time_max >= self.end:
            table = table.filter(compute.less(table[TIME], self.end))
        return table

    def _schema(self, schema_id: int) -> RowSchema:
        return RowSchema.unpacked(self.schemas[schema_id], where=f"schema {schema_id} of a share")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsShare:
    """A share of all rows at one time, as updates of that time. It pickles.

    Attributes:
        split: of a snapshot that shows counts.
    """

    split: SnapshotSplit

    @property
    def arrow_schema(self) -> pyarrow.Schema:
        """Schema of the record batches: the columns, ``_time`` and ``_diff``."""
        return _with_time_and_diff(list(self.split.arrow_schema)[:-1])

    def read(self, read: ReadPart) -> Iterator[pyarrow.RecordBatch]:
        """Yield the rows, some at a time. Raises as ``SnapshotSplit.read``."""
        shown = self.arrow_schema
        for batch in self.split.read(read):
            time = pyarrow.scalar(self.split.as_of, pyarrow.int64())
            *columns, counts = batch.columns
            times = pyarrow.repeat(time, len(batch))
            yield pyarrow.RecordBatch.from_arrays([*columns, times, counts], schema=shown)


def plan_changes(
    runs: Iterable[Sequence[Piece]],
    schemas: Mapping[int, RowSchema],
    schema_id: int,
    *,
    start: int,
    end: int,
    columns: Sequence[str] | None = None,
) -> list[ChangeShare]:
    """Return shares that together are the updates whose times are in ``[start, end)``.

    Args:
        runs: parts in the order of keys; since of their batches is below ``start``, or it is 0.
        schemas: by id, those of the parts, and the one to show.
        schema_id: id of the schema to show.
        start: a time.
        end: a frontier.
        columns: names of columns to show; ``None`` means all.

    Raises:
        KeyError: a column is unknown.
    """
    for name in columns or ():
        schemas[schema_id].arrow.field(name)
    pieces = [
        piece
        for run in runs
        for piece in run
        if piece.part.time_max >= start and piece.part.time_min < end
    ]
    used = {schema_id, *(piece.part.schema_id for piece in pieces)}
    return [
        ChangeShare(
            start=start,
            end=end,
            schemas={one: schemas[one].packed() for one in used},
            schema_id=schema_id,
            columns=None if columns is None else tuple(columns),
            pieces=tuple(share),
        )
        for share in shares_by_rows(pieces, SPLIT_BYTES)
    ]


def read_changes(
    runs: Iterable[Sequence[Piece]],
    schemas: Mapping[int, RowSchema],
    schema_id: int,
    read: ReadPart,
    *,
    start: int,
    end: int,
) -> Iterator[pyarrow.RecordBatch]:
    """Yield the updates that ``plan_changes`` plans, with all columns.

    Raises:
        CorruptDataError: bytes of a part are not what was written.
        Exception: what ``read`` raises.
    """
    for share in plan_changes(runs, schemas, schema_id, start=start, end=end):
        yield from share.read(read)


def _with_time_and_diff(columns: Sequence[pyarrow.Field]) -> pyarrow.Schema:
    added = [pyarrow.field(name, pyarrow.int64(), nullable=False) for name in (TIME, DIFF)]
    return pyarrow.schema([*columns, *added])
