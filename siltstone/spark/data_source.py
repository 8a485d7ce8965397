"""The data source itself: what Spark calls in the driver and in its workers.

Spark asks for the schema in one process and plans in another, which end when they have been idle.
So each method loads what it needs by itself, and the first query of a session waits less: the
planning of a read needs no sink, the schema no store.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from siltstone.spark.columns import arrow_schema, default_schema
from siltstone.spark.options import names_collection, names_keyspace, parse_options
from siltstone.spark.stream_options import ALL_KNOWN, parse_stream_options
from siltstone.spark.write_options import parse_write_options

if TYPE_CHECKING:
    import pyarrow

    from siltstone.spark.options import ReadOptions

FORMAT: Final = "siltstone"


class SegmentSource(DataSource):
    """``spark.read.format("siltstone")``: the lines, events or bytes of segments, a row each.

    Or the rows of a collection, or the objects of a keyspace, where the options name one.
    """

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """The columns that the options ask for: only ``value``, if they say nothing.

        Of a collection they are all of its columns, if they say nothing, and of a keyspace all
        that the fold has.
        """
        if names_keyspace(self.options):
            from siltstone.spark.keyspace_columns import keyspace_schema
            from siltstone.spark.keyspace_options import parse_keyspace_options

            return keyspace_schema(parse_keyspace_options(self.options))
        if names_collection(self.options):
            from siltstone.spark.collection_options import (
                asks_for_stream,
                parse_collection_options,
                parse_collection_stream_options,
            )
            from siltstone.spark.collection_reader import collection_schema, stream_schema

            if asks_for_stream(self.options):
                return stream_schema(parse_collection_stream_options(self.options))
            return collection_schema(parse_collection_options(self.options))
        return default_schema(parse_options(self.options, ALL_KNOWN))

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the schema that the user asked for. Spark calls it by keyword."""
        if names_keyspace(self.options):
            from siltstone.spark.keyspace_options import parse_keyspace_options
            from siltstone.spark.keyspace_reader import KeyspaceSourceReader

            return KeyspaceSourceReader(parse_keyspace_options(self.options), schema)
        if names_collection(self.options):
            from siltstone.spark.collection_options import parse_collection_options
            from siltstone.spark.collection_reader import CollectionSourceReader

            return CollectionSourceReader(parse_collection_options(self.options), schema)
        options = parse_options(self.options)
        return SegmentSourceReader(options, arrow_schema(options, schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """A stream of the schema that the user asked for. Spark calls it by keyword."""
        self._refuse_keyspace("streams")
        if names_collection(self.options):
            from siltstone.spark.collection_options import parse_collection_stream_options
            from siltstone.spark.collection_stream import CollectionStreamReader

            return CollectionStreamReader(parse_collection_stream_options(self.options), schema)
        from siltstone.spark.stream import SegmentStreamReader

        options = parse_stream_options(self.options)
        return SegmentStreamReader(options, arrow_schema(options.read, schema))

    def _refuse_keyspace(self, what: str) -> None:
        """Refuse what Spark cannot do with a keyspace. Raises ``UnsupportedError``."""
        if names_keyspace(self.options):
            from siltstone.spark.keyspace_options import refuse_keyspace

            raise refuse_keyspace(what)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A writer of a data frame. It begins the write, so no task runs in vain."""
        self._refuse_keyspace("writes")
        if names_collection(self.options):
            from siltstone.spark.collection_options import parse_collection_write_options
            from siltstone.spark.collection_writer import CollectionSinkWriter

            write = parse_collection_write_options(self.options, overwrite=overwrite)
            return CollectionSinkWriter(write, schema)
        from siltstone.spark.sink import SegmentSinkWriter

        return SegmentSinkWriter(parse_write_options(self.options, overwrite=overwrite), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """A writer of the batches of a stream."""
        self._refuse_keyspace("streams")
        if names_collection(self.options):
            from siltstone.spark.collection_options import parse_collection_sink_options
            from siltstone.spark.collection_stream_writer import CollectionStreamWriter

            write = parse_collection_sink_options(self.options, overwrite=overwrite)
            return CollectionStreamWriter(write, schema)
        from siltstone.spark.sink import SegmentStreamWriter

        return SegmentStreamWriter(parse_write_options(self.options, overwrite=overwrite), schema)


class SegmentSourceReader(DataSourceReader):
    """Plans ranges in the driver and reads some of them in each task.

    It is pickled with every task, and holds neither handles nor secrets. There is no
    ``pushFilters``: Spark keeps a reader for a data frame, and so one query's filter would narrow
    the next.
    """

    def __init__(self, options: ReadOptions, schema: pyarrow.Schema) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Open the store read-only and plan over the segments as they are now."""
        from siltstone.spark.resolve import resolve_tasks

        cores = len(os.sched_getaffinity(0))
        return [InputPartition(task) for task in resolve_tasks(self._options, cores)]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Read the rows of the ranges of one task."""
        from siltstone.spark.rows import RowShape, read_task

        # ``None`` is what Spark makes of an empty list of partitions.
        shape = RowShape(options=self._options, schema=self._schema)
        return read_task(shape, partition.value or ())


def register(spark: SparkSession) -> None:
    """Make ``spark.read.format("siltstone")`` known to a session. Repeating it changes nothing.

    In a thread that has no active session it becomes that: Spark's writers look for formats there.
    """
    with _active(spark):
        spark.dataSource.register(SegmentSource)


@contextmanager
def _active(spark: SparkSession) -> Iterator[None]:
    """Make a session the active one of this thread, for the block, or for good if there is none.

    A name that the active session knows is refused to every other one.
    """
    session = getattr(spark, "_jsparkSession", None)
    if session is None:  # of Spark Connect, whose server sees to it
        yield
        return
    sessions = SparkSession._get_j_spark_session_class(spark._jvm)
    before = sessions.getActiveSession()
    sessions.setActiveSession(session)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
