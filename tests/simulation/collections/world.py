"""What outlives every process of a story of collections: the bucket, the time, and the trace."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import pyarrow
import pytest

from siltstone.bindings.memory.bucket import Bucket
from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage, Profile
from siltstone.collections.consensus.objects import ObjectConsensus
from siltstone.collections.place import CollectionPlace, CollectionSettings
from siltstone.collections.rows.encode_parts import PART_BYTES
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import KIB
from siltstone.core.storage.retries import Retries, RetryingChunkStorage
from siltstone.testing.virtual_time import START_S, Clock
from tests.simulation.collections.ledger import CollectionLedger
from tests.simulation.collections.process import CollectionLoop, CollectionProcess
from tests.simulation.collections.service import CollectionWeather, SentRequests
from tests.simulation.facts import ViolationError
from tests.simulation.world import Trace

SCHEMA = pyarrow.schema(
    [pyarrow.field("k", pyarrow.string(), nullable=False), pyarrow.field("v", pyarrow.int64())]
)
PEACEFUL = 0.15
"""Share of the runs in which nothing fails, so that refusals need a reason in what others do."""

STORE_ID = bytes(16)


class CollectionWorld:
    """Everything that a run consists of but its story.

    Attributes:
        is_peaceful: whether no request fails, no process dies or stops, and no clock jumps.
        lease_s: seconds that leases last.
        ledgers: of the collections that were ever asked for, by their names.
        witness: looks at the bucket from outside whenever parts were deleted.
        broken: what it saw that must not be.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.clock = Clock()
        self.chance = Random(f"{seed}/collections")
        self.trace = Trace(self.clock)
        self.weather = CollectionWeather(Random(f"{seed}/collections/weather"))
        self.bucket = Bucket()
        self.profile = Profile(list_page_count=self.chance.choice((2, 1_000)))
        self.is_peaceful = self.chance.random() < PEACEFUL
        self.lease_s = self.chance.choice((3.0, 6.0))
        self.garbage_delay_s = self.chance.choice((0.0, 0.0, 2.0, 10.0))
        self.attempts = self.chance.choice((1, 3))
        self.ledgers: dict[str, CollectionLedger] = {}
        self.processes: list[CollectionProcess] = []
        self.failures_unheard: list[str] = []
        self.witness: Callable[[], None] = lambda: None
        self.broken: list[str] = []
        self._clients: list[SentRequests] = []
        self._loop: CollectionLoop | None = None
        self._patched = pytest.MonkeyPatch()
        self._make_small()

    def close(self) -> None:
        """Free everything."""
        for process in self.processes:
            process.end_steps()
        self._patched.undo()

    def loop(self) -> CollectionLoop:
        """The loop of this world."""
        self._loop = CollectionLoop(self.clock, Random(f"{self.seed}/collections/loop"))
        return self._loop

    @property
    def busy_until(self) -> float:
        """When the last request that was sent has arrived, in seconds of the clock."""
        return max((client.busy_until for client in self._clients), default=0.0)

    def process(self, kind: str, *, in_steps: bool = True) -> CollectionProcess:
        """A new process."""
        name = f"{kind}-{len(self.processes) + 1}"
        process = CollectionProcess(name, self.clock, self.seed, in_steps=in_steps)
        self.processes.append(process)
        return process

    def place(self, process: CollectionProcess) -> CollectionPlace:
        """Collections as a process has them, whose requests may fail."""
        assert self._loop is not None, "the loop runs"
        note = partial(self.trace.note, process.name)
        sent = SentRequests(
            self.bare_storage(), self.weather, self.clock, self._loop, note, self._look
        )
        self._clients.append(sent)
        retries = Retries(attempts=self.attempts, deadline_s=10.0, throttled=True)
        storage = RetryingChunkStorage(sent, process, retries)
        return self._placed(process, storage, compacts=self.chance.random() < 0.7)

    def _look(self) -> None:
        try:
            self.witness()
        except ViolationError as error:
            self.broken.append(str(error))

    def calm_place(self, process: CollectionProcess) -> CollectionPlace:
        """Collections as a process has them whose requests never fail, and take no time."""
        return self._placed(process, self.bare_storage(), compacts=False)

    def bare_storage(self) -> ChunkStorage:
        """A client of long-term storage that never fails."""
        return MemoryChunkStorage(
            self.bucket,
            self.profile,
            clock=lambda: START_S + self.clock.now,
            sleep=lambda _: None,
        )

    def unheard(self, loop: asyncio.AbstractEventLoop, facts: dict[str, Any]) -> None:
        """A failure that no code asked about; in a living process that is a defect."""
        process = getattr(facts.get("task", facts.get("future")), "process", None)
        if process is not None and not process.dead:
            self.failures_unheard.append(f"{facts['message']}: {facts.get('exception')!r}")

    def _placed(
        self, process: CollectionProcess, storage: ChunkStorage, *, compacts: bool
    ) -> CollectionPlace:
        return CollectionPlace(
            storage=storage,
            consensus=ObjectConsensus(storage, process),
            environment=process,
            settings=CollectionSettings(
                part_bytes=self.part_bytes,
                compacts=compacts,
                poll_max_s=3.0,
                lease_ms=round(1_000 * self.lease_s),
                garbage_delay_ms=round(1_000 * self.garbage_delay_s),
            ),
            store_id=STORE_ID,
            who=process.name,
        )

    def _make_small(self) -> None:
        """Let few entries and few bytes be many, where no setting does."""
        choice = self.chance.choice
        self.part_bytes = choice((2 * KIB, PART_BYTES))
        every, inline = choice((3, 4, 8)), choice((1, 500, 4 * KIB))
        small = {
            "state.rollups.ROLLUP_EVERY": every,
            "state.rollups.ROLLUP_LATE": 2 * every,
            "garbage.ROLLUP_EVERY": every,
            "garbage.AGE_STEP": 1,
            "rows.encode_parts.INLINE_BYTES": inline,
            "async_writer.UNNAMED_LEASE_MS": choice((1_000, 3_600_000)),
            "state.compaction_plan.LEVEL_BYTES": choice((256, KIB)),
            "state.compaction_plan.LEVEL_FACTOR": choice((3, 8)),
            "state.compaction_plan.LOWEST_FACTOR": choice((3, 8, 32)),
            "consensus.entry_plan.REPEATED_BYTES_MAX": choice((1, 2 * KIB, 64 * KIB)),
            "consensus.objects._READS_MAX": choice((1, 4)),
            "consensus.attempts.COMMIT_DEADLINE_S": choice((6.0, 30.0)),
            "async_subscription.ROWS_MAX": choice((1, 30, 1_000_000)),
        }
        for name, value in small.items():
            self._patched.setattr(f"siltstone.collections.{name}", value)
