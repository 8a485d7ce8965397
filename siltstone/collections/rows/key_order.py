"""The order of keys: sorting, searching in what is sorted, and bounds of 32 bytes.

**Bounds.** A key is written so that its bytes order as keys do, column after column, and cut after
32 bytes. Cutting keeps the order (of two keys, the bound of the lower one is not above that of the
higher one), so bounds tell which parts may have a key, though not that two keys are equal.

* A truth value is one byte. A number of n bytes is its value plus 2^(8n-1), the highest byte first;
  if it has no sign, its value. Dates, times and timestamps are the numbers that Arrow keeps, and
  decimals are their unscaled numbers.
* A string (its UTF-8) or a binary is its bytes, with 00 written as 00 FF, and 00 00 at the end, so
  none is the beginning of another.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import pyarrow
from pyarrow import compute, types

from siltstone.collections.rows.packed_keys import ROWS_MIN, packed_order
from siltstone.collections.rows.row_schema import RowSchema
from siltstone.core.records.collection_part import KEY_BOUND_BYTES_MAX

Key = tuple[Any, ...]
"""Values of the columns of a key, as Python orders them: bytes for strings, numbers for times."""

SAMPLE_ROWS: Final = 16_384
FEW_ROWS: Final = 64
"""So many rows are sorted by Python: the calls that sort them in Arrow take longer than that."""

REPEATED: Final = 2
"""A column has values that repeat if each comes so often in the first rows."""

_NUMBERS: Final = {1: pyarrow.int8(), 2: pyarrow.int16(), 4: pyarrow.int32(), 8: pyarrow.int64()}


def sorted_by_key(table: pyarrow.Table, schema: RowSchema) -> pyarrow.Table:
    """Return ``table`` in the order of keys; rows with one key stay in their order."""
    if 2 <= len(table) <= FEW_ROWS:
        return pyarrow.Table.from_batches([few_sorted(table, schema)[0]])
    order = order_by_key(table, schema)
    return table if order is None else table.combine_chunks().take(order)


def order_by_key(table: pyarrow.Table, schema: RowSchema) -> pyarrow.Array | None:
    """Return the indices of rows in the order of keys; ``None`` where they are in it.

    Rows with one key stay in their order.
    """
    if len(table) < 2:
        return None
    key = table.select(schema.key).combine_chunks()
    columns = key_columns(key, schema)
    if is_sorted(columns):
        return None
    columns = [_ranked(column) for column in columns]
    if len(table) >= ROWS_MIN:
        order = packed_order(columns, lambda rows: _order([one.take(rows) for one in columns]))
        if order is not None:
            return order
    return _order(columns)


def _order(columns: Sequence[pyarrow.ChunkedArray]) -> pyarrow.Array:
    """The order of rows by the columns of their keys."""
    if len(columns) == 1:
        return compute.sort_indices(columns[0])
    ranks = pyarrow.table(columns, names=[str(number) for number in range(len(columns))])
    ascending = [(name, "ascending") for name in ranks.column_names]
    return compute.sort_indices(ranks, sort_keys=ascending)


def few_sorted(table: pyarrow.Table, schema: RowSchema) -> tuple[pyarrow.RecordBatch, Key, Key]:
    """``sorted_by_key`` of one row to ``FEW_ROWS``; the first key and the last one, too."""
    batches = table.to_batches()
    batch = batches[0] if len(batches) == 1 else table.combine_chunks().to_batches()[0]
    columns = [_plain(batch.column(index)) for index in range(schema.key_columns)]
    keys: list[Any] = columns[0].to_pylist()
    if len(columns) > 1:
        keys = list(zip(keys, *[column.to_pylist() for column in columns[1:]], strict=True))
    order = sorted(range(len(keys)), key=keys.__getitem__)
    if order != [*range(len(keys))]:
        # To look at a list, Arrow takes five times as long.
        indexes = pyarrow.py_buffer(array("Q", order))
        taken = pyarrow.Array.from_buffers(pyarrow.uint64(), len(order), [None, indexes])
        batch = batch.take(taken)
    first, last = keys[order[0]], keys[order[-1]]
    return (batch, first, last) if len(columns) > 1 else (batch, (first,), (last,))


def key_columns(table: pyarrow.Table, schema: RowSchema) -> list[pyarrow.ChunkedArray]:
    """The columns of the key, in the form that ``key_at`` and the searches take."""
    return [_plain(table[name]) for name in schema.key]


def key_at(columns: Sequence[pyarrow.ChunkedArray], row: int) -> Key:
    """The key of a row."""
    return tuple(column[row].as_py() for column in columns)


def rows_below(columns: Sequence[pyarrow.ChunkedArray], key: Key) -> int:
    """How many rows, of some that are sorted, have a key below ``key``."""
    low, high = 0, len(columns[0])
    while low < high:
        middle = (low + high) // 2
        if key_at(columns, middle) < key:
            low = middle + 1
        else:
            high = middle
    return low


def rows_through(columns: Sequence[pyarrow.ChunkedArray], key: Key) -> int:
    """How many rows, of some that are sorted, have a key that is ``key`` or below it."""
    low, high = 0, len(columns[0])
    while low < high:
        middle = (low + high) // 2
        if key < key_at(columns, middle):
            high = middle
        else:
            low = middle + 1
    return low


def rows_below_bound(
    columns: Sequence[pyarrow.ChunkedArray], schema: RowSchema, bound: bytes
) -> int:
    """How many rows, of some that are sorted, have a bound below ``bound``."""
    low, high = 0, len(columns[0])
    while low < high:
        middle = (low + high) // 2
        if key_bound(schema, key_at(columns, middle)) < bound:
            low = middle + 1
        else:
            high = middle
    return low


def key_bound(schema: RowSchema, key: Key) -> bytes:
    """The bound of a key, 32 bytes at most."""
    out = bytearray()
    for kind, value in zip(schema.key_types, key, strict=False):
        out += _ordered(kind, value)
        if len(out) >= KEY_BOUND_BYTES_MAX:
            break
    return bytes(out[:KEY_BOUND_BYTES_MAX])


def is_sorted(columns: Sequence[pyarrow.ChunkedArray]) -> bool:
    """Whether rows are in the order of their keys, of which these are the columns."""
    rows = len(columns[0])
    ordered = None
    for column in reversed(columns):
        before, after = column.slice(0, rows - 1), column.slice(1)
        if ordered is None:
            ordered = compute.less_equal(before, after)
        else:
            same = compute.and_(compute.equal(before, after), ordered)
            ordered = compute.or_(compute.less(before, after), same)
    return bool(compute.all(ordered).as_py())


def repeats(column: pyarrow.ChunkedArray) -> bool:
    """Whether values come often, so that a dictionary of them is worth its time."""
    sample = column.slice(0, SAMPLE_ROWS)
    return bool(compute.count_distinct(sample).as_py() * REPEATED <= len(sample))


def _ordered(kind: pyarrow.DataType, value: Any) -> bytes:
    if isinstance(value, bytes):
        return value[:KEY_BOUND_BYTES_MAX].replace(b"\0", b"\0\xff") + b"\0\0"
    if isinstance(value, bool):
        return bytes([value])
    size = kind.bit_width // 8
    if isinstance(value, Decimal):
        sign, digits, _ = value.as_tuple()
        value = int("".join(map(str, digits))) * (-1 if sign else 1)
    if not types.is_unsigned_integer(kind):
        value += 1 << 8 * size - 1
    return int(value).to_bytes(size, "big")


def _plain(column: pyarrow.ChunkedArray | pyarrow.Array) -> pyarrow.ChunkedArray | pyarrow.Array:
    """The same order in a type that pyarrow sorts, and whose values Python orders alike."""
    kind = column.type
    if types.is_integer(kind):
        return column
    if types.is_string(kind):
        return column.cast(pyarrow.binary())
    if types.is_large_string(kind):
        return column.cast(pyarrow.large_binary())
    if types.is_temporal(kind) or types.is_decimal32(kind) or types.is_decimal64(kind):
        number = _NUMBERS[kind.bit_width // 8]
        if isinstance(column, pyarrow.Array):
            return column.view(number)
        return pyarrow.chunked_array([chunk.view(number) for chunk in column.chunks], number)
    return column


def _ranked(column: pyarrow.ChunkedArray) -> pyarrow.ChunkedArray:
    """The same order in numbers, where a string comes often: they are sorted four times as fast."""
    kind = column.type
    if not (types.is_binary(kind) or types.is_large_binary(kind)):
        return column
    if not repeats(column):
        return column
    coded = column.combine_chunks().dictionary_encode()
    ranks = compute.sort_indices(compute.sort_indices(coded.dictionary))  # the inverse
    return pyarrow.chunked_array([ranks.take(coded.indices)])
