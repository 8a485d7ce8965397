"""Reads of a keyspace by the calls that Spark makes, each in another process."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from siltstone.spark.data_source import SegmentSource
from tests.support.spark.sink_world import sent

NAME = "photos"


class PlannedRead:
    """A read of a keyspace that was planned, and whose tasks come later.

    Args:
        folder: of the store.
        options: of the read; ``schema`` is one that the user chose.
    """

    def __init__(self, folder: Path, **options: object) -> None:
        schema = options.pop("schema", None)
        given = {"store": str(folder), "keyspace": NAME}
        given |= {name: str(value) for name, value in options.items()}
        self._wanted = schema if isinstance(schema, StructType) else SegmentSource(given).schema()
        self._reader = SegmentSource(given).reader(schema=self._wanted)
        self.tasks: list[InputPartition] = sent(list(self._reader.partitions()))

    def table(self, tasks: Iterable[InputPartition] | None = None) -> pyarrow.Table:
        """The rows of all tasks, or of these."""
        batches = []
        for task in self.tasks if tasks is None else tasks:
            batches += list(sent(self._reader).read(task))
        form = to_arrow_schema(self._wanted, timezone="UTC")
        return pyarrow.Table.from_batches(batches, schema=form)

    def values(self) -> dict[str, bytes]:
        """By key the values of all tasks; no key comes twice."""
        rows = self.table().to_pylist()
        found = {row["key"]: row["value"] for row in rows}
        assert len(found) == len(rows), "a key comes twice"
        return found


def rows_of(folder: Path, **options: object) -> list[Any]:
    """All rows of a read, as dictionaries."""
    found: list[Any] = PlannedRead(folder, **options).table().to_pylist()
    return found
