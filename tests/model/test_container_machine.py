"""A container against a model: every verb, crashes, takeovers, stale and lost indexes.

What may fail: any owner, at any moment, with calls in flight, its local index kept as memory left
it, replaced by an older one, or gone; and any owner may be taken over while it lives. What may not:
the services. What must hold: what was acknowledged is there, nothing else but what was in flight,
a fenced owner acknowledges nothing, and after each run every invariant and every chunk is checked.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from siltstone.bindings.nfs.chunk_storage import NfsChunkStorage
from siltstone.container.models.segments import Append, LengthIs, Operation, Put, Remove, VersionIs
from siltstone.core.errors import ConditionFailedError, SegmentNotFoundError
from siltstone.testing.virtual_time import jittered
from siltstone.tier1.file.fenced_log import FileFencedLog
from tests.support.container.container_world import World
from tests.support.model.adoption_rules import AdoptionRules
from tests.support.model.container_model import compare, settle
from tests.support.model.join_rules import JoinRules
from tests.support.model.machine_base import MANY, OPTIMISING, TABLE, names, sizes
from tests.support.model.naming_rules import NamingRules
from tests.support.soak import share_of


class ContainerMachine(NamingRules, JoinRules, AdoptionRules):
    """Random life of one container."""

    # --- commits and tables -----------------------------------------------------------------------

    @rule(
        puts=st.dictionaries(st.binary(min_size=1, max_size=3), st.none() | st.binary(max_size=9)),
        several=st.lists(st.tuples(names, sizes), max_size=3),
        right=st.booleans(),
        key=st.binary(min_size=1, max_size=3),
        name=names,
    )
    def commit(
        self,
        puts: dict[bytes, bytes | None],
        several: list[tuple[str, int]],
        right: bool,
        key: bytes,
        name: str,
    ) -> None:
        segments = self.model.segments
        appends = [
            (target, self.made(size))
            for target, size in several
            if target in segments and not segments[target].sealed
        ]
        value = self.run(self.container.table_get(TABLE, key))
        assert (None if value is None else value.value) == self.model.table.get(key)
        version = None if value is None else value.version
        conditions: list[Any] = [VersionIs(TABLE, key, version if right else -1)]
        if name in segments:
            conditions.append(LengthIs(name, len(segments[name].data) + (0 if right else 1)))
        operations: list[Operation] = [Append(target, data) for target, data in appends]
        for changed, new in puts.items():
            operations.append(Remove(TABLE, changed) if new is None else Put(TABLE, changed, new))
        work = self.container.commit(operations, conditions)
        if not right:
            self.fails(ConditionFailedError, work)
            return
        result = self.run(work)
        for (target, data), offset in zip(appends, result.offsets, strict=True):
            assert offset == len(segments[target].data)
            segments[target].data += data
        for changed, new in puts.items():
            self.model.table.pop(changed, None)
            if new is not None:
                self.model.table[changed] = new

    # --- care -------------------------------------------------------------------------------------

    @rule(name=st.none() | names)
    def flush(self, name: str | None) -> None:
        if name is not None and not self.has(name):
            self.fails(SegmentNotFoundError, self.container.flush(name))
            return
        self.run(self.container.flush(name))
        for info in self.run(self.container.list_segments()):
            if name in (None, info.name):
                assert info.flushed_length == info.length

    @rule(count=st.sampled_from([2, 5, 20]), size=st.sampled_from([1, 7, 100]), flush=st.booleans())
    def trickle(self, count: int, size: int, flush: bool) -> None:
        """A few bytes for many segments, which then share chunks."""
        for name in MANY[:count]:
            if not self.has(name):
                self.create(name)
        flights = self.flights([(name, size) for name in MANY[:count]])

        async def work() -> None:
            await asyncio.gather(*(self.fly(self.owner, flight) for flight in flights))

        self.run(work())
        assert all(flight.offset is not None for flight in flights)
        self.run(settle(self.model, self.container, flights))
        if flush:
            self.flush(None)

    @rule()
    def checkpoint(self) -> None:
        self.run(self.container.checkpoint())

    @rule()
    def collect(self) -> None:
        self.run(self.container.collect())

    @rule(seconds=st.sampled_from([0.01, 1.0, 6.0, 30.0, 100.0]))
    def wait(self, seconds: float) -> None:
        self.run(self.world.environment.sleep(seconds))

    @rule()
    def check(self) -> None:
        self.run(self.check_all())

    # --- readers ----------------------------------------------------------------------------------

    @rule(keep=st.booleans())
    def read_only(self, keep: bool) -> None:
        """A read-only open shows the same, whether it is new or has followed for long."""

        async def work() -> None:
            reader = self.reader or await self.world.open_reader()
            self.reader = reader
            await reader.refresh()
            await compare(self.model, reader, TABLE)
            assert not [f async for f in reader.check() if f.severity == "damage"]
            # One more frame, and no other one: a reader that follows must see just that.
            await self.container.commit([Put(TABLE, b"followed", b"")])
            self.model.table[b"followed"] = b""
            await reader.refresh()
            await compare(self.model, reader, TABLE)
            if not keep:
                await reader.close()
                self.reader = None

        self.run(work())


class FilesMachine(ContainerMachine):
    """The same over folders: the binding for shared folders, and the log in files.

    What it reads is also read in the caller's thread, where that is possible.
    """

    profiles = ("append",)
    near_reads = 0

    def make_world(self, seed: int, profile: str) -> World:
        folder = Path(mkdtemp(prefix="siltstone-files-"))
        world = World(
            seed,
            latency=jittered(0.05),
            settings=OPTIMISING,
            new_storage=lambda: NfsChunkStorage(folder / "chunks"),
            new_log=lambda: FileFencedLog(str(folder / "log"), 0, file_bytes=1 << 20),
            near=True,
        )
        self.files = folder
        return world

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "model"):
            FilesMachine.near_reads += self.model.near_reads
        if hasattr(self, "files"):
            shutil.rmtree(self.files, ignore_errors=True)


def play(machine: type[RuleBasedStateMachine], examples: int, steps: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize(("machine", "examples"), [(ContainerMachine, 25), (FilesMachine, 6)])
def test_container(machine: type[RuleBasedStateMachine], examples: int) -> None:
    play(machine, examples, 30)
    assert machine is not FilesMachine or FilesMachine.near_reads


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("machine", "examples"), [(ContainerMachine, 1500), (FilesMachine, 300)])
def test_container_for_long(machine: type[RuleBasedStateMachine], examples: int) -> None:
    play(machine, share_of(examples), 60)
