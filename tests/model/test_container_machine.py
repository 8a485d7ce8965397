"""A container against a model: every verb, crashes, takeovers, stale and lost indexes.

What may fail: any owner, at any moment, with calls in flight, its local index kept as memory left
it, replaced by an older one, or gone; and any owner may be taken over while it lives. What may not:
the services. What must hold: what was acknowledged is there, nothing else but what was in flight,
a fenced owner acknowledges nothing, and after each run every invariant and every chunk is checked.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from siltstone.bindings.memory.chunk_storage import Profile
from siltstone.bindings.nfs.chunk_storage import NfsChunkStorage
from siltstone.container.reader import ReadContainer
from siltstone.container.views import Append, LengthIs, Operation, Put, Remove, VersionIs
from siltstone.core.errors import (
    ClosedError,
    ConditionFailedError,
    LogError,
    OffsetError,
    OutcomeUnknownError,
    SegmentExistsError,
    SegmentNotFoundError,
    SegmentNotSealedError,
    SegmentSealedError,
    SegmentTruncatedError,
    SequenceError,
)
from siltstone.testing.virtual_time import jittered
from siltstone.tier1.file.fenced_log import FileFencedLog
from tests.model.container_model import InFlight, Model, ModelSegment, ModelWriter, compare, settle
from tests.unit.container.container_world import Owner, World, close_quietly, pattern

PROFILES = {
    "append": Profile(),
    "write once": Profile(append=False, concat=False, seal=False),
    "small pages": Profile(list_page_count=3, appends_max=4),
}
NAMES = ("a", "b", "sub/c", "d")
TABLE = "table"
LOST = (LogError, OutcomeUnknownError, ClosedError)

names = st.sampled_from(NAMES)
writers = st.sampled_from(["w", "v"])
sizes = st.sampled_from([0, 1, 7, 100, 1_000, 5_000, 17_000, 40_000])
some_appends = st.lists(st.tuples(names, sizes.filter(bool)), min_size=1, max_size=6)


class ContainerMachine(RuleBasedStateMachine):
    """Random life of one container."""

    profiles = tuple(sorted(PROFILES))

    @initialize(seed=st.integers(0, 2**16), data=st.data())
    def open(self, seed: int, data: Any) -> None:
        self.world = self.make_world(seed, data.draw(st.sampled_from(self.profiles)))
        self.model = Model()
        self.stash: Path | None = None
        self.reader: ReadContainer | None = None
        self.owner: Owner = self.run(self.world.open())
        self.bytes_made = 0
        self.index = 0
        self.run(self.owner.container.create_table(TABLE))

    def make_world(self, seed: int, profile: str) -> World:
        return World(seed, profile=PROFILES[profile], latency=jittered(0.05))

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

    # --- segments ---------------------------------------------------------------------------------

    @rule(name=names)
    def create(self, name: str) -> None:
        if self.has(name):
            self.fails(SegmentExistsError, self.container.create(name))
            return
        self.run(self.container.create(name))
        self.model.segments[name] = ModelSegment()
        self.model.joined.pop(name, None)

    @rule(name=names, size=sizes)
    def append(self, name: str, size: int) -> None:
        self.append_at(name, self.made(size), None)

    @rule(name=names, size=sizes, wrong=st.sampled_from([0, 0, 1, -1, 100]))
    def append_expecting(self, name: str, size: int, wrong: int) -> None:
        length = len(self.model.segments[name].data) if self.has(name) else 0
        self.append_at(name, self.made(size), max(0, length + wrong))

    def append_at(self, name: str, data: bytes, expected: int | None) -> None:
        async def work() -> int:
            return int(await self.container.append(name, data, expected))

        if not self.has(name):
            self.fails(SegmentNotFoundError, work())
            return
        segment = self.model.segments[name]
        if segment.sealed:
            self.fails(SegmentSealedError, work())
        elif expected not in (None, len(segment.data)):
            self.fails(OffsetError, work())
        else:
            assert self.run(work()) == len(segment.data)
            segment.data += data

    @rule(name=names, several=st.lists(sizes, min_size=1, max_size=5))
    def append_many(self, name: str, several: list[int]) -> None:
        records = [self.made(size) for size in several]

        async def work() -> int:
            return int(await self.container.append_many(name, records))

        segment = self.model.segments.get(name)
        if segment is None or segment.sealed:
            self.fails(SegmentNotFoundError if segment is None else SegmentSealedError, work())
            return
        assert self.run(work()) == len(segment.data)
        segment.data += b"".join(records)

    @rule(several=some_appends)
    def append_concurrently(self, several: list[tuple[str, int]]) -> None:
        flights = self.flights(several)

        async def work() -> None:
            await asyncio.gather(*(self.fly(self.owner, flight) for flight in flights))

        self.run(work())
        assert all(flight.offset is not None for flight in flights)
        self.run(settle(self.model, self.container, flights))

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

    @rule(
        name=names,
        writer=writers,
        size=sizes.filter(bool),
        step=st.integers(1, 3),
    )
    def append_once(self, name: str, writer: str, size: int, step: int) -> None:
        """An append, a repeat of it, and a repeat of something older."""
        segment = self.model.segments.get(name)
        if segment is None or segment.sealed:
            return
        info = self.run(self.container.register_writer(name, writer))
        known = segment.writers.setdefault(writer, ModelWriter(info.number))
        assert (info.number, info.sequence) == (known.number, known.sequence)
        container = self.container
        if known.sequence >= 0:
            again = container.append_as(name, known.number, known.sequence, known.data)
            assert self.run(again) == known.offset
        data, sequence = self.made(size), known.sequence + step

        async def twice() -> list[int]:
            first = container.append_as(name, known.number, sequence, data)
            second = container.append_as(name, known.number, sequence, data)
            return list(await asyncio.gather(first, second))

        assert self.run(twice()) == [len(segment.data), len(segment.data)]
        known.sequence, known.offset, known.data = sequence, len(segment.data), data
        segment.data += data
        if sequence:
            old = container.append_as(name, known.number, sequence - 1, data)
            self.fails(SequenceError, old)

    @rule(name=names, offset=st.integers(-5, 60_000), length=st.integers(0, 60_000))
    def read(self, name: str, offset: int, length: int) -> None:
        if not self.has(name):
            self.fails(SegmentNotFoundError, self.container.read(name, 0, 1))
            return
        segment = self.model.segments[name]
        where = segment.start + offset
        if where < 0:
            self.fails(ValueError, self.container.read(name, where, length))
        elif where < segment.start:
            self.fails(SegmentTruncatedError, self.container.read(name, where, length))
        elif where > len(segment.data):
            self.fails(OffsetError, self.container.read(name, where, length))
        else:
            found = self.run(self.container.read(name, where, length))
            assert found == bytes(segment.data[where : where + length])

    @rule(name=names, share=st.floats(0, 1.2))
    def truncate(self, name: str, share: float) -> None:
        if not self.has(name):
            self.fails(SegmentNotFoundError, self.container.truncate(name, 0))
            return
        segment = self.model.segments[name]
        offset = int(len(segment.data) * share)
        if offset > len(segment.data):
            self.fails(OffsetError, self.container.truncate(name, offset))
            return
        self.run(self.container.truncate(name, offset))
        segment.start = max(segment.start, offset)

    @rule(name=names)
    def seal(self, name: str) -> None:
        if not self.has(name):
            self.fails(SegmentNotFoundError, self.container.seal(name))
            return
        self.run(self.container.seal(name))
        self.model.segments[name].sealed = True

    @rule(to=names, source=names)
    def concat(self, to: str, source: str) -> None:
        self.join(to, source)

    @rule(to=names, source=names, size=sizes, large=st.booleans())
    def concat_new(self, to: str, source: str, size: int, large: bool) -> None:
        """A concat that is sure to have something to do; ``large`` moves extents, not bytes."""
        if to == source or not self.has(to) or self.model.segments[to].sealed:
            return
        if self.has(source):
            self.run(self.container.delete(source))
        self.run(self.container.create(source))
        self.model.joined.pop(source, None)
        data = self.made(size)
        self.model.segments[source] = ModelSegment(bytearray(data), 0, True)

        async def fill() -> None:
            await self.container.append(source, data)
            await self.container.seal(source)

        self.run(fill())
        patch = pytest.MonkeyPatch()
        with patch.context() as patched:
            if large:
                patched.setattr("siltstone.container.concat.SMALL_BYTES", 0)
            self.join(to, source)

    def join(self, target: str, source: str) -> None:
        work = self.container.concat(target, source)
        segments = self.model.segments
        if target == source:
            self.fails(ValueError, work)
        elif source not in segments and target in segments and source in self.model.joined:
            known, offset = self.model.joined[source]
            if known == target:
                assert self.run(work) == offset
            else:
                self.fails(SegmentNotFoundError, work)
        elif source not in segments:
            self.fails(SegmentNotFoundError, work)
        elif not segments[source].sealed:
            self.fails(SegmentNotSealedError, work)
        elif target not in segments:
            self.fails(SegmentNotFoundError, work)
        elif segments[target].sealed:
            self.fails(SegmentSealedError, work)
        else:
            offset = self.run(work)
            assert offset == len(segments[target].data)
            segments[target].data += segments.pop(source).readable
            self.model.joined[source] = (target, offset)

    @rule(name=names, again=st.booleans())
    def delete(self, name: str, again: bool) -> None:
        if not self.has(name):
            self.fails(SegmentNotFoundError, self.container.delete(name))
            return
        self.forget(name)

        async def work() -> None:
            deleting = asyncio.create_task(self.container.delete(name))
            await asyncio.sleep(0)
            if again:
                await self.container.create(name)
            await deleting

        self.run(work())
        if again:
            self.model.segments[name] = ModelSegment()

    def forget(self, name: str) -> None:
        del self.model.segments[name]
        for source, (target, _) in list(self.model.joined.items()):
            if target == name:
                # The name may be used again, by another segment: that never got those bytes.
                self.model.joined[source] = ("", 0)

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

    async def check_all(self) -> None:
        assert self.container.failure is None
        await compare(self.model, self.container, TABLE)
        await self.world.check(self.owner, strict=False)

    # --- readers ----------------------------------------------------------------------------------

    @rule(keep=st.booleans())
    def read_only(self, keep: bool) -> None:
        """A read-only open shows the same, be it new or one that has followed for long."""

        async def work() -> None:
            reader = self.reader or await self.world.open_reader()
            self.reader = reader
            await reader.refresh()
            await compare(self.model, reader, TABLE)
            assert not [f async for f in reader.check() if f.severity == "damage"]
            # A frame more, and no other: whoever follows must see just that.
            await self.container.commit([Put(TABLE, b"followed", b"")])
            self.model.table[b"followed"] = b""
            await reader.refresh()
            await compare(self.model, reader, TABLE)
            if not keep:
                await reader.close()
                self.reader = None

        self.run(work())

    # --- owners -----------------------------------------------------------------------------------

    @rule(stale=st.booleans(), save=st.booleans())
    def reopen(self, stale: bool, save: bool) -> None:
        self.run(self.container.close())
        if save:
            self.save_index()
        if stale:
            self.restore_index()
        self.go_on()

    @rule(
        several=some_appends,
        delay=st.floats(0, 0.2),
        index=st.sampled_from(["kept", "deleted", "stale"]),
        flush=st.booleans(),
    )
    def crash(self, several: list[tuple[str, int]], delay: float, index: str, flush: bool) -> None:
        flights = self.flights(several)

        async def work() -> None:
            tasks = [asyncio.create_task(self.fly(self.owner, flight)) for flight in flights]
            if flush:
                tasks.append(asyncio.create_task(self.quietly(self.container.flush())))
            await self.world.environment.sleep(delay)
            await self.world.crash(self.owner, keep_index=index == "kept")
            await asyncio.gather(*tasks)

        self.run(work())
        if index == "stale":
            self.restore_index()
        self.go_on(flights)

    @rule(writer=writers, name=names, index=st.sampled_from(["kept", "deleted"]))
    def forget_the_log(self, writer: str, name: str, index: str) -> None:
        """All that is known lies on long-term storage, then the owner dies."""
        if name not in self.model.segments:
            self.create(name)
        self.append_once(name, writer, 1_000, 1)
        for _ in range(2):
            self.run(self.container.flush())
            self.run(self.container.checkpoint())
        self.crash([], 0.0, index, flush=False)
        self.append_once(name, writer, 100, 1)

    async def quietly(self, work: Any) -> None:
        try:
            await work
        except (*LOST, Exception):  # noqa: BLE001 - whatever the dead process would have said
            return

    def go_on(self, flights: list[InFlight] | None = None) -> None:
        self.owner = self.run(self.world.open(index=self.owner.folder.name))
        self.run(settle(self.model, self.container, flights or []))
        self.run(compare(self.model, self.container, TABLE))

    def save_index(self) -> None:
        self.stash = self.world.folder / "stash"
        shutil.rmtree(self.stash, ignore_errors=True)
        shutil.copytree(self.owner.folder, self.stash)

    def restore_index(self) -> None:
        shutil.rmtree(self.owner.folder, ignore_errors=True)
        if self.stash is not None:
            shutil.copytree(self.stash, self.owner.folder)

    @rule(several=some_appends, delay=st.floats(0, 0.2), linger=st.sampled_from([0.0, 1.0, 40.0]))
    def take_over(self, several: list[tuple[str, int]], delay: float, linger: float) -> None:
        """A second owner while the first one is at work; the first acknowledges nothing more."""
        flights = self.flights(several)
        zombie = self.owner
        self.index += 1

        async def work() -> Owner:
            tasks = [asyncio.create_task(self.fly(zombie, flight)) for flight in flights]
            await self.world.environment.sleep(delay)
            owner = await self.world.open(takeover=True, index=f"index-{self.index}")
            await self.zombie_is_fenced(zombie)
            await asyncio.gather(*tasks)
            await self.world.environment.sleep(linger)
            return owner

        self.owner = self.run(work())
        self.run(settle(self.model, self.container, flights))
        self.run(close_quietly(zombie))
        self.run(compare(self.model, self.container, TABLE))

    async def zombie_is_fenced(self, zombie: Owner) -> None:
        calls: list[Callable[[], Any]] = [
            lambda: zombie.container.create("zombie"),
            lambda: zombie.container.commit([Put(TABLE, b"zombie", b"")], []),
            *(lambda name=name: zombie.container.delete(name) for name in self.model.segments),
        ]
        for call in calls:
            with pytest.raises(LOST):
                await call()

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


class FilesMachine(ContainerMachine):
    """The same over folders: the binding for shared folders, and the log in files."""

    profiles = ("append",)

    def make_world(self, seed: int, profile: str) -> World:
        folder = Path(mkdtemp(prefix="siltstone-files-"))
        world = World(
            seed,
            latency=jittered(0.05),
            new_storage=lambda: NfsChunkStorage(folder / "chunks"),
            new_log=lambda: FileFencedLog(str(folder / "log"), 0, file_bytes=1 << 20),
        )
        self.files = folder
        return world

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "files"):
            shutil.rmtree(self.files, ignore_errors=True)


def play(machine: type[RuleBasedStateMachine], examples: int, steps: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize(("machine", "examples"), [(ContainerMachine, 25), (FilesMachine, 6)])
def test_container(machine: type[RuleBasedStateMachine], examples: int) -> None:
    play(machine, examples, 30)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("machine", "examples"), [(ContainerMachine, 1500), (FilesMachine, 300)])
def test_container_for_long(machine: type[RuleBasedStateMachine], examples: int) -> None:
    play(machine, examples, 60)
