"""Updates of an append as parts: sorted by key, inline where they are few."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pyarrow
from pyarrow import compute

from siltstone.collections.rows.consolidate import consolidate, has_negatives, sum_of_diffs
from siltstone.collections.rows.encoded_part import EncodedPart, checked_sum
from siltstone.collections.rows.key_order import (
    FEW_ROWS,
    Key,
    few_sorted,
    key_at,
    key_bound,
    key_columns,
    order_by_key,
)
from siltstone.collections.rows.ordered_rows import OrderedRows
from siltstone.collections.rows.part_file import (
    GROUP_BYTES,
    GROUP_ROWS,
    PartWriter,
    part_fields,
)
from siltstone.collections.rows.row_schema import DIFF, TIME, RowSchema
from siltstone.core.checksums import crc32c
from siltstone.core.constants import KIB, MIB
from siltstone.core.records.collection_frontier import AT_COMMIT
from siltstone.core.records.collection_part import CollectionPart, PartFlags

PART_BYTES: Final = 128 * MIB
"""Of an object, at most, unless settings say otherwise."""

_NO_FLAGS: Final = PartFlags(0)

INLINE_BYTES: Final = 4 * KIB
"""Of a part that lies in the state. An object of its own costs one more write than these bytes."""


def encode_updates(
    updates: pyarrow.Table,
    schema: RowSchema,
    schema_id: int,
    *,
    time: int = AT_COMMIT,
    part_size: int = PART_BYTES,
    inline: bool = True,
) -> Iterator[EncodedPart]:
    """Yield the parts of one run that holds ``updates``; none where all of them cancel.

    Args:
        updates: with ``_time`` or without, with ``_diff`` or without, in any order.
        schema: of their other columns.
        schema_id: its id.
        time: of all rows, where there is no ``_time``; by default they get it at the commit.
        part_size: of an object, in bytes, at most.
        inline: whether a part of 4 KiB or less may be inline.

    Raises:
        CollectionError: a sum of diffs is beyond 64 bits.
    """
    if updates.schema != schema.arrow:  # Most appends have no times and no diffs of their own.
        updates, only = _without_constants(_without_zeros(updates))
        time = time if only is None else only
    if not len(updates):
        return
    order = None
    if len(updates) <= FEW_ROWS:
        batch, first, last = few_sorted(updates, schema)
        # Of few rows the form itself tells their bytes as fast as they are counted.
        part = _inline_part(batch, schema, schema_id, time, (first, last)) if inline else None
        updates = updates if part else pyarrow.Table.from_batches([batch])
    else:
        order, part = order_by_key(updates, schema), None
        # Padding may add, empty offsets go.
        if inline and is_within(updates, 2 * INLINE_BYTES):
            shown = updates if order is None else updates.combine_chunks().take(order)
            (batch,) = shown.combine_chunks().to_batches()
            part = _inline_part(batch, schema, schema_id, time, _ends(batch, schema))
    if part is not None:
        yield part
        return
    names = updates.column_names
    parts = PartsWriter(
        schema,
        schema_id,
        time=None if TIME in names else time,
        with_diff=DIFF in names,
        part_size=part_size,
    )
    yield from parts.add(updates, order)
    yield from parts.finish()


class PartsWriter:
    """Writes updates that come in the order of keys into as many objects as they need.

    An object has ``_diff`` only if one in it is not 1. The first such row ends an object that has
    none, so there are at most twice as many objects.

    Args:
        schema: of the rows.
        schema_id: its id.
        time: of all rows, where they have no ``_time``; ``None`` where they have.
        with_diff: whether they have ``_diff``.
        part_size: of an object, in bytes, at most.
    """

    def __init__(
        self,
        schema: RowSchema,
        schema_id: int,
        *,
        time: int | None,
        with_diff: bool,
        part_size: int,
    ) -> None:
        self._schema = schema
        self._schema_id = schema_id
        self._time = time
        self._with_diff = with_diff
        self._limit = part_size - part_size // 16  # the rest is for sums and footer
        self._writer: PartWriter | None = None

    def add(
        self, updates: pyarrow.Table, order: pyarrow.Array | None = None
    ) -> Iterator[EncodedPart]:
        """Take rows, none of whose keys is below one before, and yield objects that are full.

        Args:
            updates: the rows.
            order: the indices by which they are in the order of keys; ``None``: they are in it.
        """
        rows = step_rows(updates, min(GROUP_BYTES, self._limit // 4))
        ordered = OrderedRows(updates, order)
        for start in range(0, len(updates), rows):
            piece = ordered.piece(start, rows)
            with_diff = self._with_diff and not _come_once(piece)
            if self._writer and (
                self._writer.size_bytes + piece.nbytes > self._limit
                or (with_diff and not self._writer.with_diff)
            ):
                yield self._writer.finish()
                self._writer = None
            if self._writer is None:
                self._writer = PartWriter(
                    self._schema, self._schema_id, time=self._time, with_diff=with_diff
                )
            self._writer.add(piece)

    def finish(self) -> Iterator[EncodedPart]:
        """Yield the last object, where there is one."""
        if self._writer is not None:
            yield self._writer.finish()
            self._writer = None


def step_rows(table: pyarrow.Table, size_bytes: int) -> int:
    """How many rows of ``table`` are about ``size_bytes``: 1 to 65,536."""
    if not len(table):
        return GROUP_ROWS
    rows = int(len(table) * size_bytes // max(1, table.nbytes))
    return max(1, min(GROUP_ROWS, rows))


def is_within(table: pyarrow.Table, size_bytes: int) -> bool:
    """Whether the rows of ``table`` are so many bytes at most."""
    # To count the bytes of rows takes thirty times as long as to ask what they keep in memory,
    # which is more than that unless columns share it.
    return bool(table.get_total_buffer_size() <= size_bytes or table.nbytes <= size_bytes)


def _without_zeros(updates: pyarrow.Table) -> pyarrow.Table:
    """Leave out what cancels, as far as it is known."""
    if DIFF not in updates.column_names:
        return updates
    if has_negatives(updates):
        return consolidate(updates)
    return updates.filter(compute.not_equal(updates[DIFF], 0))


def _without_constants(updates: pyarrow.Table) -> tuple[pyarrow.Table, int | None]:
    """Leave out ``_time`` where it does not differ, and ``_diff`` where all are 1."""
    only = None
    if TIME in updates.column_names:
        bounds = compute.min_max(updates[TIME]).as_py()
        if bounds["min"] == bounds["max"]:
            only = bounds["min"]
            updates = updates.drop_columns([TIME])
    if DIFF in updates.column_names and _come_once(updates):
        updates = updates.drop_columns([DIFF])
    return updates, only


def _come_once(updates: pyarrow.Table) -> bool:
    """Whether all of ``_diff`` are 1."""
    bounds = compute.min_max(updates[DIFF]).as_py()
    return bool(bounds["min"] == bounds["max"] == 1)


def _ends(updates: pyarrow.RecordBatch, schema: RowSchema) -> tuple[Key, Key]:
    """The first key and the last one, of rows that are sorted."""
    keys = key_columns(pyarrow.Table.from_batches([updates]), schema)
    return key_at(keys, 0), key_at(keys, len(updates) - 1)


def _inline_part(
    batch: pyarrow.RecordBatch,
    schema: RowSchema,
    schema_id: int,
    time: int,
    ends: tuple[Key, Key],
) -> EncodedPart | None:
    """The rows as a part that lies in the state; ``None`` where they are too many bytes.

    ``ends`` are the first key and the last one.
    """
    flags = _NO_FLAGS
    time_min = time_max = time
    diff_sum = len(batch)
    if batch.schema != schema.arrow:
        updates = pyarrow.Table.from_batches([batch])
        names = updates.column_names
        if TIME in names:
            flags |= PartFlags.HAS_TIME
            bounds = compute.min_max(updates[TIME]).as_py()
            time, time_min, time_max = bounds["min"], bounds["min"], bounds["max"]
        if DIFF in names:
            flags |= PartFlags.HAS_DIFF
            diff_sum = checked_sum(sum_of_diffs(updates))
            if has_negatives(updates):
                flags |= PartFlags.HAS_NEGATIVES
        fields = part_fields(schema, with_time=TIME in names, with_diff=DIFF in names)
        (batch,) = updates.select(fields.names).cast(fields).to_batches()
    if pyarrow.ipc.get_record_batch_size(batch) > INLINE_BYTES:
        return None
    data = batch.serialize().to_pybytes()
    part = CollectionPart(
        inline=data,
        length=len(data),
        crc=crc32c(data),
        rows=len(batch),
        schema_id=schema_id,
        flags=flags,
        time=time,
        time_min=time_min,
        time_max=time_max,
        diff_sum=diff_sum,
        key_min=key_bound(schema, ends[0]),
        key_max=key_bound(schema, ends[1]),
    )
    return EncodedPart(part)


def at_time(part: CollectionPart, time: int) -> CollectionPart:
    """Return a part whose rows get their time at the commit, at this time; others as they are."""
    if part.time != AT_COMMIT:
        return part
    return replace(part, time=time, time_min=time, time_max=time)
