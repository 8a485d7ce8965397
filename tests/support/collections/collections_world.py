"""Collections of one bucket on virtual time, and the processes that have them open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pyarrow

from siltstone.bindings.memory.bucket import Bucket
from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.bindings.nfs.chunk_storage import NfsChunkStorage
from siltstone.collections.async_collection import AsyncCollection
from siltstone.collections.async_collections import AsyncCollections
from siltstone.collections.consensus.objects import ObjectConsensus
from siltstone.collections.place import CollectionPlace, CollectionSettings
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import ChunkUnavailableError, Outcome
from siltstone.core.metrics import NO_METRICS, Metrics
from siltstone.testing.faults.faulty_chunk_storage import (
    FaultyChunkStorage,
    Plan,
    StorageCall,
    all_done,
)
from siltstone.testing.virtual_time import Clock, Latency, VirtualEnvironment, instant
from tests.support.async_tests import running_clock

SCHEMA = pyarrow.schema(
    [pyarrow.field("k", pyarrow.string(), nullable=False), pyarrow.field("v", pyarrow.int64())]
)
NAME = "gusts"

SETTINGS = CollectionSettings(garbage_delay_ms=0, compacts=False)
"""Nothing is compacted by itself, and garbage goes at once."""


@dataclass
class Opener:
    """One process that has the collections open.

    Attributes:
        collections: what it has open.
        place: where they are.
        storage: long-term storage as it alone sees it.
        environment: its time and randomness.
    """

    collections: AsyncCollections
    place: CollectionPlace
    storage: FaultyChunkStorage
    environment: VirtualEnvironment

    def die(self) -> None:
        """No call of it has an effect any more, and none returns."""

        def dead(operation: str, name: str) -> None:
            raise ChunkUnavailableError(
                "dead", chunk=name, operation=operation, outcome=Outcome.UNKNOWN
            )

        self.storage.before = dead
        self.environment.latency = lambda pool, chance: float("inf")

    async def collection(self, name: str = NAME) -> AsyncCollection:
        """A collection that it has open."""
        return await self.collections.collection(name)


class CollectionsWorld:
    """A bucket, time, and processes that come and go. As ``async with`` in a test on virtual time.

    Args:
        seed: of all randomness.
        latency: of all calls.
        settings: of each process, unless it gets others.
        clock: to live on; ``None`` means that of the test.
        folder: of the binding ``nfs``; ``None`` means that objects are in memory.
        client: makes a client of other long-term storage; ``None`` means that of ``folder``.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        latency: Latency = instant,
        settings: CollectionSettings = SETTINGS,
        clock: Clock | None = None,
        folder: Path | None = None,
        client: Callable[[], ChunkStorage] | None = None,
    ) -> None:
        self.bucket = Bucket()
        self.settings = settings
        self.openers: list[Opener] = []
        self._clock = clock
        self._folder = folder
        self._client = client
        self._seed = seed
        self._latency = latency
        self._strangers: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        self._clock = self._clock or running_clock()
        self._strangers = asyncio.all_tasks()
        return self

    async def __aexit__(self, *_: object) -> None:
        mine = asyncio.all_tasks() - self._strangers
        for task in mine:
            task.cancel()
        await asyncio.gather(*mine, return_exceptions=True)

    @property
    def clock(self) -> Clock:
        """The time of all processes."""
        assert self._clock is not None, "the world began"
        return self._clock

    def open(
        self,
        *,
        settings: CollectionSettings | None = None,
        plan: Plan = all_done,
        metrics: Metrics = NO_METRICS,
    ) -> Opener:
        """Begin a process."""
        self._seed += 1
        environment = VirtualEnvironment(self._seed, latency=self._latency, clock=self.clock)
        storage = FaultyChunkStorage(self.new_storage(), plan)
        place = CollectionPlace(
            storage=storage,
            consensus=ObjectConsensus(storage, environment),
            environment=environment,
            settings=settings or self.settings,
            store_id=bytes(16),
            who=f"process {self._seed}",
            metrics=metrics,
        )
        opener = Opener(AsyncCollections(place), place, storage, environment)
        self.openers.append(opener)
        return opener

    async def create(self, name: str = NAME, *, times: str = "count", **choices: Any) -> Opener:
        """Begin a process, and let it make a collection of ``SCHEMA``."""
        opener = self.open()
        await opener.collections.create(name, SCHEMA, key=["k"], times=times, **choices)
        return opener

    async def sleep(self, seconds: float) -> None:
        """Let the time pass."""
        await asyncio.sleep(seconds)

    def new_storage(self) -> ChunkStorage:
        """A client of the bucket, or of the folder."""
        if self._client is not None:
            return self._client()
        if self._folder is not None:
            return NfsChunkStorage(self._folder)
        clock = self.clock
        return MemoryChunkStorage(
            self.bucket, clock=lambda: 1_700_000_000.0 + clock.now, sleep=lambda _: None
        )

    def names(self, part: str = "") -> list[str]:
        """Names of all objects that contain ``part``."""
        return [stat.name for stat in self.new_storage().list() if part in stat.name]


def calls_since(opener: Opener, start: int) -> list[str]:
    """Verbs and the kind of object of the calls after the first ``start``."""
    return [called(call) for call in opener.storage.calls[start:]]


def called(call: StorageCall) -> str:
    """Verb and kind of object of one call, such as ``stat rollups``."""
    kinds = [kind for kind in ("entries", "rollups", "parts") if f"/{kind}" in call.name]
    return " ".join([call.operation, *kinds])


def rows(*pairs: tuple[str, int | None]) -> list[dict[str, Any]]:
    """Rows of ``SCHEMA``."""
    return [{"k": key, "v": value} for key, value in pairs]


def many_rows(count: int, first: int = 0) -> pyarrow.Table:
    """Rows that are too large to be inline from about 500 on."""
    numbers = range(first, first + count)
    return pyarrow.table({"k": [f"key-{n:08}" for n in numbers], "v": list(numbers)}, schema=SCHEMA)


async def shown(collection: AsyncCollection, as_of: int | None = None) -> list[tuple[str, int]]:
    """The rows of a collection at a time, in order."""
    snapshot = await collection.snapshot(as_of)
    return pairs_of(await snapshot.to_arrow())


def pairs_of(table: pyarrow.Table) -> list[tuple[str, int]]:
    """Rows of ``SCHEMA`` as pairs, in order."""
    return sorted(zip(table["k"].to_pylist(), table["v"].to_pylist(), strict=True))


def updates_of(tables: Sequence[pyarrow.Table]) -> list[tuple[str, int, int, int]]:
    """Updates as ``(k, v, time, diff)``, in order."""
    return sorted(
        (row["k"], row["v"], row["_time"], row["_diff"])
        for table in tables
        for row in table.to_pylist()
    )
