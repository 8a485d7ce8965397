"""What outlives every process of a story of keyspaces, and what these have besides a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import cast

from siltstone.bindings.memory.bucket import Bucket
from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage, Profile
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.environment import Environment
from siltstone.objects.records.space_rows import Space, Strategy
from siltstone.objects.space_names import space_names
from siltstone.objects.space_place import SpacePlace, folders_in
from siltstone.objects.value_segments import RollLimits
from siltstone.store.async_store import AsyncStore
from siltstone.store.handles.import_writer import ImportTarget
from siltstone.store.settings.objects_section import ObjectsSection
from siltstone.testing.faults.faulty_chunk_storage import Fate, FaultyChunkStorage, StorageCall
from siltstone.testing.virtual_time import START_S
from tests.simulation.keyspaces.ledger import SpaceLedger
from tests.simulation.world import World
from tests.support.borrowed_environment import BorrowedEnvironment
from tests.support.simulation.processes import Process, current_process

NAMES = space_names("photos")
SPACE = Space(tags={"o": Strategy.RECOVR, "x": Strategy.RETAIN})
PLACE = "/place-of-backups"
"""No file is there: clients of it are made here."""


class KeyspaceProcess(Process):
    """A process whose wall clock is its own.

    Attributes:
        ahead_s: seconds that it is ahead of the time; below 0, behind it.
        latest_s: the latest time that it ever said, seconds since 1970.
        jumps: how often it jumped.
    """

    ahead_s = 0.0
    latest_s = 0.0
    jumps = 0

    def time(self) -> float:
        """Seconds since 1970, as its wall clock says."""
        now_s = super().time() + self.ahead_s
        self.latest_s = max(self.latest_s, now_s)
        return now_s

    def jump(self, ahead_s: float) -> None:
        """Let the clock be ahead by this from now on."""
        self.ahead_s = ahead_s
        self.jumps += 1


@dataclass(frozen=True, slots=True)
class MadeBackup:
    """A backup that was acknowledged.

    Attributes:
        generation: its number.
        sqn: of the newest change in it.
        lineage: of the ledger.
    """

    generation: int
    sqn: int
    lineage: int


class KeyspaceWorld(World):
    """A store of one container, a keyspace in it, and a place for its backups."""

    processes: list[KeyspaceProcess]  # type: ignore[assignment]
    process_class = KeyspaceProcess

    def __init__(self, seed: int) -> None:
        super().__init__(seed, containers=(1,))
        choice = Random(f"{seed}/keyspaces").choice
        self.limits = RollLimits(
            length=choice((1_000, 3_000, 8_000)),
            records=choice((4, 12, 40)),
            value=choice((900, 1_500)),
            piece=choice((256, 400)),
        )
        self.objects = ObjectsSection.model_validate(
            {
                "compact": choice(("auto", "manual")),
                "head_checks": choice((0, 3)),
                "waste_retention": choice(("0s", "0s", "5s")),
            }
        )
        self.space = SpaceLedger(self.latest_s, self.has_jumped)
        self.place = Bucket()
        self.backups: list[MadeBackup] = []
        self._patched.setattr("siltstone.objects.open_space.UPKEEP_EVERY_S", choice((3.0, 9.0)))
        rounds = "siltstone.objects.compaction_schedule"
        self._patched.setattr(f"{rounds}.ROUND_EVERY_S", choice((2.0, 6.0)))
        self._patched.setattr(f"{rounds}.REST_S", choice((0.1, 2.0)))
        self._patch_targets()
        self._patch_places(choice((700, 5_000)))

    def latest_s(self) -> float:
        """The latest time that the clock of any process ever said, seconds since 1970."""
        return max([START_S + self.clock.now, *(each.latest_s for each in self.processes)])

    def has_jumped(self) -> bool:
        """Whether the clock of any process ever jumped."""
        return any(each.jumps for each in self.processes)

    # --- what compactions write to, and backups ---------------------------------------------------

    def _patch_targets(self) -> None:
        async def own_target(store: AsyncStore) -> ImportTarget:
            process = store.environment
            assert isinstance(process, Process)
            return ImportTarget(self.storage(process), self.settings.chunk_bytes, process)

        async def at_once(close: Callable[[], None]) -> None:
            close()  # a thread would let the virtual time pass

        for module in ("open_space", "restore_space"):
            self._patched.setattr(f"siltstone.objects.{module}.own_target", own_target)
            self._patched.setattr(f"siltstone.objects.{module}.off_loop", at_once)

    def _patch_places(self, object_bytes: int) -> None:
        @contextmanager
        def spaces_in(_: str) -> Iterator[list[SpacePlace]]:
            storage, environment = self._place_client(), _borrowed()
            yield [SpacePlace(storage, environment, each) for each in folders_in(storage)]

        def open_place(*_: object, **__: object) -> ChunkStorage:
            return self._place_client()

        module = "siltstone.objects.space_backup"
        self._patched.setattr(f"{module}.open_place", open_place)
        self._patched.setattr(f"{module}.SystemEnvironment", _borrowed)
        self._patched.setattr(f"{module}.OBJECT_BYTES", object_bytes)
        self._patched.setattr("siltstone.objects.restore_space.spaces_in", spaces_in)

    def _place_client(self) -> ChunkStorage:
        """A client of the place, whose calls have a fate as well."""
        process = current_process()
        assert process is not None, "a process asks"

        def plan(call: StorageCall) -> Fate:
            fate = self.weather.fate(call)
            self.trace.note(process.name, f"place {call.operation} {call.name} {fate.value}")
            return fate

        bare = MemoryChunkStorage(
            self.place, Profile(), clock=lambda: START_S + self.clock.now, sleep=lambda _: None
        )
        return FaultyChunkStorage(bare, plan)


def _borrowed() -> Environment:
    process = current_process()
    assert process is not None, "a process asks"
    return cast("Environment", BorrowedEnvironment(process))
