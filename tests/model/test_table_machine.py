"""A table against a dict and the list of its updates: ranges, snapshots, followers, crashes.

What must hold: a scan or a get shows what the dict holds; a snapshot shows the dict of its version
until its time is over; a follower gets every update after its version, once and in order, or the
error that says from where on it could; after a crash what was acknowledged is there, and of what
was in flight a beginning.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from siltstone.container.models.segments import (
    Append,
    Operation,
    Put,
    Remove,
    RemoveRange,
    VersionIs,
)
from siltstone.container.models.tables import KeyChange, RangeRemoval, TableUpdate
from siltstone.container.reader.read_container import ReadContainer
from siltstone.container.state.table_snapshots import SNAPSHOTS_MAX
from siltstone.core.errors import (
    ConditionFailedError,
    SiltstoneError,
    SnapshotExpiredError,
    SnapshotLimitError,
    TableTruncatedError,
)
from siltstone.store.handles.async_table import AsyncTable, AsyncTableSnapshot
from siltstone.store.handles.container_slot import ContainerSlot
from siltstone.store.handles.stand_ins import read_only_container
from siltstone.testing.virtual_time import jittered
from tests.support.container.container_world import World, with_settings
from tests.support.soak import share_of

TABLE, OTHER, SEGMENT = "prices", "other", "segment"
SETTINGS = with_settings(table_flush_age_s=2.0, checkpoint_age_s=20.0)

keys = st.sampled_from([b"", b"a", b"b", b"ba", b"bb", b"c", b"\xff", b"\xff\xff"])
ends = st.none() | keys.filter(bool)
changes = st.lists(
    st.builds(KeyChange, keys, st.none() | st.binary(max_size=5))
    | st.builds(RangeRemoval, keys, ends).filter(lambda r: r.end is None or r.start < r.end),
    min_size=1,
    max_size=4,
)
Change = KeyChange | RangeRemoval
State = dict[bytes, tuple[int, bytes]]


def after(state: State, made: list[Change], version: int) -> State:
    """The dict after an update, told again and not by the code under test."""
    result = dict(state)
    for change in made:
        if isinstance(change, RangeRemoval):
            for key in list(result):
                if change.start <= key and (change.end is None or key < change.end):
                    del result[key]
        elif change.value is None:
            result.pop(change.key, None)
        else:
            result[change.key] = (version, change.value)
    return result


def operations(made: list[Change], table: str = TABLE) -> list[Operation]:
    found: list[Operation] = []
    for change in made:
        if isinstance(change, RangeRemoval):
            found.append(RemoveRange(table, change.start, change.end))
        elif change.value is None:
            found.append(Remove(table, change.key))
        else:
            found.append(Put(table, change.key, change.value))
    return found


@dataclass
class Held:
    snapshot: AsyncTableSnapshot
    state: State
    ends_s: float


class TableMachine(RuleBasedStateMachine):
    """The model: the state and the updates at every version that was acknowledged."""

    @initialize(seed=st.integers(0, 10_000))
    def begin(self, seed: int) -> None:
        self.world = World(seed, settings=SETTINGS, latency=jittered(0.02))
        self.run = self.world.run
        self.owner = self.run(self.world.open())
        self.slot = ContainerSlot(0, self.owner.container, self.owner.container.epoch)
        self.table = AsyncTable(self.slot, TABLE)
        self.reader: ReadContainer | None = None
        self.state: State = {}
        self.updates: list[TableUpdate] = []
        self.points: list[int] = [0]
        self.held: list[Held] = []

        async def make() -> None:
            for name in (TABLE, OTHER):
                await self.owner.container.create_table(name)
            await self.owner.container.create(SEGMENT)

        self.run(make())

    def happened(self, made: list[Change], version: int) -> None:
        self.state = after(self.state, made, version)
        assert not self.updates or self.updates[-1].version < version
        self.updates.append(TableUpdate(version=version, changes=tuple(made)))
        self.points.append(version)

    # --- changes ----------------------------------------------------------------------------------

    @rule(several=st.lists(changes, min_size=1, max_size=4), noise=st.booleans())
    def change(self, several: list[list[Change]], noise: bool) -> None:
        """Several commits in flight at once."""

        async def work() -> list[int]:
            container = self.owner.container
            tasks = [asyncio.create_task(container.commit(operations(made))) for made in several]
            if noise:
                await container.commit([Put(OTHER, b"a", b"noise"), Append(SEGMENT, b"noise")])
            return [(await task).version for task in tasks]

        for made, version in zip(several, self.run(work()), strict=True):
            self.happened(made, version)

    @rule(made=changes, key=keys, other=keys, right=st.booleans())
    def conditional(self, made: list[Change], key: bytes, other: bytes, right: bool) -> None:
        """Conditions on two keys, one of which need not be changed, against what is assigned."""
        versions = {k: self.state[k][0] if k in self.state else None for k in (key, other)}
        if not right:
            versions[key] = 1 if versions[key] is None else None
        conditions = [VersionIs(TABLE, k, version) for k, version in versions.items()]
        work = self.owner.container.commit(operations(made), conditions)
        if right:
            self.happened(made, self.run(work).version)
            return
        with pytest.raises(ConditionFailedError) as failed:
            self.run(work)
        assert failed.value.condition == VersionIs(TABLE, key, versions[key])
        assert failed.value.current == (self.state[key][0] if key in self.state else None)
        assert repr(key) in str(failed.value)

    @rule(start=keys, end=ends, key=keys, mode=st.sampled_from(["plain", "right", "wrong"]))
    def remove_range(self, start: bytes, end: bytes | None, key: bytes, mode: str) -> None:
        version = self.state[key][0] if key in self.state else None
        expected = None if mode == "plain" else {key: version if mode == "right" else 1}
        work = self.table.remove_range(start, end, expected=expected)
        if end is not None and end <= start:
            with pytest.raises(ValueError, match="range"):
                self.run(work)
        elif mode == "wrong":
            with pytest.raises(ConditionFailedError):
                self.run(work)
        else:
            self.happened([RangeRemoval(start, end)], self.run(work))

    # --- reads ------------------------------------------------------------------------------------

    @rule(start=keys, end=ends, reverse=st.booleans(), key=keys)
    def read(self, start: bytes, end: bytes | None, reverse: bool, key: bytes) -> None:
        self.run(self.compare(self.table, self.state, start, end, reverse, key))

    async def compare(
        self,
        source: AsyncTable | AsyncTableSnapshot,
        state: State,
        start: bytes = b"",
        end: bytes | None = None,
        reverse: bool = False,
        key: bytes = b"a",
    ) -> None:
        found = [
            (k, (value.version, value.value))
            async for k, value in source.scan(start, end, reverse=reverse)
        ]
        expected = [k for k in sorted(state) if start <= k and (end is None or k < end)]
        assert found == [(k, state[k]) for k in (reversed(expected) if reverse else expected)]
        one = await source.get(key)
        assert (None if one is None else (one.version, one.value)) == state.get(key)

    @rule(ttl_s=st.sampled_from([0.5, 5.0, 100.0]))
    def take_snapshot(self, ttl_s: float) -> None:
        now = self.world.environment.monotonic()
        self.held = [held for held in self.held if held.ends_s > now]
        if len(self.held) == SNAPSHOTS_MAX:
            with pytest.raises(SnapshotLimitError):
                self.run(self.table.snapshot(ttl_s))
            return
        snapshot = self.run(self.table.snapshot(ttl_s))
        ends_s = self.world.environment.monotonic() + ttl_s
        assert snapshot.version >= self.points[-1]
        self.held.append(Held(snapshot, dict(self.state), ends_s))

    @rule(reverse=st.booleans(), close=st.booleans(), key=keys)
    def look_at_snapshots(self, reverse: bool, close: bool, key: bytes) -> None:
        now = self.world.environment.monotonic()
        for held in self.held:
            work = self.compare(held.snapshot, held.state, reverse=reverse, key=key)
            if held.ends_s > now:
                self.run(work)
            else:
                with pytest.raises(SnapshotExpiredError):
                    self.run(work)
        self.held = [held for held in self.held if held.ends_s > now]
        if close and self.held:
            gone = self.held.pop()
            self.run(gone.snapshot.close())
            with pytest.raises(SnapshotExpiredError):
                self.run(gone.snapshot.get(b"a"))

    @rule(place=st.floats(0, 1), tell_reader=st.booleans())
    def follow(self, place: float, tell_reader: bool) -> None:
        version = self.points[round(place * (len(self.points) - 1))]
        source = self.read_table() if tell_reader else self.table
        self.run(self.followed(source, version))

    async def followed(self, source: AsyncTable, version: int) -> None:
        expected = [update for update in self.updates if update.version > version]
        try:
            found = await take(source, version, len(expected))
        except TableTruncatedError as error:
            first = error.first
        else:
            assert found == expected
            return
        assert version < first
        expected = [update for update in expected if update.version > first]
        assert await take(source, first, len(expected)) == expected

    @rule(made=changes)
    def follow_on(self, made: list[Change]) -> None:
        """A follower that waits gets the next update."""

        async def work() -> tuple[list[TableUpdate], int]:
            waiting = asyncio.create_task(take(self.table, await self.table.version(), 1))
            await self.world.environment.sleep(1.0)
            assert not waiting.done()
            done = await self.owner.container.commit(operations(made))
            return await waiting, done.version

        found, version = self.run(work())
        assert found == [TableUpdate(version=version, changes=tuple(made))]
        self.happened(made, version)

    def read_table(self) -> AsyncTable:
        if self.reader is None:
            self.reader = self.run(self.world.open_reader())
        self.run(self.reader.refresh())
        table = AsyncTable(ContainerSlot(0, read_only_container(self.reader), 0), TABLE)
        self.run(self.compare(table, self.state))
        return table

    # --- time and owners --------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.1, 3.0, 30.0]))
    def wait(self, seconds: float) -> None:
        self.run(self.world.environment.sleep(seconds))

    @rule()
    def checkpoint(self) -> None:
        """Twice, so that the head of the table log goes."""
        self.run(self.owner.container.checkpoint())
        self.run(self.owner.container.checkpoint())

    @rule()
    def reopen(self) -> None:
        known = self.run(self.table.version())
        self.run(self.owner.container.close())
        self.open_next([], known)

    @rule(several=st.lists(changes, max_size=4), delay=st.floats(0, 0.1), keep=st.booleans())
    def crash(self, several: list[list[Change]], delay: float, keep: bool) -> None:
        async def work() -> list[Any]:
            container = self.owner.container
            tasks = [asyncio.create_task(container.commit(operations(made))) for made in several]
            await self.world.environment.sleep(delay)
            await self.world.crash(self.owner, keep_index=keep)
            return await asyncio.gather(*tasks, return_exceptions=True)

        known = self.run(self.table.version())
        results = self.run(work())
        acknowledged = 0
        for made, result in zip(several, results, strict=True):
            if isinstance(result, BaseException):
                assert isinstance(result, SiltstoneError)
                break
            self.happened(made, result.version)
            acknowledged += 1
        known = max(known, self.points[-1])
        self.open_next(several[acknowledged:], known)

    def open_next(self, unknown: list[list[Change]], known: int) -> None:
        """Open again; all that is unknown came after ``known``, which the table log keeps.

        The version of the last update would not do: updates of other tables follow it, and the
        head of the table log goes up to the older of two checkpoints.
        """
        for held in self.held:
            with pytest.raises(SnapshotExpiredError):
                self.run(held.snapshot.get(b"a"))
        self.held.clear()
        self.owner = self.run(self.world.open(takeover=True))
        self.slot.bind(self.owner.container)
        page = self.run(self.owner.container.table_updates(TABLE, known))
        for made, update in zip(unknown, page.updates, strict=False):
            assert update.changes == tuple(made), "what was in flight is there from its beginning"
            self.happened(made, update.version)
        assert len(page.updates) <= len(unknown)
        self.run(self.compare(self.table, self.state))

    def teardown(self) -> None:
        if not hasattr(self, "owner"):
            return
        try:
            self.run(self.last_look())
        finally:
            self.world.close()

    async def last_look(self) -> None:
        await self.compare(self.table, self.state)
        await self.followed(self.table, 0)
        await self.owner.container.close()
        if self.reader is not None:
            await self.reader.close()


async def take(table: AsyncTable, version: int, count: int) -> list[TableUpdate]:
    """Follow until ``count`` updates have come."""
    found: list[TableUpdate] = []
    if not count:
        page = await table._container.table_updates(table.name, version)
        return list(page.updates)
    async with aclosing(table.follow(version)) as updates:  # type: ignore[type-var]
        async for update in updates:
            found.append(update)
            if len(found) == count:
                break
    return found


def play(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        TableMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_table() -> None:
    play(12, 25)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_table_for_long() -> None:
    play(share_of(1_000), 60)
