"""What outlives every process: the services, the time, and the trace of all that happened."""

from __future__ import annotations

import asyncio
import hashlib
import re
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any

import pytest
import rocksdict

from siltstone.bindings.memory.bucket import Bucket
from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage, Profile
from siltstone.container.models.settings import ContainerSettings
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import KIB
from siltstone.core.environment import Pool
from siltstone.core.records.store_manifest import StoreManifest
from siltstone.metadata import index
from siltstone.metadata.index_snapshot import IndexSnapshot
from siltstone.testing.faults.faulty_chunk_storage import Fate, FaultyChunkStorage, StorageCall
from siltstone.testing.faults.faulty_fenced_log import FaultPlan
from siltstone.testing.virtual_time import START_S, Clock
from siltstone.tier1.memory.fenced_log import MemoryFencedLog
from siltstone.tier1.memory.shared_log import SharedLog
from tests.simulation.facts import ViolationError
from tests.simulation.heard_log import HeardLog, TendedHeardLog
from tests.simulation.kafka_cluster import KafkaCluster
from tests.simulation.ledger import Ledger
from tests.simulation.log_disk import LogDisk
from tests.simulation.weather import Weather
from tests.support.memory_folder import memory_folder
from tests.support.simulation.processes import Delays, Process, ProcessLoop, current_process
from tests.support.still_indexes import keep_indexes_still

INDEX_FILE = re.compile(r"index-[^ ]*")
PROFILES = (
    Profile(),
    Profile(),
    Profile(append=False, concat=False, seal=False),
    Profile(list_page_count=3, appends_max=4),
)
CONTAINERS = (1, 1, 1, 2, 2, 3)
FILE_LOGS = 0.3
"""Share of the runs whose logs are files."""
MACHINES = 4
DATA_PREFIX = "data/"


class Trace:
    """What happened, a line each; equal runs have equal traces."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.lines: list[str] = []

    def note(self, who: str, what: str) -> None:
        """Add a line."""
        # What RocksDB puts into its files depends on more than their content.
        text = INDEX_FILE.sub("index-*", what)
        self.lines.append(f"{self._clock.now:.6f} {who} {text}")

    @property
    def digest(self) -> str:
        """A hash of all lines."""
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()


class Machine:
    """A local disk for indexes; one owner at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.busy = False


class World:
    """Everything that a run consists of but its story.

    Args:
        seed: of the run.
        kafka: whether the logs are in a model of Kafka.
        containers: how many the store may have, each as likely as it is there.
    """

    process_class: type[Process] = Process

    def __init__(
        self, seed: int, *, kafka: bool = False, containers: Sequence[int] = CONTAINERS
    ) -> None:
        self.seed = seed
        self.clock = Clock()
        self.chance = Random(f"{seed}/story")
        self.trace = Trace(self.clock)
        self.weather = Weather(Random(f"{seed}/weather"))
        self.containers = self.chance.choice(containers)
        self.ledgers = [Ledger(index, self.now_ms) for index in range(self.containers)]
        self.profile = self.chance.choice(PROFILES)
        self.settings = settings(self.chance)
        self.bucket = Bucket()
        self.shared_logs = [SharedLog() for _ in range(self.containers)]
        self.manifest = StoreManifest(
            store_id=self.chance.randbytes(16), container_count=self.containers, created_ms=0
        )
        self.folder = Path(mkdtemp(prefix="siltstone-sim-", dir=memory_folder()))
        self.log_disk: LogDisk | None = None
        if self.chance.random() < FILE_LOGS and not kafka:
            note = partial(self.trace.note, "disk")
            self.log_disk = LogDisk(self.folder / "disk", Random(f"{seed}/disk"), note)
        self.machines = [Machine(self.folder / f"machine-{number}") for number in range(MACHINES)]
        self.processes: list[Process] = []
        self.failures_unheard: list[str] = []
        self.broken: list[str] = []
        self._snapshots: list[tuple[Process, IndexSnapshot]] = []
        self._databases: list[tuple[Process, Any, Path]] = []
        self._cleanup = ExitStack()
        self._cleanup.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self._patched = self._cleanup.enter_context(pytest.MonkeyPatch.context())
        self._watch_databases()
        self._make_small()
        self.kafka: KafkaCluster | None = None
        if kafka:
            self.kafka = KafkaCluster(
                self.clock,
                Random(f"{seed}/kafka"),
                self._patched,
                lambda: self.weather.climate.log_s,
                partial(self.trace.note, "kafka"),
            )

    def close(self) -> None:
        """Free everything."""
        for process in self.processes:
            process.end_steps()
        for _, database, _ in self._databases:
            _close(database)
        if self.log_disk is not None:
            self.log_disk.close()
        self._cleanup.close()

    def now_ms(self) -> int:
        """The time as every process has it, milliseconds since 1970."""
        return int((START_S + self.clock.now) * 1000)

    def loop(self) -> ProcessLoop:
        """A new loop on this world's time."""
        return ProcessLoop(self.clock, Random(f"{self.seed}/loop"))

    def process(self, kind: str) -> Process:
        """A new process."""
        return self._started(kind, self.weather.delays, self.weather.outlives)

    def auditor(self) -> Process:
        """A process whose calls take no time."""
        at_once = Delays(before_s=0.0, after_s=0.0)
        return self._started("auditor", lambda pool, chance: at_once, lambda pool: False)

    def _started(
        self,
        kind: str,
        delays: Callable[[Pool, Random], Delays],
        outlives: Callable[[Pool], bool],
    ) -> Process:
        process = self.process_class(
            f"{kind}-{len(self.processes) + 1}",
            self.clock,
            self.seed,
            delays=delays,
            outlives=outlives,
            steps=lambda pool: self.kafka is not None and not pool.name.startswith("chunks-"),
        )
        self.processes.append(process)
        return process

    # --- services ---------------------------------------------------------------------------------

    def bare_storage(self) -> ChunkStorage:
        """A client of long-term storage that never fails."""
        return MemoryChunkStorage(
            self.bucket, self.profile, clock=lambda: 1.7e9 + self.clock.now, sleep=lambda _: None
        )

    def storage(self, process: Process, log: HeardLog | None = None) -> FaultyChunkStorage:
        """A client of long-term storage for one container of a process, whose log is ``log``."""

        def plan(call: StorageCall) -> Fate:
            deletes = call.operation == "delete" and call.name.startswith(DATA_PREFIX)
            if deletes and (log is None or not log.has_stated(call.name)):
                self.broken.append(f"{process.name} deletes {call.name} and did not state it")
            fate = self.weather.fate(call)
            self.trace.note(process.name, f"{call.operation} {call.name} {fate.value}")
            return fate

        return FaultyChunkStorage(self.bare_storage(), plan)

    def log(self, process: Process, container: int) -> HeardLog:
        """A handle to the log of a container for a process."""
        plan = FaultPlan()

        def before(method: str, number: int) -> None:
            told = ""
            if method in ("append", "claim", "truncate"):
                found = self.weather.log_fault(method)
                if (
                    found is not None
                    and self.log_disk is not None
                    and self.weather.chance.random() < 0.7
                ):
                    told = self.log_disk.fail_soon()
                elif found is not None:
                    told, plan.faults[method, number] = found
            self.trace.note(process.name, f"log {method} {told}")

        plan.before = before
        if self.log_disk is not None:
            return TendedHeardLog(self.log_disk.log(container, process), plan)
        if self.kafka is not None:
            return HeardLog(self.kafka.log(container, process), plan)
        shared = self.shared_logs[container]
        return HeardLog(MemoryFencedLog("sim", container, shared=shared), plan)

    def _make_small(self) -> None:
        """Let few bytes and few rows be many, where no setting does."""
        choice = self.chance.choice
        self._patched.setattr(
            "siltstone.container.changes.concat.SMALL_BYTES", choice((0, 900, 10**6))
        )
        self._patched.setattr(
            "siltstone.container.changes.concat.CONCAT_EXTENTS_MAX", choice((1, 4, 400))
        )
        small, extents = choice((0, 900, 10**6)), choice((1, 4, 400))
        self._patched.setattr("siltstone.container.imports.publisher.SMALL_BYTES", small)
        self._patched.setattr("siltstone.container.imports.publisher.CONCAT_EXTENTS_MAX", extents)
        self._patched.setattr(
            "siltstone.segments.concat_staging.PLACED_PER_SLICE", choice((1, 3, 400))
        )
        self._patched.setattr(
            "siltstone.container.retention.retention.ROUND_S", choice((2.0, 10.0))
        )
        self._patched.setattr(
            "siltstone.container.retention.retention.ROWS_PER_SLICE", choice((1, 3, 400))
        )
        self._patched.setattr(
            "siltstone.metadata.time_index.STEP_BYTES", choice((1, 2 * KIB, 20 * KIB))
        )
        self._patched.setattr("siltstone.metadata.time_index.STEP_MS", choice((300, 10_000)))

    # --- local indexes ----------------------------------------------------------------------------

    def _watch_databases(self) -> None:
        """Know who has which index open, and let RocksDB do nothing by itself."""
        opened: Callable[..., Any] = index._open_database

        def watched(folder: Path, *choices: Any, **more: Any) -> Any:
            database = opened(folder, *choices, **more)
            process = current_process()
            if process is not None:
                self._databases.append((process, database, folder))
            return database

        def snapshot(rows: Any, folder: Path) -> IndexSnapshot:
            taken = IndexSnapshot(rows, folder)
            process = current_process()
            if process is not None:
                self._snapshots.append((process, taken))
            return taken

        self._patched.setattr(index, "IndexSnapshot", snapshot)
        self._patched.setattr(index, "_open_database", watched)
        keep_indexes_still(self._patched)

    def unheard(self, loop: asyncio.AbstractEventLoop, facts: dict[str, Any]) -> None:
        """A failure that no code asked about; in a living process that is a defect."""
        process = getattr(facts.get("task", facts.get("future")), "process", None)
        if process is not None and not process.dead:
            self.failures_unheard.append(f"{facts['message']}: {facts.get('exception')!r}")

    def check_closed(self) -> None:
        """No process that ended by itself left an index open."""
        for process, database, folder in self._databases:
            with suppress(rocksdict.DbClosedError):
                database.get(b"")
                raise ViolationError(f"{process.name} left its index open: {folder.name}")

    def crash_indexes(self, process: Process, *, keep: bool) -> None:
        """Leave the indexes of a process as its death would: without what only memory held."""
        mine = [entry for entry in self._databases if entry[0] is process]
        self._databases = [entry for entry in self._databases if entry[0] is not process]
        folders = {folder: folder.with_name(folder.name + "-crashed") for _, _, folder in mine}
        for folder, kept in folders.items():
            if keep and folder.exists():
                shutil.copytree(folder, kept)
        # An index that is being read cannot be closed.
        for owner, taken in self._snapshots:
            if owner is process:
                taken.close()
        for _, database, _ in mine:
            _close(database)
        for folder, kept in folders.items():
            shutil.rmtree(folder, ignore_errors=True)
            if kept.exists():
                kept.rename(folder)


def _close(database: Any) -> None:
    # Its folder may be gone by now.
    with suppress(Exception):
        database.close()


def settings(chance: Random) -> ContainerSettings:
    """Small numbers, so that much happens in a minute."""
    return ContainerSettings(
        chunk_bytes=chance.choice((4, 16, 64)) * KIB,
        flush_bytes=chance.choice((2, 8, 24)) * KIB,
        flush_age_s=chance.choice((1.0, 5.0)),
        read_back=chance.random() < 0.2,
        pack_bytes=chance.choice((1, 900, 4_000)),
        storage_attempts=chance.choice((1, 4)),
        unflushed_bytes_max=chance.choice((48, 256)) * KIB,
        unflushed_table_bytes_max=256 * KIB,
        append_deadline_s=5.0,
        table_flush_bytes=chance.choice((2, 16)) * KIB,
        table_flush_age_s=chance.choice((1.0, 5.0)),
        checkpoint_age_s=chance.choice((5.0, 20.0)),
        garbage_delay_s=chance.choice((0.0, 2.0, 10.0)),
        garbage_interval_s=2.0,
        optimiser_interval_s=chance.choice((3.0, 20.0)),
        optimiser_chunks_min=2,
        relocation_chunk_bytes_min=1,
        relocation_percent=chance.choice((20, 80)),
        storage_deadline_s=8.0,
        storage_threads=chance.choice((2, 16)),
        prefetch_bytes=chance.choice((0, 64)) * KIB,
        verify_reads=chance.choice(("remembered", "always")),
        index_cache_bytes=1024 * KIB,
    )
