"""A collection that several processes have open, against a list of its updates.

What must hold: an append is there once if it was acknowledged, and its condition held; a snapshot
at a time from the since on shows the sum of the updates up to it, however often that is read, and
whatever was compacted and collected meanwhile; a subscription tells rows and then each change once;
the since never goes back, and never passes a lease or a bookmark; of what a process did when it
died all of an append is there or nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pyarrow
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

from siltstone.collections.async_bookmark import AsyncBookmark
from siltstone.collections.async_collection import AsyncCollection
from siltstone.collections.async_snapshot import AsyncCollectionSnapshot
from siltstone.collections.async_subscription import AsyncSubscription
from siltstone.collections.async_writer import AppendResult, CollectionBatchRows
from siltstone.core.errors import (
    BatchExpiredError,
    BookmarkFencedError,
    CollectionSequenceError,
    SinceError,
    SinceHeldError,
    UpperMismatchError,
)
from siltstone.testing.virtual_time import VirtualEnvironment, jittered
from tests.support.collections.collections_world import (
    NAME,
    SCHEMA,
    SETTINGS,
    CollectionsWorld,
    Opener,
    many_rows,
    pairs_of,
    rows,
)
from tests.support.collections.update_model import (
    Row,
    UpdateModel,
    changes_of,
    rows_of,
    summed,
)
from tests.support.soak import share_of

T = TypeVar("T")

LONGEST_S = 10_000.0
"""More virtual time than any step takes: what takes longer hangs."""

OPENERS = 3
MANY = 250
"""Rows that are no longer inline."""

some_rows = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 2) | st.none()), max_size=4)
which = st.integers(0, OPENERS - 1)
places = st.floats(0, 1)


@dataclass(frozen=True)
class Wanted:
    """An append that is to be made.

    Attributes:
        by: which process makes it.
        come: rows that come.
        many: whether many more come, which are uploaded.
        go: where among the rows that are there those are which go.
    """

    by: int
    come: list[Row]
    many: bool
    go: list[float]


wanted = st.builds(Wanted, which, some_rows, st.booleans(), st.lists(places, max_size=2))


@dataclass
class Held:
    """A snapshot that is read later."""

    snapshot: AsyncCollectionSnapshot
    opener: Opener
    as_of: int
    leased: bool


@dataclass
class Followed:
    """A subscription, where its changes began, and their sums."""

    subscription: AsyncSubscription
    opener: Opener
    begin: int
    told: Counter[Any] = field(default_factory=Counter)


@dataclass
class Built:
    """A batch that nobody has appended yet."""

    batch: CollectionBatchRows
    opener: Opener
    come: list[Row]


class CollectionMachine(RuleBasedStateMachine):
    """The model: all updates with their times, and what holds the since."""

    @initialize(seed=st.integers(0, 10_000), history=st.sampled_from(["all", 1, 4]))
    def begin(self, seed: int, history: str | int) -> None:
        environment = VirtualEnvironment(seed)
        self.runner = environment.runner()
        self.world = CollectionsWorld(
            seed,
            latency=jittered(0.05),
            settings=replace(SETTINGS, compacts=bool(seed % 2)),
            clock=environment.clock,
        )
        self.model = UpdateModel()
        self.name = NAME
        self.made = 0
        self.columns = 0
        self.held: list[Held] = []
        self.followed: list[Followed] = []
        self.built: list[Built] = []
        self.sequences: dict[str, dict[int, AppendResult]] = {}
        self.marks: dict[str, tuple[int, AsyncBookmark, Opener]] = {}
        first = self.run(self.world.create(history=history))
        self.openers = [first, *(self.world.open() for _ in range(OPENERS - 1))]

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        async def in_time() -> T:
            return await asyncio.wait_for(work, LONGEST_S)

        return self.runner.run(in_time())

    async def gusts(self, by: int) -> AsyncCollection:
        return await self.openers[by].collection(self.name)

    # --- appends ----------------------------------------------------------------------------------

    def rows_that_come(self, one: Wanted) -> tuple[list[Row], Any]:
        self.made += 1
        unique: Row = (f"unique {self.made}", self.made)
        come = [*one.come, unique]
        if not one.many:
            return come, rows(*come)
        table = many_rows(MANY, MANY * self.made)
        return [unique, *pairs_of(table)], pyarrow.concat_tables(
            [table, pyarrow.Table.from_pylist(rows(unique), schema=SCHEMA)]
        )

    def rows_that_go(self, places: list[float]) -> list[Row]:
        there = sorted(self.model.rows(self.model.upper).elements(), key=str)
        indexes = {int(place * (len(there) - 1)) for place in places if there}
        return [there[index] for index in sorted(indexes)]

    @rule(one=wanted, condition=st.sampled_from(["none", "right", "low", "high"]))
    def append(self, one: Wanted, condition: str) -> None:
        self.run(self.appended(one, condition))

    async def appended(self, one: Wanted, condition: str) -> None:
        come, table = self.rows_that_come(one)
        go = self.rows_that_go(one.go)
        upper = self.model.upper
        expected = {"none": None, "right": upper, "low": upper - 1, "high": upper + 1}[condition]
        if expected == -1:
            return
        work = (await self.gusts(one.by)).append(
            table, remove=rows(*go) if go else None, expected_upper=expected
        )
        if expected in (None, upper):
            done = await work
            assert (done.time, done.upper, done.repeated) == (upper, upper + 1, False)
            self.model.add(done.time, come, go)
            return
        with pytest.raises(UpperMismatchError) as refused:
            await work
        assert refused.value.current == upper, "a refusal is by the newest state"

    @rule(
        several=st.lists(wanted, min_size=2, max_size=6),
        upkeep=st.sampled_from(["", "compact", "collect", "sweep"]),
    )
    def append_together(self, several: list[Wanted], upkeep: str) -> None:
        """Several appends in flight, of several processes, next to upkeep of one of them."""

        async def work() -> None:
            plans = [(one, *self.rows_that_come(one)) for one in several]
            calls = [(await self.gusts(one.by)).append(table) for one, _, table in plans]
            if upkeep:
                busy = asyncio.ensure_future(getattr(await self.gusts(several[0].by), upkeep)())
            done = await asyncio.gather(*calls)
            for result, (_, come, _) in sorted(
                zip(done, plans, strict=True), key=lambda pair: pair[0].time
            ):
                assert result.time == self.model.upper, "times have no gaps"
                self.model.add(result.time, come)
            if upkeep:
                await busy

        self.run(work())

    @rule(by=which, changes=st.lists(st.tuples(some_rows, st.integers(1, 3)), max_size=3))
    def compare_and_append(self, by: int, changes: list[tuple[list[Row], int]]) -> None:
        """Updates with times of their own, and heartbeats."""

        async def work() -> None:
            lower = self.model.upper
            times, time = [], lower
            for come, step in changes:
                times.append((time, come))
                time += step
            upper = max(time, lower + 1)
            updates = [
                {"k": k, "v": v, "_time": at, "_diff": 1} for at, come in times for k, v in come
            ]
            done = await (await self.gusts(by)).compare_and_append(
                updates, expected_upper=lower, new_upper=upper
            )
            assert done.upper == upper
            for at, come in times:
                self.model.add(at, come)
            self.model.upper = upper

        self.run(work())

    @rule(one=wanted, name=st.sampled_from(["x", "y"]), step=st.integers(-1, 2))
    def append_by_name(self, one: Wanted, name: str, step: int) -> None:
        """The next sequence, the same one again, or an older one."""

        async def work() -> None:
            told = self.sequences.setdefault(name, {})
            last = max(told, default=-1)
            sequence = max(0, last + step)
            writer = (await self.gusts(one.by)).writer(name)
            if sequence > last:
                come, table = self.rows_that_come(one)
                done = await writer.append(table, sequence=sequence)
                assert not done.repeated
                self.model.add(done.time, come)
                told[sequence] = done
                return
            try:
                done = await writer.append(rows(*one.come), sequence=sequence)
            except CollectionSequenceError:
                assert sequence < last
            else:  # The last one, or one that was the last for a handle that knows no better.
                assert done == replace(told[sequence], repeated=True)

        self.run(work())

    @rule(one=wanted)
    def build_a_batch(self, one: Wanted) -> None:
        async def work() -> None:
            come, table = self.rows_that_come(one)
            batch = await (await self.gusts(one.by)).batch(table)
            self.built.append(Built(batch, self.openers[one.by], come))

        self.run(work())

    @precondition(lambda self: bool(getattr(self, "built", None)))
    @rule(by=which, place=places, both=st.booleans())
    def append_batches(self, by: int, place: float, both: bool) -> None:
        """One or two of them, and once more, which is refused."""

        async def work() -> None:
            chosen = [self.built.pop(int(place * (len(self.built) - 1)))]
            if both and self.built:
                chosen.append(self.built.pop())
            gusts = await self.gusts(by)
            batches = [one.batch for one in chosen]
            try:
                done = await gusts.append_batches(batches)
            except BatchExpiredError:
                assert any(one.opener not in self.openers for one in chosen), "its process died"
                return
            self.model.add(done.time, [row for one in chosen for row in one.come])
            with pytest.raises(BatchExpiredError):
                await gusts.append_batches(batches)

        self.run(work())

    # --- reads ------------------------------------------------------------------------------------

    async def time_at(self, place: float) -> int | None:
        """A time that can be read; ``None`` before the first one."""
        info = await (await self.gusts(0)).info()
        assert info.upper == self.model.upper
        assert info.since >= self.model.since, "the since goes back"
        holds = [mark for mark, _, _ in self.marks.values()]
        holds += [one.as_of for one in self.held if one.leased]
        holds += [max(0, one.subscription.frontier - 1) for one in self.followed]
        assert info.since <= min(holds, default=info.since), "the since passes what holds it"
        self.model.since = info.since
        if not self.model.upper:
            return None
        return info.since + int(place * (self.model.upper - 1 - info.since))

    @rule(by=which, place=places, diffs=st.booleans(), lease=st.booleans(), keep=st.booleans())
    def snapshot(self, by: int, place: float, diffs: bool, lease: bool, keep: bool) -> None:
        async def work() -> None:
            as_of = await self.time_at(place)
            gusts = await self.gusts(by)
            snapshot = await gusts.snapshot(as_of, diffs=diffs, lease=lease)
            assert snapshot.as_of == as_of
            assert rows_of(await snapshot.to_arrow()) == self.model.rows(
                -1 if as_of is None else as_of
            )
            if keep and as_of is not None and len(self.held) < 4:
                self.held.append(Held(snapshot, self.openers[by], as_of, lease))
            else:
                await snapshot.close()

        self.run(work())

    @precondition(lambda self: bool(getattr(self, "held", None)))
    @rule(place=places, close=st.booleans())
    def look_at_a_snapshot_again(self, place: float, close: bool) -> None:
        async def work() -> None:
            held = self.held[int(place * (len(self.held) - 1))]
            try:
                found = rows_of(await held.snapshot.to_arrow())
            except SinceError:
                assert not held.leased, "a lease keeps history"
                self.held.remove(held)
                return
            assert found == self.model.rows(held.as_of)
            if close:
                self.held.remove(held)
                await held.snapshot.close()

        self.run(work())

    @rule(by=which, place=places, until=st.none() | st.integers(0, 3))
    def subscribe(self, by: int, place: float, until: int | None) -> None:
        """To the end, which was there before, or for later."""

        async def work() -> None:
            as_of = await self.time_at(place)
            if as_of is None:
                return
            gusts = await self.gusts(by)
            end = None if until is None else min(self.model.upper, as_of + 1 + until)
            subscription = await gusts.subscribe(as_of, until=end)
            first = await anext(subscription)
            assert (first.lower, first.upper) == (0, as_of + 1)
            assert changes_of(first.to_arrow()) == Counter(
                {(row, as_of): count for row, count in self.model.rows(as_of).items()}
            )
            if end is not None:
                rest = [changes_of(changes.to_arrow()) async for changes in subscription]
                told = summed(pair for one in rest for pair in one.items())
                assert told == self.model.changes(as_of + 1, end)
            elif len(self.followed) < 4:
                self.followed.append(Followed(subscription, self.openers[by], as_of + 1))
            else:
                await subscription.close()

        self.run(work())

    @precondition(lambda self: bool(getattr(self, "followed", None)))
    @rule(place=places, close=st.booleans())
    def follow(self, place: float, close: bool) -> None:
        async def work() -> None:
            one = self.followed[int(place * (len(self.followed) - 1))]
            while one.subscription.frontier < self.model.upper:
                changes = await anext(one.subscription)
                one.told.update(changes_of(changes.to_arrow()))
            assert one.subscription.frontier == self.model.upper
            assert summed(one.told.items()) == self.model.changes(one.begin, self.model.upper)
            if close:
                self.followed.remove(one)
                await one.subscription.close()

        self.run(work())

    # --- history ----------------------------------------------------------------------------------

    @rule(by=which, name=st.sampled_from(["m", "n"]), place=places)
    def set_bookmark(self, by: int, name: str, place: float) -> None:
        """Make one, or take it over; who had it is fenced."""

        async def work() -> None:
            time = await self.time_at(place)
            known = self.marks.get(name)
            if time is None or (known is not None and time < known[0]):
                return
            mark = await (await self.gusts(by)).bookmark(name, since=time)
            assert mark.since == time
            if known is not None and known[2] in self.openers:
                with pytest.raises(BookmarkFencedError) as fenced:
                    await known[1].advance(self.model.upper)
                assert fenced.value.actual == mark.token
            self.marks[name] = (time, mark, self.openers[by])

        self.run(work())

    @precondition(lambda self: bool(getattr(self, "marks", None)))
    @rule(place=places, remove=st.booleans())
    def move_bookmark(self, place: float, remove: bool) -> None:
        async def work() -> None:
            for name, (since, mark, opener) in list(self.marks.items()):
                if opener not in self.openers:
                    continue
                to = since + int(place * (self.model.upper - since))
                await mark.advance(to)
                self.marks[name] = (to, mark, opener)
                if remove:
                    await mark.remove()
                    del self.marks[name]

        self.run(work())

    @rule(by=which, place=places)
    def advance_since(self, by: int, place: float) -> None:
        async def work() -> None:
            to = await self.time_at(place)
            if to is None:
                return
            gusts = await self.gusts(by)
            with suppress(SinceHeldError):  # Leases of who died hold it, too.
                assert await gusts.advance_since(to) == to
            if self.model.since:
                with pytest.raises(SinceError):
                    await gusts.snapshot(self.model.since - 1)

        self.run(work())

    # --- upkeep, time and processes ---------------------------------------------------------------

    @rule(by=which, what=st.sampled_from(["compact", "collect", "sweep"]), other=which)
    def upkeep(self, by: int, what: str, other: int) -> None:
        """By two processes at once, or by one."""

        async def work() -> None:
            handles = {await self.gusts(by), await self.gusts(other)}
            await asyncio.gather(*(getattr(handle, what)() for handle in handles))

        self.run(work())

    @rule(seconds=st.sampled_from([0.05, 5.0, 400.0, 8_000.0]))
    def wait(self, seconds: float) -> None:
        self.run(self.world.sleep(seconds))

    @precondition(lambda self: bool(getattr(self, "columns", 2) < 2))
    @rule(by=which)
    def evolve(self, by: int) -> None:
        self.columns += 1
        wider = SCHEMA
        for number in range(self.columns):
            wider = wider.append(pyarrow.field(f"w{number}", pyarrow.int64()))

        async def work() -> None:
            await (await self.gusts(by)).evolve(wider)
            assert (await (await self.gusts(0)).info()).schema == wider

        self.run(work())

    @rule(by=which)
    def rename(self, by: int) -> None:
        self.made += 1
        new = f"gusts {self.made}"
        self.run(self.openers[by].collections.rename(self.name, new))
        self.name = new

    @rule(by=which)
    def close(self, by: int) -> None:
        self.run(self.openers[by].collections.close())
        self.replace(by)

    @rule(
        by=which,
        several=st.lists(wanted, max_size=4),
        delay_s=st.sampled_from([0.0, 0.01, 0.02, 0.05, 0.1]),
    )
    def die(self, by: int, several: list[Wanted], delay_s: float) -> None:
        """Of what is in flight, each append is there whole or not at all."""

        async def work() -> None:
            plans = [self.rows_that_come(one) for one in several]
            gusts = await self.gusts(by)
            survivor = await self.gusts((by + 1) % OPENERS)
            listener = await survivor.listen(self.model.upper)
            tasks = [asyncio.ensure_future(gusts.append(table)) for _, table in plans]
            await self.world.sleep(delay_s)
            self.openers[by].die()
            upper = (await survivor.info()).upper
            assert upper is not None
            told: Counter[Any] = Counter()
            while listener.frontier < upper:
                told.update(changes_of((await anext(listener)).to_arrow()))
            await listener.close()
            for come, _ in plans:
                unique = next(row for row in come if row[0].startswith("unique"))
                times = [time for row, time in told if row == unique]
                assert len(times) <= 1, "twice"
                for time in times:
                    self.model.updates += [(row, time, 1) for row in come]
            for task, (come, _) in zip(tasks, plans, strict=True):
                if task.done() and not task.cancelled() and task.exception() is None:
                    unique = next(row for row in come if row[0].startswith("unique"))
                    assert (unique, task.result().time) in told, "acknowledged, and not there"
                task.cancel()
            assert told == self.model.changes(self.model.upper, upper)
            self.model.upper = upper

        self.run(work())
        self.replace(by)

    def replace(self, by: int) -> None:
        """Another process comes; what the one before held is gone."""
        gone = self.openers[by]
        self.openers[by] = self.world.open()
        self.held = [one for one in self.held if one.opener is not gone]
        self.followed = [one for one in self.followed if one.opener is not gone]

    def teardown(self) -> None:
        if not hasattr(self, "openers"):
            return
        try:
            self.run(self.last_look())
        finally:
            self.runner.close()

    async def last_look(self) -> None:
        late = await self.world.open().collection(self.name)
        since = (await late.info()).since
        for as_of in range(since, self.model.upper):
            assert rows_of(await (await late.snapshot(as_of)).to_arrow()) == self.model.rows(as_of)
        subscription = await late.subscribe(until=self.model.upper)
        found = [changes_of(changes.to_arrow()) async for changes in subscription]
        told = summed(pair for one in found for pair in one.items())
        assert summed((row, count) for (row, _), count in told.items()) == self.model.rows(
            self.model.upper
        )
        await self.leaves_little(late)
        opener = self.world.open()
        await opener.collections.drop(self.name)
        assert self.world.names("/parts/") == []

    async def leaves_little(self, late: AsyncCollection) -> None:
        """When all processes are gone, and all leases, only what the rows need is left."""
        for opener in self.openers:
            await opener.collections.close()
        await self.world.sleep(5_000)
        await late.append([])
        await late.compact()
        await self.world.sleep(1)
        await late.collect()
        await late.sweep()
        assert len(self.world.names("/parts/")) <= (await late.info()).parts


def play(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        CollectionMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_collections() -> None:
    play(10, 25)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_collections_for_long() -> None:
    play(share_of(1_000), 60)
