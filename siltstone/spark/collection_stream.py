"""The streaming read of a collection: what Spark asks in the driver, and in the tasks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from siltstone.spark.collection_options import CollectionStreamOptions
from siltstone.spark.stream import BatchPlan, PlannedStreamReader

if TYPE_CHECKING:
    import pyarrow

    from siltstone.spark.collection_stream_plan import CollectionStreamPlan


class CollectionStreamReader(PlannedStreamReader):
    """Streams what changes in a collection.

    From the first question to ``stop`` it has the collection open and holds the bookmark. What
    travels to tasks with it holds neither handles nor secrets.

    Args:
        options: of the stream.
        schema: the columns that Spark wants.
    """

    def __init__(self, options: CollectionStreamOptions, schema: StructType) -> None:
        super().__init__(options)
        self._options = options
        self._schema = schema
        self._opened: CollectionStreamPlan | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self._options, "schema": self._schema}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["options"], state["schema"])  # type: ignore[misc]

    def _new_plan(self) -> BatchPlan:
        from siltstone.spark.collection_stream_plan import CollectionStreamPlan

        self._opened = CollectionStreamPlan(self._options, self._schema)
        return self._opened

    def commit(self, end: dict[str, Any]) -> None:
        """Let history go that only batches before ``end`` needed.

        Raises:
            BookmarkFencedError: another query reads by the bookmark.
        """
        assert self._plan is self._opened, "it made this plan"
        self._opened.finished(end)

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Read the changes of one share."""
        from siltstone.spark.collection_reader import share_rows

        if partition.value is not None:  # which Spark makes of an empty list
            again = "restart the query, and it reads the batch again"
            yield from share_rows(self._options.store, partition.value, self._schema, again)
