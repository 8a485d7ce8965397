"""The rows of a collection at one time: a plan of splits, and what each of them reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

import pyarrow
from pyarrow import compute

from siltstone.collections.rows.consolidate import (
    DIFF_MAX,
    diffs_of,
    has_negatives,
    sum_of_diffs,
)
from siltstone.collections.rows.key_ranges import key_ranges
from siltstone.collections.rows.merge import (
    MERGE_BYTES,
    consolidated_steps,
    merged_steps,
)
from siltstone.collections.rows.open_part import OpenPart, fields_of, shares_of
from siltstone.collections.rows.piece_shares import SPLIT_BYTES, groups_between, shares_by_rows
from siltstone.collections.rows.row_schema import DIFF, TIME, PackedSchema, RowSchema
from siltstone.collections.rows.stored_run import (
    EVERYTHING,
    Bounds,
    Form,
    Piece,
    ReadPart,
    RunReader,
    cursors_of,
    form_of,
    in_time,
    shown_in,
)
from siltstone.core.errors import CollectionError, NegativeCountError
from siltstone.core.records.collection_part import PartFlags

SHOWN_ROWS: Final = 65_536
"""Of a record batch, at most, where a row comes several times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSplit:
    """A share of a snapshot. It pickles, and needs nothing but a reader of objects.

    Attributes:
        as_of: the time.
        schemas: by id, those of the pieces, packed.
        schema_id: id of the schema that rows are shown in.
        columns: names of columns to show, in this order; ``None`` means all.
        diffs: whether counts are shown as ``_diff``; else each row comes as often as it counts.
        runs: parts in the order of keys.
        rows: of each piece, by its index among all: only row groups are read whose first row is in
            this range. Empty where rows are grouped.
        bounds: which keys are read, where rows are grouped; ``None`` means that rows are shown as
            they lie.
    """

    as_of: int
    schemas: Mapping[int, PackedSchema]
    schema_id: int
    columns: tuple[str, ...] | None
    diffs: bool
    runs: tuple[tuple[Piece, ...], ...]
    rows: tuple[tuple[int, int], ...] = ()
    bounds: Bounds | None = None

    @property
    def arrow_schema(self) -> pyarrow.Schema:
        """Schema of the record batches."""
        schema = self._schema(self.schema_id).arrow
        names = schema.names if self.columns is None else self.columns
        fields = [schema.field(name) for name in names]
        if self.diffs:
            fields.append(pyarrow.field(DIFF, pyarrow.int64(), nullable=False))
        return pyarrow.schema(fields)

    def read(self, read: ReadPart) -> Iterator[pyarrow.RecordBatch]:
        """Yield the rows, some at a time.

        Args:
            read: reads objects; not called where all pieces are inline.

        Raises:
            CorruptDataError: bytes of a part are not what was written.
            NegativeCountError: a count is below 0, and ``diffs`` is not set.
            CollectionError: a count is beyond 64 bits.
            Exception: what ``read`` raises.
        """
        schemas = {schema_id: self._schema(schema_id) for schema_id in self.schemas}
        reader = RunReader(
            schemas=schemas,
            schema=schemas[self.schema_id],
            with_time=False,
            time_end=self.as_of + 1,
            read=read,
        )
        tables = self._as_they_lie(reader) if self.bounds is None else self._grouped(reader)
        shown = self.arrow_schema
        for table in tables:
            for copies in _copies(table, shown, diffs=self.diffs):
                # A table of no columns counts its rows only where it was selected from others.
                yield from (copies if shown.names else copies.select([])).to_batches()

    def _schema(self, schema_id: int) -> RowSchema:
        return RowSchema.unpacked(self.schemas[schema_id], where=f"schema {schema_id} of a split")

    def _as_they_lie(self, reader: RunReader) -> Iterator[pyarrow.Table]:
        pieces = [piece for run in self.runs for piece in run]
        names = self.arrow_schema.names
        shares = zip(pieces, self.rows, strict=True)
        for form, some in groupby(shares, lambda share: _joined_form(reader, share[0])):
            if form is not None:
                whole = [piece for piece, (start, stop) in some if start == 0 < stop]
                if whole:
                    yield _narrow_joined(reader, whole, names)
                continue
            for piece, (start, stop) in some:
                opened = reader.open(piece)
                for groups in shares_of(opened, groups_between(opened, start, stop)):
                    yield _narrow(reader, opened, groups, names)

    def _grouped(self, reader: RunReader) -> Iterator[pyarrow.Table]:
        assert self.bounds is not None, "rows are grouped in ranges of keys"
        cursors = cursors_of(self.runs, reader, self.bounds)
        steps = merged_steps(cursors, MERGE_BYTES)
        return consolidated_steps(steps, since=0, carried_bytes=None)


def plan_snapshot(
    runs: Iterable[Sequence[Piece]],
    schemas: Mapping[int, RowSchema],
    schema_id: int,
    *,
    as_of: int,
    columns: Sequence[str] | None = None,
    diffs: bool = False,
    read: ReadPart | None = None,
) -> list[SnapshotSplit]:
    """Return splits that together are the rows at ``as_of``; none where there are none for sure.

    Args:
        runs: those of all batches whose lower is not above ``as_of``.
        schemas: by id, those of the parts, and the one to show.
        schema_id: id of the schema to show.
        as_of: a time, from ``since`` of the collection on, and below its upper.
        columns: names of columns to show; ``None`` means all.
        diffs: whether to show counts as ``_diff``, negative ones too. Equal rows are one then only
            where something may cancel.
        read: reads footers of large parts, to cut where something may cancel more finely than at
            the bounds of parts; ``None`` means not to.

    Raises:
        KeyError: a column is unknown.
        CorruptDataError: a footer is not what was written.
    """
    kept = [[piece for piece in run if piece.part.time_min <= as_of] for run in runs]
    kept = [run for run in kept if run]
    pieces = [piece for run in kept for piece in run]
    used = {schema_id, *(piece.part.schema_id for piece in pieces)}
    whole = SnapshotSplit(
        as_of=as_of,
        schemas={one: schemas[one].packed() for one in sorted(used)},
        schema_id=schema_id,
        columns=None if columns is None else tuple(columns),
        diffs=diffs,
        runs=tuple(tuple(run) for run in kept),
    )
    for name in columns or ():
        schemas[schema_id].arrow.field(name)
    if not any(PartFlags.HAS_NEGATIVES in piece.part.flags for piece in pieces):
        return _by_rows(whole, pieces)
    return _by_keys(whole, kept, schemas, read)


def _by_rows(whole: SnapshotSplit, pieces: Sequence[Piece]) -> list[SnapshotSplit]:
    """Cut where rows are shown as they lie: large parts into row groups, small ones together."""
    return [
        replace(
            whole,
            runs=tuple((piece,) for piece, _, _ in share),
            rows=tuple((start, stop) for _, start, stop in share),
        )
        for share in shares_by_rows(pieces, SPLIT_BYTES)
    ]


def _by_keys(
    whole: SnapshotSplit,
    runs: Sequence[Sequence[Piece]],
    schemas: Mapping[int, RowSchema],
    read: ReadPart | None,
) -> list[SnapshotSplit]:
    """Cut where rows may cancel: into ranges of keys."""
    splits = []
    for bounds in key_ranges(runs, schemas, read, SPLIT_BYTES):
        overlapping = (
            tuple(piece for piece in run if bounds.may_have(piece.part.key_min, piece.part.key_max))
            for run in runs
        )
        splits.append(replace(whole, runs=tuple(run for run in overlapping if run), bounds=bounds))
    return splits


def _narrow(
    reader: RunReader, opened: OpenPart, groups: Sequence[int], names: Sequence[str]
) -> pyarrow.Table:
    """Rows as they lie: the columns that are shown, and ``_diff`` where the part has it."""
    part = opened.part
    late = reader.time_end is not None and part.time_max >= reader.time_end
    there = fields_of(part, opened.schema).names
    table = opened.read(groups, _wanted(there, names, with_time=late))
    return in_time(table, part, reader.time_end)


def _joined_form(reader: RunReader, piece: Piece) -> Form | None:
    """By what a part is read together with those next to it; ``None``: by itself."""
    return form_of(piece.part) if reader.can_join(piece.part, EVERYTHING) else None


def _narrow_joined(
    reader: RunReader, pieces: Sequence[Piece], names: Sequence[str]
) -> pyarrow.Table:
    """``_narrow`` of inline parts of one form: a table of each takes five times as long."""
    table = reader.joined(pieces)
    return table.select(_wanted(table.column_names, names, with_time=False)).combine_chunks()


def _wanted(there: Sequence[str], names: Sequence[str], *, with_time: bool) -> Sequence[str]:
    """Columns of a part that are read. Rows are counted by a column, so one is in any case."""
    wanted = [
        name for name in there if name in names or name == DIFF or (name == TIME and with_time)
    ]
    return wanted or there[:1]


def _copies(table: pyarrow.Table, shown: pyarrow.Schema, *, diffs: bool) -> Iterator[pyarrow.Table]:
    """Yield rows in the columns of ``shown``, each as often as it counts unless ``diffs``."""
    if not len(table):
        return
    if has_negatives(table) and not diffs:
        raise NegativeCountError(
            "more copies of a row were removed than there were; ask for _diff to see which"
        )
    counts = diffs_of(table) if diffs or DIFF in table.column_names else None
    if counts is not None and DIFF not in table.column_names:
        table = table.append_column(DIFF, counts)
    rows = shown_in(shown, table) if shown.names else table.select(table.column_names[:1])
    if diffs or counts is None or compute.all(compute.equal(counts, 1)).as_py():
        yield rows
        return
    total = sum_of_diffs(table)
    if total > DIFF_MAX:
        raise CollectionError("rows count more copies than can be shown; ask for _diff")
    ends = compute.cumulative_sum(counts).combine_chunks()
    indexes = pyarrow.RunEndEncodedArray.from_arrays(ends, pyarrow.arange(0, len(table)))
    for start in range(0, total, SHOWN_ROWS):
        some = indexes.slice(start, min(SHOWN_ROWS, total - start))
        yield rows.take(compute.run_end_decode(some))
