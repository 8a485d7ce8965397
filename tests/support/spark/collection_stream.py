"""A stream of a collection, batch by batch, asked as Spark asks it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from siltstone.spark.collection_stream import CollectionStreamReader
from siltstone.spark.data_source import SegmentSource
from tests.support.spark.collection_world import NAME, multiset
from tests.support.spark.sink_world import sent

Fields = dict[str, Any]


def _noted(offset: Fields) -> Fields:
    found: Fields = json.loads(json.dumps(offset))
    return found


class CollectionStreamByHand:
    """A query: it keeps offsets as Spark does, and tells the reader what it has done.

    Args:
        folder: of the store.
        schema: what the user chose; ``None`` means all columns.
        offset: of the checkpoint; ``None`` where there is none.
        options: of the stream.
    """

    def __init__(
        self,
        folder: Path,
        schema: StructType | None = None,
        offset: Fields | None = None,
        /,
        **options: object,
    ) -> None:
        self._folder = folder
        self._options = {"store": str(folder), "collection": NAME, "bookmark": "query"}
        self._options |= {name: str(value) for name, value in options.items()}
        source = SegmentSource(self._options)
        self.schema = source.schema() if schema is None else schema
        made = SegmentSource(self._options).streamReader(self.schema)
        assert isinstance(made, CollectionStreamReader)
        self.reader = made
        try:
            if offset is None:
                offset = _noted(self.reader.initialOffset())
                assert _noted(self.reader.initialOffset()) == offset
        except BaseException:
            self.reader.stop()
            raise
        self.offset = offset

    def __enter__(self) -> CollectionStreamByHand:
        return self

    def __exit__(self, *_: object) -> None:
        self.reader.stop()

    def end(self) -> Fields:
        """Where the next batch ends."""
        limit = self.reader.getDefaultReadLimit()
        return _noted(self.reader.latestOffset(self.offset, limit))

    def rows(self, end: Fields, start: Fields | None = None) -> pyarrow.Table:
        """The rows of a batch, read by tasks of other processes."""
        batches = []
        for task in sent(list(self.reader.partitions(start or self.offset, end))):
            batches += list(sent(self.reader).read(task))
        return pyarrow.Table.from_batches(batches, to_arrow_schema(self.schema, timezone="UTC"))

    def batch(self) -> pyarrow.Table:
        """The rows of the next batch, which is done and noted then."""
        end = self.end()
        found = self.rows(end) if end != self.offset else self.none()
        if end != self.offset:
            self.offset = end
            self.reader.commit(end)
        return found

    def drain(self) -> list[pyarrow.Table]:
        """The batches up to the newest time."""
        found = []
        while self.end() != self.offset:
            found.append(self.batch())
        return found

    def none(self) -> pyarrow.Table:
        """A batch without rows."""
        return to_arrow_schema(self.schema, timezone="UTC").empty_table()


def sums(*tables: pyarrow.Table) -> Counter[tuple[Any, ...]]:
    """The sums of ``_diff`` by all other columns, where they are not 0."""
    found: Counter[tuple[Any, ...]] = Counter()
    for table in tables:
        for (*row, diff), count in multiset(table).items():
            found[tuple(row)] += diff * count
    return Counter({row: count for row, count in found.items() if count})


def rows_of(*tables: pyarrow.Table) -> Counter[tuple[Any, ...]]:
    """What rows all changes together leave, without their times."""
    return sums(*(table.drop_columns(["_time"]) for table in tables))
