"""The streaming read: what Spark asks of it in the driver, for each micro-batch, and in the tasks.

Spark makes a reader in a process that only packs it for the tasks, in one that plans, and in each
worker. So this loads neither what plans nor what reads before it is asked to.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

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


class BatchLimits(Protocol):
    """The options of a stream that bound its batches."""

    @property
    def max_bytes(self) -> int | None:
        """About how many bytes a batch has at most; ``None`` for no limit."""

    @property
    def max_rows(self) -> int | None:
        """How many rows a batch has at most; ``None`` for no limit."""


class BatchPlan(Protocol):
    """Where the batches of a stream end, and the tasks of each."""

    def first_offset(self) -> dict[str, Any]:
        """Where a stream without a checkpoint begins now."""

    def next_offset(
        self, start: dict[str, Any], max_bytes: int | None, max_rows: int | None
    ) -> dict[str, Any]:
        """Where the batch ends that begins at ``start``; there, if there is nothing new."""

    def stay(self) -> None:
        """Go no further from now on than what is there reaches."""

    def tasks(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Any]:
        """The tasks of a batch; the same rows, whenever it is planned again."""

    def close(self) -> None:
        """Close what is open. Repeatable."""


class PlannedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What Spark asks in the driver, answered by a plan that is made at the first question.

    It lives in a process of the driver until ``stop``. What travels to tasks with it holds no plan.

    Args:
        limits: of batches.
    """

    def __init__(self, limits: BatchLimits) -> None:
        self._limits = limits
        self._made: BatchPlan | None = None
        self._initial: dict[str, Any] | None = None

    @abstractmethod
    def _new_plan(self) -> BatchPlan:
        """Make the plan."""

    @property
    def _plan(self) -> BatchPlan:
        if self._made is None:
            self._made = self._new_plan()
        return self._made

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where a stream without a checkpoint begins; the same whenever it is asked again."""
        if self._initial is None:
            self._initial = self._plan.first_offset()
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """What the options allow."""
        if self._limits.max_bytes is not None:
            return ReadMaxBytes(self._limits.max_bytes)
        if self._limits.max_rows is not None:
            return ReadMaxRows(self._limits.max_rows)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the batch ends that begins at ``start``. Raises what the plan does."""
        max_bytes = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        max_rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        if isinstance(limit, ReadMaxBytes):
            max_rows = self._limits.max_rows  # Spark takes one limit, and a user may want both
        return self._plan.next_offset(start, max_bytes, max_rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read no further than what is there now."""
        self._plan.stay()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Plan the tasks of a batch; the same rows, whenever it is planned again."""
        return [InputPartition(task) for task in self._plan.tasks(start, end)]

    def stop(self) -> None:
        """Close what the plan has open."""
        if self._made is not None:
            self._made.close()


class SegmentStreamReader(PlannedStreamReader):
    """Streams whole records of segments, and of new ones under a prefix.

    The store is open read-only from the first question to ``stop``. What travels to tasks with it
    holds neither handles nor secrets.
    """

    def __init__(self, options: StreamOptions, schema: pyarrow.Schema) -> None:
        super().__init__(options)
        self._options = options
        self._schema = schema

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self._options, "schema": self._schema}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["options"], state["schema"])  # type: ignore[misc]

    def _new_plan(self) -> BatchPlan:
        from siltstone.spark.stream_plan import StreamPlan

        return StreamPlan(self._options)

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Read the rows of the ranges of one task."""
        from siltstone.spark.rows import RowShape, read_task

        shape = RowShape(options=self._options.read, schema=self._schema)
        # ``None`` is what Spark makes of an empty list of partitions.
        return read_task(shape, partition.value or ())
