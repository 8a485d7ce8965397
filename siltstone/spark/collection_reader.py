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
from siltstone.collections.blocking.read_collections import collections_to_read
from siltstone.collections.rows.row_schema import DIFF, TIME
from siltstone.collections.splits import CollectionSplit, read_split
from siltstone.core.errors import CollectionSchemaError, LeaseExpiredError, SettingsError
from siltstone.spark.collection_options import CollectionReadOptions, CollectionStreamOptions
from siltstone.spark.collection_types import arrow_form, spark_schema, to_spark
from siltstone.spark.worker_memory import settle


def collection_schema(options: CollectionReadOptions) -> StructType:
    """Return the columns that a read shows: those of the collection now, or some of them.

    Raises:
        CollectionNotFoundError: there is no such collection.
        CollectionSchemaError: there is no such column, or Spark has no type for it.
        SiltstoneError: whatever opening the collections of a store raises.
    """
    with collections_to_read(options.store) as collections:
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
            again = (
                "run it again, and raise garbage.delay, or read by "
                "siltstone.spark.collection(), which holds a lease"
            )
            yield from share_rows(self._options.store, partition.value, self._schema, again)


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
    with collections_to_read(options.store) as collections:
        collection = collections.collection(options.collection)
        check_complete(collection, options.as_of, "option 'asOf'")
        names = [field.name for field in schema if not (options.diffs and field.name == DIFF)]
        shown = _shown(options, collection.schema)
        check_chosen(collection.name, shown, schema, always=DIFF if options.diffs else None)
        snapshot = collection.snapshot(options.as_of, columns=names, diffs=options.diffs)
        return snapshot.splits()


def share_rows(
    store: str, split: CollectionSplit, schema: StructType, again: str
) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows of a split in the form that Spark takes.

    Args:
        store: settings file or folder.
        split: what is read.
        schema: columns to show.
        again: what to do if rows are gone.

    Raises as ``read_split``.
    """
    settle()
    form = arrow_form(schema)
    try:
        for batch in read_split(store, split):
            yield to_spark(batch, form)
    except LeaseExpiredError as error:
        raise LeaseExpiredError(
            f"rows were replaced and collected while the job ran; {again}",
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


def stream_schema(options: CollectionStreamOptions) -> StructType:
    """Return the columns that a stream shows. Raises as ``collection_schema``."""
    with open_collections(options.store) as collections:
        return stream_schema_of(options, collections.collection(options.collection).schema)


def stream_schema_of(options: CollectionStreamOptions, columns: pyarrow.Schema) -> StructType:
    """Return the columns that a stream of a collection with these columns shows.

    Raises:
        CollectionSchemaError: there is no such column, or Spark has no type for it.
    """
    shown = spark_schema(chosen_columns(options.collection, options.columns, columns))
    added = [StructField(name, LongType(), nullable=False) for name in (TIME, DIFF)]
    return StructType([*shown.fields, *added])


def check_chosen(name: str, shown: StructType, schema: StructType, *, always: str | None) -> None:
    """Refuse a schema that a user chose and that the collection does not have.

    Args:
        name: of the collection.
        shown: all columns that there are.
        schema: what the user chose.
        always: a column that may not be left out.

    Raises:
        SettingsError: the schema is no choice of what is shown.
    """
    there = {field.name: field for field in shown}
    names = [field.name for field in schema]
    fits = all(
        field.name in there
        and field.dataType == there[field.name].dataType
        and (field.nullable or not there[field.name].nullable)
        for field in schema
    )
    lacks = always is not None and always not in names
    if not fits or not names or len(set(names)) != len(names) or lacks:
        raise SettingsError(
            f"a read of collection {name!r} shows columns of {shown.simpleString()}"
            f"{f', and {always} always' if always else ''}, not {schema.simpleString()}"
        )
