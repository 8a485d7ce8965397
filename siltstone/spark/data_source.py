"""The data source itself: what Spark calls in the driver and in its workers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import pyarrow
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import BinaryType, DataType, StringType, StructField, StructType

from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import SettingsError
from siltstone.spark.arrow_lines import line_batches
from siltstone.spark.byte_source import ByteSource
from siltstone.spark.lines import read_lines
from siltstone.spark.options import ReadOptions, parse_options
from siltstone.spark.ranges import LineRange
from siltstone.spark.resolve import resolve_ranges, resolve_window
from siltstone.store.assemble import open_storage
from siltstone.store.effective_settings import load_settings

FORMAT: Final = "siltstone"
COLUMN: Final = "value"


class SegmentSource(DataSource):
    """``spark.read.format("siltstone")``: the lines of one segment, a row each."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """One column of strings."""
        parse_options(self.options)
        return StructType([StructField(COLUMN, StringType())])

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the schema that the user asked for. Spark calls it by keyword."""
        return SegmentReader(parse_options(self.options), arrow_schema(schema))


class SegmentReader(DataSourceReader):
    """Plans ranges in the driver and reads one of them in each task.

    It is pickled with every task, and holds neither handles nor secrets. There is no
    ``pushFilters``: Spark keeps a reader for a data frame, and so one query's filter would narrow
    the next.
    """

    def __init__(self, options: ReadOptions, schema: pyarrow.Schema) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Open the store read-only and plan over the segment as it is now."""
        cores = len(os.sched_getaffinity(0))
        return [InputPartition(part) for part in resolve_ranges(self._options, cores)]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Read the lines of one range."""
        part: LineRange | None = partition.value
        if part is None:  # what Spark makes of an empty list of partitions
            return
        storage = open_storage(load_settings(part.store), SystemEnvironment())
        try:
            source = ByteSource(storage, part.window, partial(resolve_window, part))
            views = read_lines(
                source.read, part.start, part.stop, part.end, at_line_start=part.at_line_start
            )
            yield from line_batches(views, self._schema)
        finally:
            storage.close()


def arrow_schema(schema: StructType) -> pyarrow.Schema:
    """The Arrow form of a user's schema, which may choose between text and raw bytes.

    Raises:
        SettingsError: it is not one column called ``value`` of type string or binary.
    """
    kinds: dict[DataType, pyarrow.DataType] = {
        StringType(): pyarrow.string(),
        BinaryType(): pyarrow.binary(),
    }
    fields = list(schema)
    if len(fields) != 1 or fields[0].name != COLUMN or fields[0].dataType not in kinds:
        raise SettingsError(
            f"a segment has one column, '{COLUMN} STRING' or '{COLUMN} BINARY', "
            f"not {schema.simpleString()}"
        )
    field = fields[0]
    return pyarrow.schema([pyarrow.field(COLUMN, kinds[field.dataType], nullable=field.nullable)])


def register(spark: SparkSession) -> None:
    """Make ``spark.read.format("siltstone")`` known to a session. Repeating it changes nothing."""
    spark.dataSource.register(SegmentSource)
