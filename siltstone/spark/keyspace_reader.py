"""The rows of a keyspace at one moment: a plan in the driver, and a split in each task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from siltstone.objects.records.head import decode_head
from siltstone.objects.records.keys import decode_head_key
from siltstone.spark.keyspace_columns import (
    VALUE,
    Decoded,
    head_batch,
    index_batch,
    keyspace_form,
)
from siltstone.spark.keyspace_options import Fold, KeyspaceReadOptions
from siltstone.spark.keyspace_plan import KeyspaceSplit, plan_keyspace, unpack_rows
from siltstone.spark.packed_values import PackedValues
from siltstone.spark.worker_memory import settle

BATCH_ROWS = 10_000
"""Heads that are decoded at a time."""


class KeyspaceSourceReader(DataSourceReader):
    """Plans splits in the driver, and reads one in each task.

    It is pickled with every task, and holds neither handles nor secrets.

    Args:
        options: what to read.
        schema: the columns that Spark wants, which a user may have chosen.

    Raises:
        SettingsError: the schema is no choice of the columns that there are.
    """

    def __init__(self, options: KeyspaceReadOptions, schema: StructType) -> None:
        self._options = options
        self._form = keyspace_form(options, schema)

    def partitions(self) -> Sequence[InputPartition]:
        """Plan a read of the keyspace as it is now. Raises as ``plan_keyspace``."""
        splits = plan_keyspace(self._options, values=VALUE in self._form.names)
        return [InputPartition(split) for split in splits]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Read the rows of one split. Raises as ``PackedValues.read``."""
        if partition.value is not None:  # which Spark makes of an empty list
            settle()
            yield from split_rows(self._options, self._form, partition.value)


def split_rows(
    options: KeyspaceReadOptions, form: pyarrow.Schema, split: KeyspaceSplit
) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows of a split in the form that Spark takes."""
    rows = unpack_rows(split.rows)
    if options.fold is Fold.INDEX:
        yield index_batch(form, options, split.tag, rows)
    elif split.reads_values:
        found = _decoded(rows)
        with PackedValues(split.store, split.uuid, split.keyspace, split.windows) as values:
            for part in values.read(found):
                if part:
                    heads = [(key, head) for key, head, _ in part]
                    yield head_batch(form, heads, [value for _, _, value in part])
    else:
        for start in range(0, rows.num_rows, BATCH_ROWS):
            yield head_batch(form, _decoded(rows.slice(start, BATCH_ROWS)))


def _decoded(rows: pyarrow.RecordBatch) -> list[Decoded]:
    keys, heads = (column.to_pylist() for column in rows.columns)
    return [
        (decode_head_key(key), decode_head(head, where=key.hex()))
        for key, head in zip(keys, heads, strict=True)
    ]
