"""What every part of the container machine shares: world, model, first and last look."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from siltstone.bindings.memory.chunk_storage import Profile
from siltstone.container.compact import sparse_chunks
from siltstone.container.reader.read_container import ReadContainer
from siltstone.core.errors import ClosedError, LogError, OutcomeUnknownError
from siltstone.testing.virtual_time import jittered
from tests.support.container.container_world import Owner, World, pattern, with_settings
from tests.support.model.container_model import InFlight, Model, compare

PROFILES = {
    "append": Profile(),
    "write once": Profile(append=False, concat=False, seal=False),
    "small pages": Profile(list_page_count=3, appends_max=4),
}
OPTIMISING = with_settings(
    optimiser_interval_s=20.0,
    optimiser_chunks_min=2,
    relocation_chunk_bytes_min=1,
    relocation_percent=40,
)
NAMES = ("a", "b", "sub/c", "d")
MANY = tuple(f"many/{number}" for number in range(20))
"""More than get chunks of their own where chunks can be appended to."""

TABLE = "table"
LOST = (LogError, OutcomeUnknownError, ClosedError)

names = st.sampled_from((*NAMES, *MANY[:2]))
writers = st.sampled_from(["w", "v"])
sizes = st.sampled_from([0, 1, 7, 100, 1_000, 5_000, 17_000, 40_000])
some_appends = st.lists(st.tuples(names, sizes.filter(bool)), min_size=1, max_size=6)


class MachineBase(RuleBasedStateMachine):
    """The world and the model of one container; the rules are those of the subclasses."""

    profiles = tuple(sorted(PROFILES))

    @initialize(seed=st.integers(0, 2**16), data=st.data())
    def open(self, seed: int, data: Any) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(sparse_chunks, "WASTE_BYTES_MIN", 1)
        self.world = self.make_world(seed, data.draw(st.sampled_from(self.profiles)))
        self.model = Model()
        self.stash: Path | None = None
        self.reader: ReadContainer | None = None
        self.owner: Owner = self.run(self.world.open())
        self.bytes_made = 0
        self.index = 0
        self.run(self.owner.container.create_table(TABLE))

    def make_world(self, seed: int, profile: str) -> World:
        return World(seed, profile=PROFILES[profile], latency=jittered(0.05), settings=OPTIMISING)

    @property
    def container(self) -> Any:
        return self.owner.container

    def run(self, work: Any) -> Any:
        return self.world.run(work)

    def made(self, size: int) -> bytes:
        self.bytes_made += 1
        return pattern(self.bytes_made, size)

    def fails(self, kind: type[Exception], work: Any) -> Exception:
        with pytest.raises(kind) as caught:
            self.run(work)
        return caught.value

    def has(self, name: str) -> bool:
        return name in self.model.segments

    def flights(self, several: list[tuple[str, int]]) -> list[InFlight]:
        return [
            InFlight(name, self.made(size))
            for name, size in several
            if self.has(name) and not self.model.segments[name].sealed
        ]

    async def fly(self, owner: Owner, flight: InFlight) -> None:
        try:
            flight.offset = await owner.container.append(flight.name, flight.data)
        except LOST:
            return

    async def check_all(self) -> None:
        assert self.container.failure is None
        await compare(self.model, self.container, TABLE)
        await self.world.check(self.owner, strict=False)

    @precondition(lambda self: hasattr(self, "owner"))
    @rule()
    def nothing(self) -> None:
        """A step that shrinks well."""

    def teardown(self) -> None:
        if not hasattr(self, "owner"):
            return
        try:
            self.run(self.last_look())
        finally:
            self.world.close()
            self.patch.undo()

    async def last_look(self) -> None:
        await self.check_all()
        await self.container.flush()
        await self.world.environment.sleep(60)
        await self.container.flush()
        await self.container.collect()
        await self.check_all()
        await self.world.check(self.owner)
        await self.container.close()
        if self.reader is not None:
            await self.reader.refresh()
            await compare(self.model, self.reader, TABLE)
            await self.reader.close()
        self.owner = await self.world.open(index=self.owner.folder.name)
        await self.check_all()
        await self.container.close()
