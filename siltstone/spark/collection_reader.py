"""The rows of a collection at one time: a plan in the driver, and a split in each task.

Spark plans in a process that ends soon after, so nothing holds a lease while tasks run. What was
replaced meanwhile stays for ``garbage.delay``; a task that comes later says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import LongType, StructField, StructType

from siltstone.collections.blocking import Collection, open_collections
from siltstone.collections.rows.row_schema import DIFF
from siltstone.collections.splits import CollectionSplit, read_split
from siltstone.core.errors import CollectionSchemaError, LeaseExpiredError, SettingsError
from siltstone.spark.collection_options import CollectionReadOptions
from siltstone.spark.collection_types import arrow_form, spark_schema, to_spark
from siltstone.spark.worker_memory import settle


def collection_schema(options: CollectionReadOptions) -> StructType:
    """Return the columns that a read shows: those of the collection now, or some of them.

    Raises:
        CollectionNotFoundError: there is no such collection.
        CollectionSchemaError: there is no such column, or Spark has no type for it.
        SiltstoneError: whatever opening the collections of a store raises.
    """
    with open_collections(options.store) as collections:
        return _shown(options, collections.collection(options.collection).schema)


class CollectionSourceReader(DataSourceReader):
    """Plans splits in the driver, and reads one in each task.

    It is pickled with every task, and holds neither handles nor secrets.

    Args:
        options: what to read.
        schema: the columns that Spark wants, which a user may have chosen.
    """

    def __init__(self, options: CollectionReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Plan a read of the rows at the time that was asked for, or of the newest complete one."""
        return [InputPartition(split) for split in planned_splits(self._options, self._schema)]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Read the rows of one split."""
        if partition.value is not None:  # which Spark makes of an empty list
            yield from split_rows(self._options.store, partition.value, self._schema)


def planned_splits(
    options: CollectionReadOptions, schema: StructType
) -> tuple[CollectionSplit, ...]:
    """Return the splits of a read; none where there are no rows for sure.

    Raises:
        CollectionNotFoundError: there is no such collection.
        CollectionDroppedError: it was dropped.
        SinceError: the time is gone.
        SettingsError: the time is not complete yet, or the collection has no such columns.
        SiltstoneError: whatever opening the collections of a store raises.
    """
    with open_collections(options.store) as collections:
        collection = collections.collection(options.collection)
        check_complete(collection, options.as_of, "option 'asOf'")
        names = [field.name for field in schema if not (options.diffs and field.name == DIFF)]
        _check_columns(options, collection, schema)
        snapshot = collection.snapshot(options.as_of, columns=names, diffs=options.diffs)
        return snapshot.splits()


def split_rows(
    store: str, split: CollectionSplit, schema: StructType
) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows of a split in the form that Spark takes. Raises as ``read_split``."""
    settle()
    form = arrow_form(schema)
    try:
        for batch in read_split(store, split):
            yield to_spark(batch, form)
    except LeaseExpiredError as error:
        raise LeaseExpiredError(
            "rows of a split were replaced and collected while the job ran; run it again, and "
            "raise garbage.delay, or read by siltstone.spark.collection(), which holds a lease",
            collection=error.collection,
        ) from error


def chosen_columns(
    name: str, columns: Sequence[str] | None, there: pyarrow.Schema
) -> pyarrow.Schema:
    """Return some columns of a collection; all where ``columns`` is ``None``.

    Raises:
        CollectionSchemaError: there is no such column.
    """
    for column in columns or ():
        if column not in there.names:
            raise CollectionSchemaError(
                "the collection has no such column", collection=name, column=repr(column)
            )
    names = there.names if columns is None else columns
    return pyarrow.schema([there.field(column) for column in names])


def check_complete(collection: Collection, as_of: int | None, said: str) -> None:
    """Refuse a time that is not complete yet: nothing waits for it.

    Args:
        collection: its newest state is read.
        as_of: the time; ``None`` is always complete.
        said: what the time was given by, for the message.

    Raises:
        SettingsError: it is not complete; the message has the upper.
        CollectionDroppedError: the collection was dropped.
    """
    upper = collection.info().upper
    if as_of is not None and upper is not None and as_of >= upper:
        raise SettingsError(
            f"{said} is {as_of}, and that time is not complete yet: the upper of collection "
            f"{collection.name!r} is {upper}"
        )


def _shown(options: CollectionReadOptions, columns: pyarrow.Schema) -> StructType:
    shown = spark_schema(chosen_columns(options.collection, options.columns, columns))
    counts = [StructField(DIFF, LongType(), nullable=False)] if options.diffs else []
    return StructType([*shown.fields, *counts])


def _check_columns(
    options: CollectionReadOptions, collection: Collection, schema: StructType
) -> None:
    """Refuse a schema that a user chose and that the collection does not have."""
    shown = _shown(options, collection.schema)
    there = {field.name: field for field in shown}
    names = [field.name for field in schema]
    fits = all(
        field.name in there
        and field.dataType == there[field.name].dataType
        and (field.nullable or not there[field.name].nullable)
        for field in schema
    )
    if not fits or not names or len(set(names)) != len(names) or options.diffs > (DIFF in names):
        raise SettingsError(
            f"a read of collection {options.collection!r} shows columns of {shown.simpleString()}"
            f"{', and _diff always' if options.diffs else ''}, not {schema.simpleString()}"
        )
