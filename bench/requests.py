"""How many requests operations make to long-term storage. Counted, not timed: time is virtual."""

from __future__ import annotations

from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from bench.figure import Better, Figure, Unit
from bench.workshop import Workshop
from siltstone.bindings.memory.bucket import Bucket
from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage, Profile
from siltstone.container.container import Container
from siltstone.container.models.settings import ContainerSettings
from siltstone.container.owner_boot import open_container
from siltstone.core.chunk_names import data_prefix
from siltstone.core.constants import MIB
from siltstone.testing.faults.faulty_chunk_storage import FaultyChunkStorage
from siltstone.testing.virtual_time import VirtualEnvironment
from siltstone.tier1.memory.fenced_log import MemoryFencedLog
from siltstone.tier1.memory.shared_log import SharedLog

WRITE_ONCE = Profile(append=False, concat=False, seal=False)
CALLS = Unit(text="requests", better=Better.LOWER)
HOUR_S = 3_600.0
SEGMENT_BYTES = 1_000

T = TypeVar("T")


def run(workshop: Workshop) -> list[Figure]:
    """Count requests to a service that takes no appends."""
    with workshop.place() as place:
        figures = _Counted(workshop, place).figures()
    return figures


class _Counted:
    """A container on virtual time, and the requests that it makes."""

    def __init__(self, workshop: Workshop, place: Path) -> None:
        self._workshop = workshop
        self._environment = VirtualEnvironment(1)
        self._storage = FaultyChunkStorage(
            MemoryChunkStorage(
                Bucket(), WRITE_ONCE, clock=self._environment.time, sleep=lambda _: None
            )
        )
        self._index = place / "index"

    def figures(self) -> list[Figure]:
        """Play a life of a few hours and count."""
        with self._environment.runner() as runner:
            return runner.run(self._life())

    async def _life(self) -> list[Figure]:
        container = await self._opened()
        try:
            return [
                await self._large(container),
                await self._small(container),
                await self._deletion(container),
                await self._hour(container, "the hour behind these"),
                await self._hour(container, "an idle hour"),
            ]
        finally:
            await container.close()

    async def _opened(self) -> Container:
        return await open_container(
            container=0,
            log=MemoryFencedLog("bench", 0, shared=SharedLog()),
            storage=self._storage,
            environment=self._environment,
            settings=ContainerSettings(garbage_delay_s=1.0),
            index_folder=self._index,
            owner="bench",
            takeover=False,
        )

    async def _large(self, container: Container) -> Figure:
        await container.create("large")
        for _ in range(8):
            await container.append("large", bytes(MIB))
        calls = await self._data_calls(container.flush())
        return self._figure("flush 8 MiB of a segment", calls, 1)

    async def _small(self, container: Container) -> Figure:
        count = self._workshop.pick(1_000, 20)
        for number in range(count):
            await container.create(f"small-{number}")
            await container.append(f"small-{number}", bytes(SEGMENT_BYTES))
        calls = await self._data_calls(container.flush())
        return self._figure(f"flush {count:,} segments of 1,000 B", calls, 1)

    async def _deletion(self, container: Container) -> Figure:
        await container.delete("large")
        await container.collect()
        await container.flush()
        await self._environment.sleep(2)
        calls = await self._data_calls(container.collect())
        return self._figure("delete a chunk", calls, 1)

    async def _hour(self, container: Container, what: str) -> Figure:
        calls = len(self._storage.calls)
        await self._environment.sleep(HOUR_S)
        return self._figure(what, len(self._storage.calls) - calls, 100)

    async def _data_calls(self, work: Coroutine[Any, Any, T]) -> int:
        """How many requests for chunks of segments ``work`` makes."""
        before = len(self._storage.calls)
        await work
        calls = self._storage.calls[before:]
        return sum(1 for call in calls if call.name.startswith(data_prefix(0)))

    def _figure(self, what: str, ours: int, bound: int) -> Figure:
        rounds = self._workshop.rounds
        return Figure(
            what=what,
            peer="bound",
            unit=CALLS,
            ours=[float(ours)] * rounds,
            theirs=[float(bound)] * rounds,
            goal=1,
        )
