"""Runs that are read in the order of their keys, a few row groups in memory at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import pyarrow
from pyarrow import compute

from siltstone.collections.rows.consolidate import diffs_of
from siltstone.collections.rows.key_order import (
    Key,
    key_at,
    key_columns,
    rows_below,
    rows_below_bound,
    rows_through,
    sorted_by_key,
)
from siltstone.collections.rows.open_part import (
    OpenPart,
    Read,
    fields_of,
    inline_rows,
    open_part,
    schema_of,
)
from siltstone.collections.rows.part_file import GROUP_BYTES, GROUP_ROWS, part_fields
from siltstone.collections.rows.row_schema import TIME, RowSchema
from siltstone.core.constants import KIB, Buffer
from siltstone.core.records.collection_part import CollectionPart, PartFlags

FEW_ROWS: Final = GROUP_ROWS // 8
FEW_BYTES: Final = 512 * KIB
"""Of a run, encoded, that is read at once, together with others: a cursor of its own would cost a
search in each step."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part where it lies.

    Attributes:
        part: its row.
        name: of its object; empty inline.
    """

    part: CollectionPart
    name: str

    @property
    def where(self) -> str:
        """What messages call it."""
        return self.name or f"inline part of {self.part.rows} rows, crc {self.part.crc:08x}"


Form = tuple[int, int]
"""Of a part: id of its schema, and its flags."""

ReadPart = Callable[[str, int, int], Buffer]
"""Gives ``length`` bytes from ``offset`` of the object ``name`` on: ``(name, offset, length)``."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """A range of keys, by their bounds: those from ``low`` on that are below ``high``.

    Attributes:
        low: where it begins; ``None`` means at the first key.
        high: where it ends; ``None`` means after the last key.
    """

    low: bytes | None = None
    high: bytes | None = None

    def may_have(self, key_min: bytes, key_max: bytes) -> bool:
        """Whether a key between two bounds, both included, may be in the range.

        An empty ``key_max`` is one that is not known.
        """
        return not (
            (self.low is not None and key_max != b"" and key_max < self.low)
            or (self.high is not None and key_min >= self.high)
        )


EVERYTHING: Final = Bounds()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReader:
    """Reads parts as updates of one schema and of one form.

    Attributes:
        schemas: by id, those that parts were written with.
        schema: the newest; older rows get nulls for its other columns.
        with_time: whether updates get ``_time``; else times are left out.
        time_end: rows with this time or a later one are left out; ``None`` means none are.
        read: reads objects.
    """

    schemas: Mapping[int, RowSchema]
    schema: RowSchema
    with_time: bool
    time_end: int | None
    read: ReadPart

    def open(self, piece: Piece) -> OpenPart:
        """Open a part. Raises ``CorruptDataError``, and what ``read`` raises."""
        return open_part(piece.part, self.schemas, reader_of(self.read, piece), where=piece.where)

    def tables(self, run: Sequence[Piece], bounds: Bounds) -> Iterator[pyarrow.Table]:
        """Yield updates of a run whose keys are in ``bounds``, a row group at a time, in order."""
        for piece in run:
            part = piece.part
            if not bounds.may_have(part.key_min, part.key_max):
                continue
            opened = self.open(piece)
            ends = (*opened.group_bounds[1:], part.key_max)
            for group, (first, last) in enumerate(zip(opened.group_bounds, ends, strict=True)):
                if bounds.may_have(first, last):
                    table = self._clipped(self.updates(opened, [group]), bounds)
                    if len(table):
                        yield table

    def updates(self, opened: OpenPart, groups: Sequence[int]) -> pyarrow.Table:
        """Return updates of row groups, with ``_diff``."""
        part = opened.part
        table = in_time(opened.read(groups), part, self.time_end)
        return self._shown(table, times_of(table, part) if self.with_time else None)

    def together(self, pieces: Sequence[Piece]) -> pyarrow.Table:
        """Return updates of parts that ``can_join``, with ``_diff``, in no order.

        Raises:
            CorruptDataError: bytes of a part are not what was written.
        """
        table = self.joined(pieces)
        parts = [piece.part for piece in pieces]
        return self._shown(table, _times_of_all(table, parts) if self.with_time else None)

    def joined(self, pieces: Sequence[Piece]) -> pyarrow.Table:
        """Return rows of parts that ``can_join`` in the columns that they have, as they lie.

        Raises:
            CorruptDataError: bytes of a part are not what was written.
        """
        first = pieces[0]
        schema = schema_of(first.part, self.schemas, where=first.where)
        fields = fields_of(first.part, schema)
        return pyarrow.Table.from_batches(
            [inline_rows(piece.part, fields, where=piece.where) for piece in pieces]
        )

    def can_join(self, part: CollectionPart, bounds: Bounds) -> bool:
        """Whether a part can be read together with others of its schema and flags."""
        is_early = self.time_end is None or part.time_max < self.time_end
        return part.inline is not None and is_early and bounds == EVERYTHING

    def _shown(self, table: pyarrow.Table, times: pyarrow.ChunkedArray | None) -> pyarrow.Table:
        columns = shown_in(self.schema.arrow, table).columns
        if times is not None:
            columns.append(times)
        columns.append(diffs_of(table))
        fields = part_fields(self.schema, with_time=self.with_time, with_diff=True)
        return pyarrow.table(columns, schema=fields)

    def _clipped(self, table: pyarrow.Table, bounds: Bounds) -> pyarrow.Table:
        if not len(table) or (bounds.low is None and bounds.high is None):
            return table
        keys = key_columns(table, self.schema)
        low = 0 if bounds.low is None else rows_below_bound(keys, self.schema, bounds.low)
        high = (
            len(table) if bounds.high is None else rows_below_bound(keys, self.schema, bounds.high)
        )
        return table.slice(low, max(0, high - low))


class RunCursor:
    """Updates in the order of keys, of which some are in memory.

    Args:
        tables: the updates, in order.
        schema: of their columns.
    """

    def __init__(self, tables: Iterator[pyarrow.Table], schema: RowSchema) -> None:
        self._tables = tables
        self._schema = schema
        self._held: pyarrow.Table | None = None
        self._keys: list[pyarrow.ChunkedArray] = []
        self.exhausted = False
        """Whether nothing more comes after what is held."""

    def fill(self, size_bytes: int) -> None:
        """Hold at least so many bytes, or all that there are; one row more than none."""
        while not self.exhausted and (self._held is None or self._held.nbytes < size_bytes):
            table = next(self._tables, None)
            if table is None:
                self.exhausted = True
            elif self._held is None:
                self._hold(table)
            else:
                self._hold(pyarrow.concat_tables([self._held, table]))

    @property
    def empty(self) -> bool:
        """Whether no row is held."""
        return self._held is None

    @property
    def rows(self) -> int:
        """How many rows are held."""
        return 0 if self._held is None else len(self._held)

    @property
    def last_key(self) -> Key:
        """Key of the last row that is held; not where none is."""
        return self.key(self.rows - 1)

    def key(self, row: int) -> Key:
        """Key of a row that is held."""
        return key_at(self._keys, row)

    def rows_below(self, key: Key) -> int:
        """How many rows that are held have a key below ``key``."""
        return rows_below(self._keys, key)

    def size_bytes(self, rows: int) -> int:
        """Bytes of so many rows that are held, if all are alike."""
        return 0 if self._held is None else int(self._held.nbytes * rows // len(self._held))

    def take_below(self, key: Key) -> pyarrow.Table | None:
        """Give up the rows with keys below ``key``; ``None`` where there are none."""
        return self._take(self.rows_below(key))

    def take_through(self, key: Key) -> pyarrow.Table | None:
        """Give up the rows with keys up to ``key``, it included; ``None`` where there are none."""
        return self._take(rows_through(self._keys, key))

    def take_all(self) -> pyarrow.Table | None:
        """Give up what is held; ``None`` where nothing is."""
        return self._take(self.rows)

    def _hold(self, table: pyarrow.Table) -> None:
        self._held = table
        self._keys = key_columns(table, self._schema)

    def _take(self, rows: int) -> pyarrow.Table | None:
        held = self._held
        assert held is not None, "only what is held is taken"
        if not rows:
            return None
        if rows == len(held):
            self._held, self._keys = None, []
            return held
        self._hold(held.slice(rows))
        return held.slice(0, rows)


class _Few:
    """Runs with few rows, which become one cursor.

    Inline parts of one form are read together: to make a table of each takes ten times as long.
    """

    def __init__(self, reader: RunReader, bounds: Bounds) -> None:
        self._reader = reader
        self._bounds = bounds
        self._tables: list[pyarrow.Table] = []
        self._alike: dict[Form, list[Piece]] = {}
        self._rows = self._size = 0

    @property
    def is_full(self) -> bool:
        """Whether there are enough rows for a cursor."""
        return self._rows >= GROUP_ROWS or self._size >= GROUP_BYTES

    @property
    def is_empty(self) -> bool:
        """Whether there are none."""
        return not self._rows

    def add(self, run: Sequence[Piece]) -> None:
        """Add a run. Raises ``CorruptDataError``."""
        for piece in run:
            part = piece.part
            if self._reader.can_join(part, self._bounds):
                self._alike.setdefault(form_of(part), []).append(piece)
                self._rows += part.rows
                self._size += part.length
                continue
            for table in self._reader.tables([piece], self._bounds):
                self._tables.append(table)
                self._rows += len(table)
                self._size += table.nbytes

    def cursor(self) -> RunCursor:
        """Return the cursor. Raises ``CorruptDataError``."""
        joined = [self._reader.together(pieces) for pieces in self._alike.values()]
        table = pyarrow.concat_tables([*joined, *self._tables])
        schema = self._reader.schema
        return RunCursor(iter([sorted_by_key(table, schema)]), schema)


def cursors_of(
    runs: Sequence[Sequence[Piece]], reader: RunReader, bounds: Bounds
) -> list[RunCursor]:
    """Return cursors over runs; those with few rows are read now, and sorted into common ones.

    Raises:
        CorruptDataError: bytes of a part are not what was written.
    """
    cursors: list[RunCursor] = []
    few = _Few(reader, bounds)
    for run in runs:
        if (
            sum(piece.part.rows for piece in run) > FEW_ROWS
            or sum(piece.part.length for piece in run) > FEW_BYTES
        ):
            cursors.append(RunCursor(reader.tables(run, bounds), reader.schema))
            continue
        few.add(run)
        if few.is_full:
            cursors.append(few.cursor())
            few = _Few(reader, bounds)
    if not few.is_empty:
        cursors.append(few.cursor())
    return cursors


def form_of(part: CollectionPart) -> Form:
    """What two parts have alike whose rows have the same columns."""
    return part.schema_id, int(part.flags)


def in_time(table: pyarrow.Table, part: CollectionPart, time_end: int | None) -> pyarrow.Table:
    """Return the rows of a part whose time is below ``time_end``; all where that is ``None``."""
    if time_end is None or part.time_max < time_end:
        return table
    if PartFlags.HAS_TIME not in part.flags:
        return table.slice(0, 0)
    return table.filter(compute.less(table[TIME], time_end))


def shown_in(columns: pyarrow.Schema, table: pyarrow.Table) -> pyarrow.Table:
    """Return ``columns`` of ``table``; those that it lacks hold nulls."""
    return pyarrow.table(
        [
            table[field.name]
            if field.name in table.column_names
            else pyarrow.chunked_array([pyarrow.nulls(len(table), field.type)])
            for field in columns
        ],
        schema=columns,
    )


def times_of(table: pyarrow.Table, part: CollectionPart) -> pyarrow.ChunkedArray:
    """The times of rows of a part."""
    if PartFlags.HAS_TIME in part.flags:
        return table[TIME]
    time = pyarrow.scalar(part.time, pyarrow.int64())
    return pyarrow.chunked_array([pyarrow.repeat(time, len(table))])


def _times_of_all(table: pyarrow.Table, parts: Sequence[CollectionPart]) -> pyarrow.ChunkedArray:
    """The times of rows of parts of one form, one after the other."""
    if PartFlags.HAS_TIME in parts[0].flags:
        return table[TIME]
    ends = pyarrow.array(accumulate(part.rows for part in parts), pyarrow.int64())
    times = pyarrow.array([part.time for part in parts], pyarrow.int64())
    encoded = pyarrow.RunEndEncodedArray.from_arrays(ends, times)
    return pyarrow.chunked_array([compute.run_end_decode(encoded)])


def reader_of(read: ReadPart, piece: Piece) -> Read:
    """What reads the object of one part."""

    def read_part(offset: int, length: int) -> Buffer:
        return read(piece.name, offset, length)

    return read_part
