"""Work in tasks of Spark: packs travel as rows of a data frame, outcomes come back as rows."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import reduce
from itertools import islice
from typing import Final

import pyarrow
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from siltstone.core.errors import SettingsError, SiltstoneError
from siltstone.pipelines.local_executor import THREADS_MAX, do_pack, on_threads
from siltstone.pipelines.work import Item, Outcome, PipelineError, Step, Work
from siltstone.spark.settling import settle

PACKS_PER_CORE: Final = 8
"""Packs of one Spark job: the driver holds the plan and the outcomes of so many at a time."""

PACKS_PER_TASK: Final = 4
"""Beyond so many for each core there are more tasks than cores: one that fails is done again, and
who is done first finds more to do."""

_SCHEMA: Final = "count INT, outcomes BINARY, broken STRING"
_ARROW: Final = pyarrow.schema(
    {"count": pyarrow.int32(), "outcomes": pyarrow.binary(), "broken": pyarrow.string()}
)
"""A row for each pack: as rows of their own small outcomes would cost more than small chunks."""


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

    def run(self, work: Work, packs: Iterable[Sequence[Item]]) -> Generator[Outcome]:
        """See ``Executor``."""
        source = iter(packs)
        while some := list(islice(source, PACKS_PER_CORE * self.workers)):
            yield from self._wave(work, some)

    def close(self) -> None:
        """Stop the session, if that was asked for."""
        if self._stops:
            self._spark.stop()

    def _wave(self, work: Work, packs: Sequence[Sequence[Item]]) -> Iterator[Outcome]:
        frames = 1 if work.rate is not None else -(-len(packs) // (PACKS_PER_TASK * self.workers))
        # Dealt out so that a heap of packs is a frame, of which Spark makes a task for each core:
        # to have it deal them costs a shuffle, as much as all else that is not work. A second frame
        # costs as much as the first, so few packs are one.
        dealt = (packs[first::frames] for first in range(frames))
        frame = reduce(lambda one, other: one.union(other), map(self._frame, dealt))
        task = _task(work, self._threads, openings=min(len(packs), frames * self.workers))
        try:
            found = frame.mapInArrow(task, _SCHEMA).toArrow()
        except PySparkException as error:
            raise PipelineError(f"a job of Spark failed: {_reason(error)}") from error
        rows = found.to_pylist()
        for row in rows:
            if row["broken"]:
                raise PipelineError(f"a worker could not begin: {row['broken']}")
        came, asked = sum(row["count"] for row in rows), sum(map(len, packs))
        if came != asked:
            raise PipelineError(f"{came} outcomes came of {asked} items")
        for row in rows:
            for subject, status, length, message, detail in pickle.loads(row["outcomes"]):
                yield Outcome(
                    subject=subject, status=status, length=length, message=message, detail=detail
                )

    def _frame(self, packs: Sequence[Sequence[Item]]) -> DataFrame:
        """A row for each pack, in no more parts than there are workers."""
        items = pyarrow.array([pickle.dumps(tuple(pack)) for pack in packs], pyarrow.binary())
        return self._spark.createDataFrame(pyarrow.table({"items": items})).coalesce(self.workers)


def _partitions(spark: SparkSession) -> int:
    """How many tasks Spark makes when nobody tells it."""
    context = getattr(spark, "_sc", None)
    if context is not None:
        return int(context.defaultParallelism)
    frame = spark.range(1_000_000).mapInArrow(_one_row, "one INT")
    return int(frame.count())


def _one_row(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    for _ in batches:
        pass
    yield pyarrow.RecordBatch.from_pydict({"one": pyarrow.array([1], pyarrow.int32())})


Batches = Iterator[pyarrow.RecordBatch]


def _task(work: Work, threads: int, openings: int) -> Callable[[Batches], Batches]:
    def task(batches: Batches) -> Batches:
        # Only the record travels; what it does is found on the worker's own path.
        return do_batches(work, threads, openings, batches)

    return task


def do_batches(work: Work, threads: int, openings: int, batches: Batches) -> Batches:
    """What a task does: the packs of some rows, one after another, with one opening of the work."""
    packs = (pickle.loads(p) for b in batches for p in b.column("items").to_pylist())
    try:
        with work.open(openings) as step:
            for pack in packs:
                yield _row(_done(step, threads, pack))
                settle()
    except (SiltstoneError, OSError) as error:
        # Whoever could not begin would not do better if Spark tried again.
        yield _row((), broken=f"{type(error).__name__}: {error}")


def _done(step: Step, threads: int, pack: Sequence[Item]) -> list[Outcome]:
    if threads > 1:
        return list(on_threads(step, [(item,) for item in pack], threads))
    return do_pack(step, pack)


def _row(outcomes: Sequence[Outcome], broken: str = "") -> pyarrow.RecordBatch:
    facts = [(o.subject, o.status, o.length, o.message, o.detail) for o in outcomes]
    row = {"count": len(facts), "outcomes": pickle.dumps(facts), "broken": broken}
    return pyarrow.RecordBatch.from_pylist([row], schema=_ARROW)


def _reason(error: PySparkException) -> str:
    """The line that tells most: the last one of a worker's traceback, else the first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    found = [line for line in lines if line.split(":", 1)[0].endswith(("Error", "Exception"))]
    return (found or lines or [type(error).__name__])[-1 if found else 0]
