"""A stream of a store, batch by batch."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import InputPartition

from siltstone.spark.columns import arrow_schema, default_schema
from siltstone.spark.stream import SegmentStreamReader
from siltstone.spark.stream_options import parse_stream_options


class Stream:
    """A query: it asks the reader as Spark does, and keeps the offset as Spark does."""

    def __init__(self, folder: Path, **options: object) -> None:
        self.options = {
            "store": str(folder),
            "columns": "segment,offset,value",
            **{name: str(value) for name, value in options.items()},
        }
        if self.options.get("badRecords") == "column":
            self.options["columns"] += ",error"
        self.reader = self._make()
        try:
            self.offset = self._json(self.reader.initialOffset())
        except BaseException:
            self.reader.stop()
            raise
        assert self._json(self.reader.initialOffset()) == self.offset

    def _make(self) -> SegmentStreamReader:
        options = parse_stream_options(self.options)
        schema = arrow_schema(options.read, default_schema(options.read))
        return SegmentStreamReader(options, schema)

    @staticmethod
    def _json(offset: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(json.dumps(offset))
        return found

    def restart(self, **options: object) -> None:
        """Continue from the checkpoint in another process, perhaps with other options."""
        self.reader.stop()
        self.options.update({name: str(value) for name, value in options.items()})
        self.reader = self._make()

    def first_again(self) -> dict[str, Any]:
        """What Spark takes for the start of the first batch when it is planned again."""
        return self._json(self.reader.initialOffset())

    def plan(self) -> tuple[dict[str, Any], dict[str, Any]]:
        limit = self.reader.getDefaultReadLimit()
        return self.offset, self._json(self.reader.latestOffset(self.offset, limit))

    def rows_between(self, start: dict[str, Any], end: dict[str, Any]) -> list[dict[str, Any]]:
        found = []
        for part in self.reader.partitions(start, end):
            reader, task = pickle.loads(pickle.dumps((self.reader, part)))
            assert isinstance(task, InputPartition)
            for batch in reader.read(task):
                found += batch.to_pylist()
        return found

    def batch(self) -> list[dict[str, Any]]:
        start, end = self.plan()
        rows = self.rows_between(start, end) if start != end else []
        self.offset = end
        return rows

    def values(self) -> list[Any]:
        return [row["value"] for row in self.batch()]

    def drain(self, most: int = 10_000) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for _ in range(most):
            start, end = self.plan()
            if start == end:
                return found
            found += self.rows_between(start, end)
            self.offset = end
        raise AssertionError("the stream does not end")
