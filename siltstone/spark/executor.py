"""Work in tasks of Spark: packs travel as rows, outcomes come back as rows.

A job of Spark's own kind costs less than half of what one of a data frame does, which is planned
and compiled first; but Spark Connect has data frames alone. So there are both.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial, reduce
from itertools import islice
from typing import Final

import pyarrow
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from siltstone.core.errors import SettingsError, SiltstoneError
from siltstone.pipelines.local_executor import THREADS_MAX, do_pack, on_threads
from siltstone.pipelines.work import Item, ItemOutcome, PipelineError, Step, Work
from siltstone.spark.worker_memory import settle

PACKS_PER_CORE: Final = 8
"""Packs of one Spark job: the driver holds the plan and the outcomes of this many at a time."""

PACKS_PER_TASK: Final = 4
"""Beyond this many for each core there are more tasks than cores: one that fails is done again, and
a core that is done first finds more to do."""

_SCHEMA: Final = "count INT, outcomes BINARY, broken STRING"
_ARROW: Final = pyarrow.schema(
    {"count": pyarrow.int32(), "outcomes": pyarrow.binary(), "broken": pyarrow.string()}
)

Batches = Iterator[pyarrow.RecordBatch]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Of a pack. As rows of their own small outcomes would cost more than small chunks.

    Attributes:
        count: of the outcomes.
        outcomes: pickled.
        broken: why the task could not begin, or empty.
    """

    count: int
    outcomes: bytes
    broken: str


Task = Callable[[Iterable[bytes]], Iterator[Row]]


class SparkExecutor:
    """Runs packs in tasks of Spark, some in each. Works through Spark Connect too.

    Where the work has a rate there are no more tasks at a time than workers, whatever cores Spark
    adds meanwhile, and each moves its share of the rate.

    Args:
        spark: the session; stays the caller's, unless ``stops``.
        threads: items of a pack at a time, for storage that is slow to answer.
        workers: tasks at a time; ``None`` asks Spark for its default parallelism.
        stops: whether ``close`` stops the session.
    """

    def __init__(
        self,
        spark: SparkSession,
        *,
        threads: int = 1,
        workers: int | None = None,
        stops: bool = False,
    ) -> None:
        if not 1 <= threads <= THREADS_MAX:
            raise SettingsError(f"threads are between 1 and {THREADS_MAX}, not {threads}")
        self._spark = spark
        self._threads = threads
        self._workers = workers
        self._stops = stops

    @property
    def workers(self) -> int:
        """See ``Executor``."""
        if self._workers is None:
            # Without a context of its own Spark Connect tells it only by what it does.
            self._workers = max(1, _partitions(self._spark))
        return self._workers

    def run(self, work: Work, packs: Iterable[Sequence[Item]]) -> Generator[ItemOutcome]:
        """See ``Executor``."""
        source = iter(packs)
        while some := list(islice(source, PACKS_PER_CORE * self.workers)):
            yield from self._wave(work, some)

    def close(self) -> None:
        """Stop the session, if that was asked for."""
        if self._stops:
            self._spark.stop()

    def _wave(self, work: Work, packs: Sequence[Sequence[Item]]) -> Iterator[ItemOutcome]:
        # Where the work has a rate no more tasks than workers may be in flight.
        waves = 1 if work.rate is not None else -(-len(packs) // (PACKS_PER_TASK * self.workers))
        tasks = min(len(packs), waves * self.workers)
        task = partial(do_packs, work, self._threads, tasks)
        asked = [pickle.dumps(tuple(pack)) for pack in packs]
        context = _context(self._spark)
        try:
            if context is None:
                rows = _by_frames(self._spark, task, asked, waves, self.workers)
            else:
                rows = context.parallelize(asked, tasks).mapPartitions(task).collect()
        except (PySparkException, Py4JError) as error:
            raise PipelineError(f"a job of Spark failed: {_reason(error)}") from error
        for row in rows:
            if row.broken:
                raise PipelineError(f"a worker could not begin: {row.broken}")
        came, sent = sum(row.count for row in rows), sum(map(len, packs))
        if came != sent:
            raise PipelineError(f"{came} outcomes came of {sent} items")
        for row in rows:
            for subject, status, length, message, detail in pickle.loads(row.outcomes):
                yield ItemOutcome(
                    subject=subject, status=status, length=length, message=message, detail=detail
                )


def _context(spark: SparkSession) -> SparkContext | None:
    """``None`` with Spark Connect."""
    return getattr(spark, "_sc", None)


def _by_frames(
    spark: SparkSession, task: Task, packs: Sequence[bytes], frames: int, workers: int
) -> list[Row]:
    """The rows that come of packs, without a context.

    Each frame is a heap of them, in no more parts than workers: to have Spark deal packs out costs
    a shuffle, as much as all else that is not work.
    """

    def in_batches(batches: Batches) -> Batches:
        for row in task(pack for batch in batches for pack in batch.column("pack").to_pylist()):
            yield pyarrow.RecordBatch.from_pylist([asdict(row)], schema=_ARROW)

    def heap(first: int) -> DataFrame:
        part = pyarrow.table({"pack": pyarrow.array(packs[first::frames], pyarrow.binary())})
        return spark.createDataFrame(part).coalesce(workers)

    frame = reduce(lambda one, other: one.union(other), map(heap, range(frames)))
    found = frame.mapInArrow(in_batches, _SCHEMA).toArrow()
    return [Row(**row) for row in found.to_pylist()]


def _partitions(spark: SparkSession) -> int:
    """How many tasks Spark makes when it is not told."""
    context = _context(spark)
    if context is not None:
        return int(context.defaultParallelism)
    frame = spark.range(1_000_000).mapInArrow(_one_row, "one INT")
    return int(frame.count())


def _one_row(batches: Batches) -> Batches:
    for _ in batches:
        pass
    yield pyarrow.RecordBatch.from_pydict({"one": pyarrow.array([1], pyarrow.int32())})


def do_packs(work: Work, threads: int, openings: int, packs: Iterable[bytes]) -> Iterator[Row]:
    """What a task does: some packs, one after another, with one opening of the work."""
    try:
        with work.open(openings) as step:
            for pack in packs:
                yield _row(_done(step, threads, pickle.loads(pack)))
                settle()
    except (SiltstoneError, OSError) as error:
        # A task that could not begin would not do better if Spark tried again.
        yield _row((), broken=f"{type(error).__name__}: {error}")


def _done(step: Step, threads: int, pack: Sequence[Item]) -> list[ItemOutcome]:
    if threads > 1:
        return list(on_threads(step, [(item,) for item in pack], threads))
    return do_pack(step, pack)


def _row(outcomes: Sequence[ItemOutcome], broken: str = "") -> Row:
    facts = [(o.subject, o.status, o.length, o.message, o.detail) for o in outcomes]
    return Row(count=len(facts), outcomes=pickle.dumps(facts), broken=broken)


def _reason(error: Exception) -> str:
    """The line that tells most: the last one of a worker's traceback, else the first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    found = [line for line in lines if line.split(":", 1)[0].endswith(("Error", "Exception"))]
    return (found or lines or [type(error).__name__])[-1 if found else 0]
