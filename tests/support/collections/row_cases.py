"""Rows of every type, as plain values that are equal if and only if the bits of the rows are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow
from hypothesis import strategies as st

from siltstone.collections.rows.row_schema import DIFF, TIME, RowSchema, row_schema

Plain = Any
"""An int for all that has a fixed width, floats included (their bits); else str, bytes or bool."""

INTS = {
    kind: pyarrow.type_for_alias(kind)
    for kind in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
}
FLOATS = {
    pyarrow.float16(): pyarrow.uint16(),
    pyarrow.float32(): pyarrow.uint32(),
    pyarrow.float64(): pyarrow.uint64(),
}
"""And the integers of the same width."""

NUMBERED = {
    pyarrow.date32(): pyarrow.int32(),
    pyarrow.time32("s"): pyarrow.int32(),
    pyarrow.time32("ms"): pyarrow.int32(),
    pyarrow.time64("us"): pyarrow.int64(),
    pyarrow.time64("ns"): pyarrow.int64(),
    pyarrow.timestamp("s"): pyarrow.int64(),
    pyarrow.timestamp("ms"): pyarrow.int64(),
    pyarrow.timestamp("us", "UTC"): pyarrow.int64(),
    pyarrow.timestamp("ns", "Europe/Oslo"): pyarrow.int64(),
    pyarrow.decimal32(9, 2): pyarrow.int32(),
    pyarrow.decimal64(18, 3): pyarrow.int64(),
}
"""And the integers that Arrow keeps for them."""

WIDE = (pyarrow.decimal128(38, 4), pyarrow.decimal256(76, 5))
TEXTS = (pyarrow.string(), pyarrow.large_string())
BINARIES = (pyarrow.binary(), pyarrow.large_binary(), pyarrow.binary(3))
KEY_TYPES = (pyarrow.bool_(), *INTS.values(), *NUMBERED, *WIDE, *TEXTS, *BINARIES)
TYPES = (*KEY_TYPES, *FLOATS)

_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_NAN64 = (0x7FF8000000000000, 0x7FF8000000000001, 0xFFF8000000000000)
_SIGNED_ZEROS = {16: (0, 0x8000), 32: (0, 0x80000000), 64: (0, 0x8000000000000000)}


def plain_values(kind: pyarrow.DataType) -> st.SearchStrategy[Plain]:
    """Values of a type, few of them, so that rows meet again; among them the ends of its range."""
    if pyarrow.types.is_boolean(kind):
        return st.booleans()
    if kind in FLOATS:
        width = kind.bit_width
        nan = _NAN64 if width == 64 else ((0x7FC00000, 0xFFC00001) if width == 32 else (0x7E00,))
        return st.sampled_from([*_SIGNED_ZEROS[width], *nan, 0x3C00, 1])
    if kind in TEXTS:
        return st.sampled_from(["", "a", "a\0", "a\0b", "ab", "b", "bodø", "\U0001f600", "x" * 40])
    if pyarrow.types.is_fixed_size_binary(kind) and kind in BINARIES:
        return st.sampled_from([b"\0\0\0", b"\0\0\1", b"abc", b"\xff\xff\xff"])
    if kind in BINARIES:
        return st.sampled_from([b"", b"\0", b"\0\xff", b"\0\0", b"\xff", b"a", b"x" * 33])
    if kind in WIDE:
        top = 10**kind.precision - 1
        return st.sampled_from([-top, -(2**64), -1, 0, 1, 2**100, top])
    if pyarrow.types.is_time(kind):
        return st.sampled_from([0, 1, _DAY[kind.unit] - 1])
    if pyarrow.types.is_decimal(kind):
        top = 10**kind.precision - 1
        return st.sampled_from([-top, -1, 0, 1, top])
    if pyarrow.types.is_timestamp(kind) and kind.unit == "s":
        return st.sampled_from([-(2**62) // 1000, -1, 0, 1, 2**62 // 1000])
    width = kind.bit_width
    if pyarrow.types.is_unsigned_integer(kind):
        return st.sampled_from([0, 1, 2 ** (width - 1), 2**width - 1])
    return st.sampled_from([-(2 ** (width - 1)), -1, 0, 1, 2 ** (width - 1) - 1])


def column_of(kind: pyarrow.DataType, values: Sequence[Plain]) -> pyarrow.Array:
    """The column that holds plain values."""
    if kind in FLOATS:
        return pyarrow.array(values, FLOATS[kind]).view(kind)
    if kind in NUMBERED:
        return pyarrow.array(values, NUMBERED[kind]).view(kind)
    if kind in WIDE:
        size = kind.bit_width // 8
        raw = [None if one is None else one.to_bytes(size, "little", signed=True) for one in values]
        return pyarrow.array(raw, pyarrow.binary(size)).view(kind)
    return pyarrow.array(values, kind)


def plain_of(column: pyarrow.ChunkedArray | pyarrow.Array) -> list[Plain]:
    """The plain values of a column."""
    kind = column.type
    chunks = column.chunks if isinstance(column, pyarrow.ChunkedArray) else [column]
    values: list[Plain] = []
    for chunk in chunks:
        if kind in FLOATS:
            values += chunk.view(FLOATS[kind]).to_pylist()
        elif kind in NUMBERED:
            values += chunk.view(NUMBERED[kind]).to_pylist()
        elif kind in WIDE:
            raw = chunk.view(pyarrow.binary(kind.bit_width // 8)).to_pylist()
            values += [
                None if one is None else int.from_bytes(one, "little", signed=True) for one in raw
            ]
        else:
            values += chunk.to_pylist()
    return values


@dataclass(frozen=True, slots=True)
class Update:
    """A row by its plain values, when, and how many come."""

    row: tuple[Plain, ...]
    time: int
    diff: int


def table_of(schema: RowSchema, updates: Sequence[Update]) -> pyarrow.Table:
    """Updates as a table with ``_time`` and ``_diff``."""
    columns = [
        column_of(field.type, [update.row[index] for update in updates])
        for index, field in enumerate(schema.arrow)
    ]
    times = pyarrow.array([update.time for update in updates], pyarrow.int64())
    diffs = pyarrow.array([update.diff for update in updates], pyarrow.int64())
    return pyarrow.table([*columns, times, diffs], names=[*schema.names, TIME, DIFF])


def updates_of(schema: RowSchema, table: pyarrow.Table, time: int = 0) -> list[Update]:
    """The updates of a table, which may lack ``_time`` and ``_diff``."""
    rows = zip(*(plain_of(table[name]) for name in schema.names), strict=True)
    names = table.column_names
    times = table[TIME].to_pylist() if TIME in names else [time] * len(table)
    diffs = table[DIFF].to_pylist() if DIFF in names else [1] * len(table)
    return [Update(*one) for one in zip(rows, times, diffs, strict=True)]


def counts_at(updates: Iterable[Update], as_of: int) -> Mapping[tuple[Plain, ...], int]:
    """How often each row is there at a time; rows that are there 0 times are left out."""
    counts: Counter[tuple[Plain, ...]] = Counter()
    for update in updates:
        if update.time <= as_of:
            counts[_tagged(update.row)] += update.diff
    return {row: count for row, count in counts.items() if count}


def sums_from(updates: Iterable[Update], since: int) -> Mapping[tuple[tuple[Plain, ...], int], int]:
    """What a consolidation gives: sums by row and time, times below ``since`` raised to it."""
    sums: Counter[tuple[tuple[Plain, ...], int]] = Counter()
    for update in updates:
        sums[_tagged(update.row), max(update.time, since)] += update.diff
    return {key: total for key, total in sums.items() if total}


def _tagged(row: tuple[Plain, ...]) -> tuple[Plain, ...]:
    # To Python, True is 1; columns hold one type each, so this only keeps failures readable.
    return tuple((type(value).__name__, value) for value in row)


def schemas(types: Sequence[pyarrow.DataType] = TYPES) -> st.SearchStrategy[RowSchema]:
    """Schemas of one or two columns of the key and up to two others."""
    keys = st.lists(st.sampled_from(KEY_TYPES), min_size=1, max_size=2)
    rest = st.lists(st.sampled_from(types), max_size=2)
    return st.builds(schema_of, keys, rest)


def schema_of(keys: Sequence[pyarrow.DataType], rest: Sequence[pyarrow.DataType] = ()) -> RowSchema:
    """A schema with columns ``k0``, ``k1``, … of the key, and ``v0``, ``v1``, …"""
    key = [f"k{index}" for index in range(len(keys))]
    values = [f"v{index}" for index in range(len(rest))]
    return row_schema(pyarrow.schema(list(zip([*key, *values], [*keys, *rest], strict=True))), key)


def rows_of(schema: RowSchema) -> st.SearchStrategy[tuple[Plain, ...]]:
    """Rows of a schema; what may be null sometimes is."""
    return st.tuples(
        *(
            plain_values(field.type) | st.none() if field.nullable else plain_values(field.type)
            for field in schema.arrow
        )
    )


def updates(
    schema: RowSchema,
    *,
    times: st.SearchStrategy[int] = st.integers(0, 3),  # noqa: B008
    diffs: st.SearchStrategy[int] = st.integers(-2, 3),  # noqa: B008
    max_size: int = 12,
) -> st.SearchStrategy[list[Update]]:
    """Updates of a schema."""
    one = st.builds(Update, rows_of(schema), times, diffs.filter(bool))
    return st.lists(one, max_size=max_size)
