"""A store with a collection, and Spark's part in a read or a write of it played by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from siltstone.spark.collection_stream_writer import CollectionStreamWriter
from siltstone.spark.data_source import SegmentSource
from tests.support.spark.sink_world import Context, sent

GUSTS = pyarrow.schema(
    [pyarrow.field("station", pyarrow.string(), nullable=False), ("gust", pyarrow.float64())]
)
NAME = "gusts"


def some_gusts(count: int, first: int = 0) -> pyarrow.Table:
    """Rows of ``GUSTS``; from about 300 on they are uploaded."""
    numbers = range(first, first + count)
    columns = {"station": [f"s{n:06}" for n in numbers], "gust": [n / 7 for n in numbers]}
    return pyarrow.table(columns, schema=GUSTS)


def multiset(rows: pyarrow.Table | Iterable[Any]) -> Counter[tuple[Any, ...]]:
    """Rows of Arrow or of Spark as values that are equal if and only if the rows are."""
    found = (
        zip(*(column.to_pylist() for column in rows.columns), strict=True)
        if isinstance(rows, pyarrow.Table)
        else rows
    )
    return Counter(tuple(map(_plain, row)) for row in found)


def _plain(value: Any) -> Any:
    """Floats by their text, which tells zeros apart, and says that NaN is NaN."""
    return repr(value) if isinstance(value, float) else value


def read_by_hand(
    folder: Path, schema: StructType | None = None, **options: object
) -> pyarrow.Table:
    """All rows of a collection, by the calls that Spark makes, each in another process."""
    given = {"store": str(folder), "collection": NAME, **{k: str(v) for k, v in options.items()}}
    wanted = SegmentSource(given).schema() if schema is None else schema
    reader = SegmentSource(given).reader(schema=wanted)
    batches = []
    for task in sent(list(reader.partitions())):
        batches += list(sent(reader).read(task))
    return pyarrow.Table.from_batches(batches, schema=to_arrow_schema(wanted, timezone="UTC"))


class WriteByHand:
    """A write of a collection, by the calls that Spark makes, each in another process."""

    def __init__(
        self, folder: Path, schema: StructType, *, overwrite: bool = False, **options: object
    ) -> None:
        given = {"store": str(folder), "collection": NAME}
        given |= {name: str(value) for name, value in options.items()}
        self.writer = sent(SegmentSource(given).writer(schema=schema, overwrite=overwrite))

    def task(self, *batches: pyarrow.RecordBatch) -> WriterCommitMessage:
        """One attempt of a task."""
        return sent(sent(self.writer).write(iter(batches)))

    def commit(self, *messages: WriterCommitMessage | None) -> None:
        """The end of the job."""
        sent(self.writer).commit(list(messages))

    def abort(self, *messages: WriterCommitMessage | None) -> None:
        """The end of a job that failed."""
        sent(self.writer).abort(list(messages))


class StreamedByHand:
    """A query that writes into a collection, by the calls that Spark makes.

    Args:
        folder: of the store.
        schema: of its frames.
        patch: gives tasks a context.
        query: its id.
    """

    def __init__(
        self, folder: Path, schema: StructType, patch: pytest.MonkeyPatch, query: str = "q1"
    ) -> None:
        self._options = {"store": str(folder), "collection": NAME, "checkpointLocation": "/c"}
        self._schema = schema
        self._patch = patch
        self._query = query

    def batch(self, *tasks: pyarrow.RecordBatch) -> list[WriterCommitMessage | None]:
        """Plan a batch, and run one attempt of each of its tasks."""
        writer = sent(self.ending())
        context = Context(0, 0, self._query)
        where = "siltstone.spark.collection_stream_writer.TaskContext.get"
        self._patch.setattr(where, lambda: context)
        return [sent(sent(writer).write(iter([rows]))) for rows in tasks]

    def ending(self) -> CollectionStreamWriter:
        """A writer that was not pickled, as the driver makes one to end a batch."""
        made = SegmentSource(self._options).streamWriter(self._schema, False)
        assert isinstance(made, CollectionStreamWriter)
        return made


EACH_TYPE = pyarrow.schema(
    [
        pyarrow.field("k", pyarrow.int64(), nullable=False),
        ("yes", pyarrow.bool_()),
        ("i8", pyarrow.int8()),
        ("i16", pyarrow.int16()),
        ("i32", pyarrow.int32()),
        ("u8", pyarrow.uint8()),
        ("u16", pyarrow.uint16()),
        ("u32", pyarrow.uint32()),
        ("u64", pyarrow.uint64()),
        ("f16", pyarrow.float16()),
        ("f32", pyarrow.float32()),
        ("f64", pyarrow.float64()),
        ("d9", pyarrow.decimal32(9, 2)),
        ("d18", pyarrow.decimal64(18, 3)),
        ("d38", pyarrow.decimal128(38, 4)),
        ("day", pyarrow.date32()),
        ("at_s", pyarrow.timestamp("s", "UTC")),
        ("at_ms", pyarrow.timestamp("ms", "Europe/Oslo")),
        ("at_us", pyarrow.timestamp("us", "UTC")),
        ("local_s", pyarrow.timestamp("s")),
        ("local_ms", pyarrow.timestamp("ms")),
        ("local_us", pyarrow.timestamp("us")),
        ("text", pyarrow.string()),
        ("long_text", pyarrow.large_string()),
        ("bytes", pyarrow.binary()),
        ("long_bytes", pyarrow.large_binary()),
        ("three", pyarrow.binary(3)),
    ]
)
"""A column for each type that Spark holds."""


def each_value(count: int = 500) -> pyarrow.Table:
    """Rows of ``EACH_TYPE`` with the ends of ranges, nulls, zeros of both signs and NaN."""
    return pyarrow.table(
        {
            field.name: pyarrow.array(range(count), field.type)
            if field.name == "k"
            else _cycled(field.type, count)
            for field in EACH_TYPE
        },
        schema=EACH_TYPE,
    )


def _cycled(kind: pyarrow.DataType, count: int) -> pyarrow.Array:
    values = [*_some_values(kind), None]
    numbers = [values[n % len(values)] for n in range(count)]
    if pyarrow.types.is_timestamp(kind):
        return pyarrow.array(numbers, pyarrow.int64()).cast(kind)
    if pyarrow.types.is_date(kind):
        return pyarrow.array(numbers, pyarrow.int32()).cast(kind)
    return pyarrow.array(numbers, kind)


def _some_values(kind: pyarrow.DataType) -> list[Any]:
    types = pyarrow.types
    if types.is_boolean(kind):
        return [True, False]
    if types.is_unsigned_integer(kind):
        return [0, 2**kind.bit_width - 1]
    if types.is_integer(kind):
        return [-(2 ** (kind.bit_width - 1)), 0, 2 ** (kind.bit_width - 1) - 1]
    if types.is_floating(kind):
        return [0.0, -0.0, 0.5, float("inf"), float("nan")]
    if types.is_decimal(kind):
        return [0, -(10 ** (kind.precision - kind.scale - 1)), 7]
    if types.is_timestamp(kind):
        return [-1, 0, {"s": 2**32, "ms": 2**42, "us": 2**52}[kind.unit]]
    if types.is_date(kind):
        return [-1, 0, 20_000]
    if types.is_string(kind) or types.is_large_string(kind):
        return ["", "bodø", "a\0b"]
    return [b"abc", b"\0\xff\0"]
