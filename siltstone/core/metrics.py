"""What can be measured, and the small interface that takes measurements.

Each metric is declared here, once; ``docs/metrics.md`` lists them. Code that measures hands values
to a ``Metrics``; this base class drops them, so that what is off costs a call that does nothing,
and nothing at all where appends run: they are counted once for each frame.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from siltstone.core.constants import KIB


class MetricKind(StrEnum):
    """How values of a metric add up."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Scale(StrEnum):
    """Which values a histogram tells apart."""

    CALLS = "calls"
    """Seconds, from a sync of a fast disk to the deadline of a call."""
    LOOK_UPS = "look_ups"
    """Seconds, from a look-up in memory to one on a slow disk."""
    RATES = "rates"
    """Bytes per second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric.

    Attributes:
        name: as it is exposed; the unit comes last.
        kind: see ``MetricKind``.
        labels: names of its labels, other than ``store`` and ``container``, which all have.
        text: what it tells, in one line.
        scale: what a histogram tells apart.
    """

    name: str
    kind: MetricKind
    labels: tuple[str, ...] = ()
    text: str
    scale: Scale = Scale.CALLS


def _counter(name: str, text: str, *labels: str) -> Metric:
    return Metric(name=f"siltstone_{name}_total", kind=MetricKind.COUNTER, labels=labels, text=text)


def _gauge(name: str, text: str, *labels: str) -> Metric:
    return Metric(name=f"siltstone_{name}", kind=MetricKind.GAUGE, labels=labels, text=text)


def _histogram(name: str, text: str, *labels: str, scale: Scale = Scale.CALLS) -> Metric:
    unit = "bytes_per_second" if scale is Scale.RATES else "seconds"
    return Metric(
        name=f"siltstone_{name}_{unit}",
        kind=MetricKind.HISTOGRAM,
        labels=labels,
        text=text,
        scale=scale,
    )


# Calls to long-term storage, as the bridge sees them.
CALL_SERVICE: Final = _histogram(
    "storage_call", "a call to long-term storage, from its start to the answer", "operation"
)
CALL_QUEUE: Final = _histogram(
    "storage_queue", "the wait of a call for a free thread, before its start", "operation"
)
CALLS: Final = _counter(
    "storage_calls",
    "calls by how they ended: done, refused, throttled, unanswered, unsent",
    "operation",
    "outcome",
)
CALL_BYTES: Final = _counter("storage_bytes", "bytes that calls wrote or read", "operation")
REQUEST: Final = _histogram(
    "service_request", "a request to the service itself, each repeat for itself", "operation"
)
REQUESTS: Final = _counter(
    "service_requests", "such requests by the kind of their error, or none", "operation", "error"
)
REQUEST_BYTES: Final = _counter(
    "service_bytes", "bytes that such requests wrote or read", "operation"
)
CACHE_BLOCKS: Final = _counter(
    "cache_blocks", "blocks of chunks that reads found on the local disk, or not", "outcome"
)

# The segment layer and the verbs of a container.
OPERATION: Final = _histogram("operation", "an operation, waits included", "operation", "segments")
OPERATION_BYTES: Final = _counter(
    "operation_bytes", "bytes that operations moved", "operation", "segments"
)
OPERATION_RATE: Final = _histogram(
    "operation",
    "how fast operations of 64 KiB and more moved their bytes",
    "operation",
    "segments",
    scale=Scale.RATES,
)
CONCAT_BYTES: Final = _counter("concat_bytes", "bytes that concats joined", "how")
CHUNKS_READ: Final = _counter("chunks_read", "parts of chunks that reads were put together from")

# Tier 1.
LOG_APPEND: Final = _histogram("log_append", "a frame's way into the tier-1 log")
LOG_FRAMES: Final = _counter("log_frames", "frames that were acknowledged")
LOG_BYTES: Final = _counter("log_bytes", "bytes of users and tables in those frames", "kind")
LOG_REQUESTS: Final = _counter("log_requests", "appends and updates that were acknowledged")
COMMITS_HELD: Final = _histogram(
    "commits_held",
    "a time for which commits of bytes with rows, or of several segments, were held back",
)
APPEND_WAIT: Final = _histogram(
    "append_wait", "the wait of an append for room, or in a throttle; others do not wait"
)
LOG_KEPT_FRAMES: Final = _gauge("log_kept_frames", "frames that tier 1 keeps")
LOG_KEPT_BYTES: Final = _gauge(
    "log_kept_bytes", "bytes of users and tables in kept frames of this owner"
)
LOG_HELD: Final = _gauge("log_held", "1 for what holds the safe index back, else 0", "reason")

# What is on its way to long-term storage.
UNFLUSHED_BYTES: Final = _gauge("unflushed_bytes", "bytes that are only in tier 1", "kind")
UNFLUSHED_AGE: Final = _gauge("unflushed_age_seconds", "age of the oldest of them")
LATENESS: Final = _gauge("lateness_seconds", "for how long one has been due for a flush")
EXPOSED_BYTES: Final = _gauge(
    "exposed_bytes", "bytes of users that would be lost at most with tier 1"
)
THROTTLE: Final = _gauge("throttle_seconds", "how long each append is held back")

# Health and room.
HEALTH: Final = _gauge("health_state", "1 for the state of long-term storage, else 0", "state")
CALLS_MAX: Final = _gauge(
    "storage_calls_max", "calls that may be in flight; fewer while the service throttles"
)
CIRCUIT: Final = _gauge("circuit_open", "1 while calls are refused unsent, else 0")
SAFE_MODE: Final = _gauge("safe_mode", "1 while appends are refused for lack of room, else 0")
FREE_BYTES: Final = _gauge("free_bytes", "room on long-term storage, where it is known")
USED_BYTES: Final = _gauge("used_bytes", "bytes of the store's files, where that is looked for")

# Garbage and chunks.
GARBAGE: Final = _counter(
    "garbage_chunks", "deletions: deleted, retried, not_sent, set_aside, kept", "outcome"
)
GARBAGE_TASKS: Final = _gauge("garbage_tasks", "tasks that wait, counted up to 10,000")
REWRITTEN: Final = _counter("rewritten_chunks", "chunks that the optimiser made")
REWRITTEN_BYTES: Final = _counter("rewritten_bytes", "bytes in them", "how")
TIDYING_FAILED: Final = _counter(
    "tidying_failed", "tries to drop what a checkpoint made needless that left something"
)
READ_BACKS_FAILED: Final = _counter("read_backs_failed", "writes that did not come back")

# Metadata.
INDEX_LOOK_UP: Final = _histogram(
    "index_look_up", "a look-up of rows in the local index", "kind", scale=Scale.LOOK_UPS
)
INDEX_BLOCKS: Final = _counter(
    "index_blocks", "blocks that look-ups found in the cache of the index, or not", "outcome"
)
INDEX_BYTES: Final = _gauge("index_bytes", "bytes of the files of the local index")
RECENT_ROWS: Final = _counter(
    "recent_rows", "rows that reads and flushes found remembered, or looked up", "outcome"
)
TABLE_VERSION: Final = _gauge("table_version", "applied table version: bytes of the table log")
CHECKPOINT_VERSION: Final = _gauge("checkpoint_version", "that of the newest checkpoint")
TABLE_LOG_LENGTH: Final = _gauge("table_log_bytes", "bytes of the table log on long-term storage")
TABLE_LOG_CHUNKS: Final = _gauge("table_log_chunks", "chunks that hold it")

# Collections, as one process has them open; ``container`` is ``collections``.
COLLECTION_APPENDS: Final = _counter(
    "collection_appends", "appends of this process that were committed", "collection"
)
COLLECTION_ROWS: Final = _counter("collection_rows", "rows of these appends", "collection")
COLLECTION_COMMITS: Final = _counter(
    "collection_commits", "entries that this process added, upkeep included", "collection"
)
COLLECTION_LOST_RACES: Final = _counter(
    "collection_lost_races", "entries that another process was faster to add", "collection"
)
COLLECTION_MERGES: Final = _counter(
    "collection_merges", "merges that replaced batches", "collection"
)
COLLECTION_ROLLUPS: Final = _counter("collection_rollups", "rollups that were linked", "collection")
COLLECTION_LEASE_LOSSES: Final = _counter(
    "collection_lease_losses", "readers of this process whose lease ended too early", "collection"
)
COLLECTION_BATCHES: Final = _gauge(
    "collection_batches", "batches of the newest state that this process knows", "collection"
)
COLLECTION_PARTS: Final = _gauge(
    "collection_parts", "parts of the newest state that this process knows", "collection"
)

# Keyspaces, as the process has them open; ``container`` is that of their segments.
OBJECT_CHANGES: Final = _counter(
    "object_changes", "changes that are durable: put, delete", "keyspace", "change"
)
OBJECT_BATCHES: Final = _counter("object_batches", "commits of such changes", "keyspace")
OBJECT_GETS: Final = _counter("object_gets", "values that were read, by folds too", "keyspace")
OBJECT_BYTES: Final = _counter(
    "object_bytes",
    "bytes of records that were written, and of values that were read",
    "keyspace",
    "direction",
)
OBJECT_QUEUE_BYTES: Final = _gauge(
    "object_queue_bytes", "bytes of changes that wait for a batch", "keyspace"
)
OBJECTS_LOST: Final = _counter(
    "objects_lost", "reads that found a value damaged or gone", "keyspace"
)
VALUE_COMPACTIONS: Final = _counter(
    "value_compactions", "value compactions: done, needless, failed", "keyspace", "outcome"
)
VALUE_LIVE_RATIO: Final = _gauge(
    "value_live_ratio", "share of full value segments that was needed at the last look", "keyspace"
)

METRICS: Final[tuple[Metric, ...]] = tuple(
    value for value in dict(vars()).values() if isinstance(value, Metric)
)
"""All of them, in this order."""

RATE_BYTES_MIN: Final = 64 * KIB
"""An operation with fewer bytes tells of waits, not of a rate."""

_NO_SPAN: Final = nullcontext()


class Metrics:
    """Takes measurements of one container and drops them. What keeps them is a subclass.

    Every method is cheap, never fails, and is called on the loop; ``add`` and ``observe`` on any
    thread.

    Attributes:
        enabled: whether it is worth preparing a measurement.
    """

    enabled = False

    def add(self, metric: Metric, amount: float, *labels: str) -> None:
        """Let a counter grow."""

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        """Put a value into a histogram."""

    def set(self, metric: Metric, value: float, *labels: str) -> None:
        """Give a gauge its value."""

    def span(self, name: str, **facts: str | int) -> AbstractContextManager[None]:
        """Around an operation: what it calls becomes part of its trace."""
        return _NO_SPAN

    def ended(self, name: str, seconds: float, **facts: str | int) -> None:
        """Put an operation that ended now, and took ``seconds``, into the trace around it."""

    def timed(
        self, operation: str, *, segments: str = "user", length: int = 0
    ) -> AbstractContextManager[None]:
        """Around an operation: time it and put it into the trace. ``length`` bytes are counted."""
        return _NO_SPAN

    def close(self) -> None:
        """Forget what is only true while the container is open."""


NO_METRICS: Final = Metrics()
