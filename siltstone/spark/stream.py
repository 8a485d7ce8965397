"""The streaming read: what Spark asks of it in the driver, for each micro-batch, and in the tasks.

Spark makes a reader in a process that only packs it for the tasks, in one that plans, and in each
worker. So this loads neither what plans nor what reads before it is asked to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

if TYPE_CHECKING:
    import pyarrow

    from siltstone.spark.stream_options import StreamOptions
    from siltstone.spark.stream_plan import StreamPlan


class SegmentStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Streams whole records of segments, and of new ones under a prefix.

    It lives in a process of the driver and keeps the store open read-only from the first question
    to ``stop``. What travels to tasks with it holds neither handles nor secrets.
    """

    def __init__(self, options: StreamOptions, schema: pyarrow.Schema) -> None:
        self._options = options
        self._schema = schema
        self._made: StreamPlan | None = None
        self._initial: dict[str, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self._options, "schema": self._schema}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["options"], state["schema"])  # type: ignore[misc]

    # --- what Spark calls in the driver -----------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where a stream without a checkpoint begins; the same whenever it is asked again."""
        if self._initial is None:
            self._initial = self._plan.first_offset()
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """What the options allow."""
        if self._options.max_bytes is not None:
            return ReadMaxBytes(self._options.max_bytes)
        if self._options.max_rows is not None:
            return ReadMaxRows(self._options.max_rows)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the batch ends that begins at ``start``.

        Raises:
            SegmentTruncatedError: bytes that were not read are truncated.
            SegmentNotFoundError: a segment that was not read to its end is deleted.
        """
        max_bytes = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        max_rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        if isinstance(limit, ReadMaxBytes):
            max_rows = self._options.max_rows  # Spark takes one limit, and a user may want both
        return self._plan.next_offset(start, max_bytes, max_rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read no further than the segments reach now."""
        self._plan.stay()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Plan the tasks of a batch; the same rows, whenever it is planned again."""
        return [InputPartition(task) for task in self._plan.tasks(start, end)]

    def stop(self) -> None:
        """Close the store."""
        if self._made is not None:
            self._made.close()

    @property
    def _plan(self) -> StreamPlan:
        if self._made is None:
            from siltstone.spark.stream_plan import StreamPlan

            self._made = StreamPlan(self._options)
        return self._made

    # --- what it calls in the tasks ---------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Read the rows of the ranges of one task."""
        from siltstone.spark.rows import RowShape, read_task

        shape = RowShape(options=self._options.read, schema=self._schema)
        # ``None`` is what Spark makes of an empty list of partitions.
        return read_task(shape, partition.value or ())
