"""Collections by Spark's own reader of Parquet, which no row of Python slows down."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from itertools import groupby
from pathlib import Path
from typing import Final

import pyarrow
from pyarrow import types
from pyspark.sql import Column, DataFrame, SparkSession, functions
from pyspark.sql.types import DoubleType, FloatType, LongType, StructField, StructType

from siltstone.collections.blocking import open_collections
from siltstone.collections.rows.row_schema import DIFF, TIME
from siltstone.collections.snapshot_files import SnapshotFile, SnapshotFiles
from siltstone.core.errors import CollectionSchemaError
from siltstone.spark.collection_reader import check_complete, chosen_columns
from siltstone.spark.collection_types import arrow_form, spark_schema, spark_type, to_spark

OPTIONS: Final = {
    "parquet.page.verify-checksum.enabled": "true",
    "datetimeRebaseMode": "CORRECTED",  # Arrow counts days as Spark does.
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
}
"""Of the reader. Without the first one a flipped bit may come as data."""

_PATTERN: Final = str.maketrans({character: f"\\{character}" for character in "\\{}[]*?"})
"""What Spark takes for a pattern in a path, written so that it is none."""

_SIGNS: Final = TIME
"""Column that tells which zeros have a sign, by a name that no column of a collection has: grouping
takes -0.0 and 0.0 for equal, and gives 0.0."""


@contextmanager
def collection(
    spark: SparkSession,
    store: Path | str,
    name: str,
    *,
    as_of: int | None = None,
    columns: Sequence[str] | None = None,
) -> Iterator[DataFrame]:
    """Show the rows of a collection at one time as a data frame, for the block.

    Spark reads the objects of the collection itself, by columns, with the filters that it can push
    down, and verifies the checksums of pages. This process holds a lease meanwhile: use the frame
    inside the block only.

    Args:
        spark: a session.
        store: the settings file, or the folder that holds it.
        name: of the collection.
        as_of: the time; the newest complete one if not given.
        columns: names of columns, in this order; all if not given.

    Raises:
        CollectionNotFoundError: there is no such collection.
        SinceError: ``as_of`` is gone.
        SettingsError: ``as_of`` is not complete yet.
        CollectionSchemaError: there is no such column, or Spark's reader has no type for it.
        CapabilityError: objects of this long-term storage have no address that Spark knows.
        SiltstoneError: whatever opening the collections of a store raises.
    """
    with open_collections(store) as collections:
        opened = collections.collection(name)
        check_complete(opened, as_of, "as_of")
        with opened.snapshot(as_of, lease=True) as snapshot:
            files = snapshot.files()
            shown = chosen_columns(name, columns, files.columns)
            _check_halves(files, shown)
            yield _frame(spark, files, shown)


def _check_halves(files: SnapshotFiles, shown: pyarrow.Schema) -> None:
    for field in shown:
        if files.files and types.is_float16(field.type):
            raise CollectionSchemaError(
                "Spark's reader of Parquet has no halves; leave the column out, or read by "
                "spark.read.format('siltstone')",
                column=repr(field.name),
                type=field.type,
            )


def _frame(spark: SparkSession, files: SnapshotFiles, shown: pyarrow.Schema) -> DataFrame:
    wanted = spark_schema(shown)
    # Rows that cancel are equal in all columns, also in those that are not shown.
    read = spark_schema(_readable(files.columns)) if files.cancels else wanted
    frames = [
        _of_files(spark, files, list(some), read)
        for _, some in groupby(sorted(files.files, key=_kind), _kind)
    ]
    if files.inline.num_rows or not frames:
        frames.append(_of_inline(spark, files.inline, read))
    if files.cancels:
        return _repeated(_settled(reduce(DataFrame.union, frames), read), wanted)
    return reduce(DataFrame.union, [_repeated(frame, wanted) for frame in frames])


def _readable(columns: pyarrow.Schema) -> pyarrow.Schema:
    return pyarrow.schema(
        [field for field in columns if spark_type(field.type) and not types.is_float16(field.type)]
    )


def _kind(file: SnapshotFile) -> tuple[bool, bool]:
    return file.has_later, file.has_counts


def _of_files(
    spark: SparkSession, files: SnapshotFiles, some: Sequence[SnapshotFile], read: StructType
) -> DataFrame:
    """The rows of files of one kind, with ``_diff`` where they have it or others cancel."""
    has_later, has_counts = _kind(some[0])
    extra = [TIME] * has_later + [DIFF] * has_counts
    schema = StructType([*read.fields, *(StructField(name, LongType()) for name in extra)])
    reader = spark.read.schema(schema).options(**OPTIONS)
    frame = reader.parquet(*(file.uri.translate(_PATTERN) for file in some))
    if has_later:
        assert files.as_of is not None, "where nothing was appended, there are no files"
        frame = frame.where(functions.col(TIME) <= files.as_of).drop(TIME)
    if files.cancels and not has_counts:
        frame = frame.withColumn(DIFF, functions.lit(1).cast("bigint"))
    return frame


def _of_inline(spark: SparkSession, rows: pyarrow.Table, read: StructType) -> DataFrame:
    """The rows that are in no file, with ``_diff``."""
    schema = StructType([*read.fields, StructField(DIFF, LongType(), nullable=False)])
    form = arrow_form(schema)
    batches = [to_spark(batch, form) for batch in rows.select(form.names).to_batches()]
    return spark.createDataFrame(pyarrow.Table.from_batches(batches, schema=form), schema)


def _settled(frame: DataFrame, read: StructType) -> DataFrame:
    """Each row once, with what its counts come to, above 0."""
    floats = [field.name for field in read if isinstance(field.dataType, FloatType | DoubleType)]
    signs = [
        functions.coalesce(
            (_column(name) == 0) & (_column(name).cast("string") == "-0.0"), functions.lit(False)
        )
        for name in floats
    ]
    if floats:
        frame = frame.withColumn(_SIGNS, functions.array(*signs))
    keys = [_column(name) for name in frame.columns if name != DIFF]
    frame = frame.groupBy(*keys).agg(functions.try_sum(_column(DIFF)).alias(DIFF))
    frame = frame.where(functions.coalesce(_column(DIFF), functions.lit(-1)) != 0)
    for number, name in enumerate(floats):
        signed = _column(_SIGNS)[number]
        below = functions.lit(-0.0).cast(read[name].dataType)
        frame = frame.withColumn(name, functions.when(signed, below).otherwise(_column(name)))
    return frame.select(*map(_column, [*read.names, DIFF]))


def _repeated(frame: DataFrame, shown: StructType) -> DataFrame:
    """The columns that are shown, of each row as often as it counts."""
    names = [_column(name) for name in shown.names]
    if DIFF not in frame.columns:
        return frame.select(*names)
    count = functions.when(_column(DIFF) > 0, _column(DIFF)).otherwise(
        functions.raise_error(
            functions.lit("NegativeCountError: more copies of a row were removed than there were")
        ).cast("bigint")
    )
    copies = functions.explode(functions.sequence(functions.lit(1).cast("bigint"), count))
    return frame.select(*names, copies.alias(DIFF)).drop(DIFF)


def _column(name: str) -> Column:
    return functions.col("`" + name.replace("`", "``") + "`")
