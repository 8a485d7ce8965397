"""Rows of a table in another order, made some at a time."""

from __future__ import annotations

from typing import Final

import pyarrow
from pyarrow import types

from siltstone.collections.rows.key_order import repeats

CODED_ROWS_MIN: Final = 65_536
"""Of fewer rows the values are in the caches of the processor anyway."""

VALUES_MAX: Final = 4_096
"""Of a dictionary: so few values stay in the caches, while rows are picked from everywhere."""


class OrderedRows:
    """Gives the rows of a table in an order.

    All of them at once would be a second copy in memory, and memory that was never used is dear.

    Args:
        table: the rows.
        order: indices of rows; ``None`` leaves them as they are.
    """

    def __init__(self, table: pyarrow.Table, order: pyarrow.Array | None) -> None:
        self._table = table
        self._order = order
        self._columns: list[pyarrow.Array] = []
        if order is None:
            return
        many = len(table) >= CODED_ROWS_MIN
        columns = [_coded(column) if many else column for column in table.columns]
        names = [str(number) for number in range(len(columns))]
        joined = pyarrow.table(columns, names=names).combine_chunks()
        if any(column.num_chunks != 1 for column in joined.columns):
            # A column of more than 2 GiB is not one array, and each pick of it joins it.
            self._table = table.combine_chunks().take(order)
            self._order = None
            return
        self._columns = [column.chunk(0) for column in joined.columns]

    def piece(self, start: int, rows: int) -> pyarrow.Table:
        """Return so many rows from ``start`` on, or those that there are."""
        if self._order is None:
            return self._table.slice(start, rows)
        some = self._order.slice(start, rows)
        arrays = [_picked(column, some) for column in self._columns]
        return pyarrow.Table.from_arrays(arrays, schema=self._table.schema)


def _coded(column: pyarrow.ChunkedArray) -> pyarrow.ChunkedArray:
    """The column as places in a dictionary, where it is text or bytes of few values.

    To pick a row of it reads a number, and its bytes from a small place.
    """
    kind = column.type
    is_text = types.is_string(kind) or types.is_large_string(kind)
    is_bytes = types.is_binary(kind) or types.is_large_binary(kind)
    if not (is_text or is_bytes) or not repeats(column):
        return column
    coded = column.dictionary_encode()
    few = all(len(chunk.dictionary) <= VALUES_MAX for chunk in coded.chunks)
    return coded if few else column


def _picked(column: pyarrow.Array, rows: pyarrow.Array) -> pyarrow.Array:
    if isinstance(column, pyarrow.DictionaryArray):
        return column.dictionary.take(column.indices.take(rows))
    return column.take(rows)
