"""A store, and Spark's part in a write played by hand: planning, tasks, attempts, the end."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TypeVar

import pyarrow
import pytest
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StringType, StructField, StructType

import siltstone
from siltstone.spark.data_source import SegmentSource
from siltstone.spark.sink import SegmentSinkWriter, SegmentStreamWriter

T = TypeVar("T")
SCHEMA = StructType([StructField("value", StringType())])
KEYED = StructType([StructField("value", StringType()), StructField("k", StringType())])


def sent(thing: T) -> T:
    """What arrives in another process."""
    arrived: T = pickle.loads(pickle.dumps(thing))
    return arrived


@dataclass
class Context:
    """What a task knows of itself."""

    partition: int
    attempt: int
    query: str = ""

    def partitionId(self) -> int:  # noqa: N802 - Spark's name
        return self.partition

    def taskAttemptId(self) -> int:  # noqa: N802 - Spark's name
        return self.attempt

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802 - Spark's name
        return self.query if name == "sql.streaming.queryId" and self.query else None


def batches(rows: Sequence[str], keys: Sequence[str] | None = None) -> list[pyarrow.RecordBatch]:
    """Rows as Spark hands them to a task: a few at a time."""
    found = []
    for begin in range(0, len(rows), 3):
        columns = {"value": list(rows[begin : begin + 3])}
        if keys is not None:
            columns["k"] = list(keys[begin : begin + 3])
        found.append(pyarrow.RecordBatch.from_pydict(columns))
    return found


@dataclass
class Sink:
    """A store that jobs write into."""

    folder: Path
    patch: pytest.MonkeyPatch
    attempts: Iterator[int] = field(default_factory=count)

    def options(self, **options: str) -> dict[str, str]:
        return {"store": str(self.folder), "segment": "s", **options}

    def planned(self, *, overwrite: bool = False, **options: str) -> SegmentSinkWriter:
        """The writer of a batch, as it arrives in a task."""
        schema = KEYED if "key" in options else SCHEMA
        writer = SegmentSource(self.options(**options)).writer(schema, overwrite)
        assert isinstance(writer, SegmentSinkWriter)
        return sent(writer)

    def ending(self, *, overwrite: bool = False, **options: str) -> SegmentStreamWriter:
        """A writer of a stream that was not pickled, as the driver makes one to end a batch."""
        source = SegmentSource(self.options(**options))
        writer = source.streamWriter(SCHEMA, overwrite)
        assert isinstance(writer, SegmentStreamWriter)
        return writer

    def task(
        self,
        writer: SegmentSinkWriter | SegmentStreamWriter,
        partition: int,
        rows: Sequence[str],
        *,
        keys: Sequence[str] | None = None,
        query: str = "",
    ) -> WriterCommitMessage | None:
        """Run one attempt at a task, in another process as it were."""
        context = Context(partition, next(self.attempts), query)
        self.patch.setattr("siltstone.spark.task_writer.TaskContext.get", lambda: context)
        return sent(sent(writer).write(iter(batches(rows, keys))))

    @contextmanager
    def held_open(self) -> Iterator[None]:
        """Let the store stay open: to claim it for each step of many jobs takes long."""
        with siltstone.open(self.folder) as store, pytest.MonkeyPatch.context() as patch:
            for module in ("sink", "write_session"):
                patch.setattr(f"siltstone.spark.{module}.owned", lambda *_: nullcontext(store))
            yield

    def content(self, segment: str = "s") -> list[str]:
        """The lines of a segment; none when there is none."""
        with siltstone.open(self.folder, read_only=True) as store:
            try:
                length = store.segment(segment).info().length
            except siltstone.SegmentNotFoundError:
                return []
            return store.segment(segment).read(0, length).decode().splitlines()

    def left(self) -> list[str]:
        """What lies below the prefix of all imports and is no chunk of a segment."""
        folder = self.folder / "chunks"
        files = {
            str(path.relative_to(folder))
            for path in (folder / "import").rglob("*")
            if path.is_file()
        }
        with siltstone.open(self.folder, read_only=True) as store:
            for info in store.list():
                files -= {chunk.chunk for chunk in store.segment(info.name).chunks()}
        return sorted(files)


@contextmanager
def new_sink(folder: Path, *, containers: int = 1) -> Iterator[Sink]:
    settings = siltstone.init(folder, containers=containers)
    text = settings.read_text()
    # Each owner that comes after a killed one writes a new file full of zeros.
    settings.write_text(text.replace("path: ./tier1", "path: ./tier1\n    file_bytes: 1MiB"))
    with pytest.MonkeyPatch.context() as patch:
        yield Sink(folder, patch)
