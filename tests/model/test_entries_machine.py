"""A keyspace of heads only against a dictionary: every verb, both modes, owners that die.

What must hold after each step: each call was told what the dictionary tells; rows, folds, heads and
snapshots are those of the dictionary, for this owner and for a reader; what an owner that died was
doing is there as a whole or not at all; a trim and an opening change nothing.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from siltstone.core.errors import ConditionFailedError, OutcomeUnknownError
from siltstone.objects.async_keyspace import AsyncKeyspace
from siltstone.objects.async_snapshot import AsyncKeyspaceSnapshot
from siltstone.objects.changes import name_text
from siltstone.objects.records.space_rows import HeadOnly, Space, Strategy
from siltstone.objects.space_setup import make_space
from siltstone.testing.faults.faulty_fenced_log import FaultPlan
from tests.support.container.container_world import World, with_settings
from tests.support.objects.entry_check import look_at_entries
from tests.support.objects.space_world import NAMES, Opened, open_owner, open_reader
from tests.support.soak import share_of

SETTINGS = with_settings(table_flush_age_s=2.0, flush_age_s=2.0, checkpoint_age_s=20.0)
REFUSED = "refused"

Name = tuple[str, str, str]

names = st.tuples(
    st.sampled_from(["b", "b\0", "\udcffb"]),
    st.sampled_from(["k", "k\0k", "l"]),
    st.sampled_from(["", "s", "\0"]),
)


class Call(NamedTuple):
    """An ``mput``: values by name, ``None`` to remove; conditions by name; seconds to live."""

    values: dict[Name, bytes | None]
    conditions: dict[Name, str]
    ttl_s: int | None


calls = st.builds(
    Call,
    values=st.dictionaries(names, st.none() | st.binary(max_size=40), min_size=1, max_size=5),
    conditions=st.just({})
    | st.dictionaries(names, st.sampled_from(["absent", "right", "right", "wrong"]), max_size=2),
    ttl_s=st.none() | st.sampled_from([1, 3, 50]),
)


class Entry(NamedTuple):
    """An entry of the dictionary."""

    sqn: int
    value: bytes
    expires_s: int


@dataclass
class EntryModel:
    """All entries by name, and the SQN of the next call."""

    entries: dict[Name, Entry] = field(default_factory=dict)
    next_sqn: int = 1

    def copy(self) -> EntryModel:
        return replace(self, entries=dict(self.entries))

    def visible(self, now_s: float) -> dict[Name, Entry]:
        return {
            name: each
            for name, each in self.entries.items()
            if not each.expires_s or now_s < each.expires_s
        }

    def expected(self, call: Call, now_s: float) -> dict[Name, int | None]:
        """How the conditions are given, when all calls before took place."""
        seen = self.visible(now_s)
        sqns = {name: seen[name].sqn if name in seen else None for name in call.conditions}
        given = {"absent": None, "wrong": 10_000}
        return {name: given.get(which, sqns[name]) for name, which in call.conditions.items()}

    def apply(self, call: Call, now_s: float) -> int | str:
        """Do it; returns the SQN of the call, or ``REFUSED``."""
        seen = self.visible(now_s)
        for name, which in call.conditions.items():
            if which == "wrong" or (which == "absent" and name in seen):
                return REFUSED
        sqn = self.next_sqn
        self.next_sqn += 1
        expires_s = 0 if call.ttl_s is None else ceil(now_s) + call.ttl_s
        for name, value in call.values.items():
            self.entries.pop(name, None)
            if value is not None:
                self.entries[name] = Entry(sqn, value, expires_s)
        return sqn


class EntriesMachine(RuleBasedStateMachine):
    """The model: the entries by name, and the SQN of the next call."""

    @initialize(seed=st.integers(0, 10_000), mode=st.sampled_from(HeadOnly))
    def begin(self, seed: int, mode: HeadOnly) -> None:
        self.world = World(seed, settings=SETTINGS)
        self.plan = FaultPlan()
        self.mode = mode
        self.model = EntryModel()
        self.held: list[tuple[AsyncKeyspaceSnapshot, EntryModel]] = []
        self.run(self.open(makes=True))

    async def open(self, *, takeover: bool = False, makes: bool = False) -> None:
        self.held.clear()
        self.opened: Opened = await open_owner(self.world, takeover=takeover, plan=self.plan)
        if makes:
            space = Space(tags={"h": Strategy.RECOVR}, head_only=self.mode)
            await make_space(self.opened.store, NAMES, space)
        self.keyspace: AsyncKeyspace = await self.opened.keyspace()
        assert self.keyspace.head_only == self.mode.name.lower()

    def run(self, work: Any) -> Any:
        return self.world.run(work)

    @property
    def now_s(self) -> float:
        return self.world.environment.time()

    def fit(self, call: Call) -> Call:
        """What the mode can do of a call."""
        if self.mode is HeadOnly.NO_LOOKUP:
            return call._replace(conditions={}, ttl_s=None)
        return call

    def ask(self, call: Call, model: EntryModel) -> asyncio.Future[Any]:
        specs = [
            ("remove", *name) if value is None else ("add", *name, value)
            for name, value in call.values.items()
        ]
        expected = model.expected(call, self.now_s)
        return self.keyspace.mput(specs, expected=expected, ttl_s=call.ttl_s)

    # --- changes ----------------------------------------------------------------------------------

    @rule(several=st.lists(calls, min_size=1, max_size=6), pauses=st.booleans())
    def change(self, several: list[Call], pauses: bool) -> None:
        """Calls that are not awaited before the next one."""

        async def work() -> None:
            futures, expected = [], []
            for call in map(self.fit, several):
                futures.append(self.ask(call, self.model))
                expected.append(self.model.apply(call, self.now_s))
                if pauses:
                    await asyncio.sleep(0)
            results = await asyncio.gather(*futures, return_exceptions=True)
            assert [self.told(result) for result in results] == expected

        self.run(work())
        self.run(self.check())

    @staticmethod
    def told(result: Any) -> int | str:
        if isinstance(result, ConditionFailedError):
            return REFUSED
        if isinstance(result, BaseException):
            raise result
        sqn: int = result.sqn
        return sqn

    @rule(call=calls, applied=st.booleans())
    def unknown(self, call: Call, applied: bool) -> None:
        """The log fails: the call took place or not, and the next one goes on from there."""
        before, call = self.model.copy(), self.fit(call)

        async def work() -> object:
            self.plan.fail("append", applied=applied)
            future = self.ask(call, self.model)
            self.model.apply(call, self.now_s)
            return (await asyncio.gather(future, return_exceptions=True))[0]

        result = self.run(work())
        self.plan.faults.clear()
        self.held.clear()
        self.run(self.reopened())
        if isinstance(result, OutcomeUnknownError) and not self.run(self.is_same(self.model)):
            self.model = before
        self.run(self.check())

    async def reopened(self) -> None:
        for _ in range(100):
            if self.opened.store.stats()[0].error is None:
                return
            await self.world.environment.sleep(1)
        raise AssertionError("the container stays closed")

    @rule()
    def trim(self) -> None:
        self.run(self.keyspace.trim())
        assert self.opened.store.stats()[0].unflushed_table_bytes == 0
        self.run(self.check())

    # --- time -------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.25, 1.0, 3.0, 70.0]))
    def wait(self, seconds: float) -> None:
        self.run(self.world.environment.sleep(seconds))
        self.run(self.check())

    @rule()
    def reap(self) -> None:
        """What has expired is gone from the rows, too."""
        self.run(self.keyspace.reap())
        heads, _ = self.run(look_at_entries(self.opened.store, NAMES))
        assert len(heads) == len(self.model.visible(self.now_s))
        self.run(self.check())

    # --- snapshots and owners ---------------------------------------------------------------------

    @rule()
    def hold(self) -> None:
        if len(self.held) < 3:
            self.held.append((self.run(self.keyspace.snapshot()), self.model.copy()))

    @rule()
    def reopen(self) -> None:
        self.run(self.opened.store.close())
        self.run(self.open())
        self.run(self.check())

    @rule(several=st.lists(calls, max_size=5), steps=st.integers(0, 30), index=st.booleans())
    def die(self, several: list[Call], steps: int, index: bool) -> None:
        """The process dies while calls are on their way: a beginning of them is there."""
        states = [self.model]

        async def work() -> None:
            futures, model = [], self.model
            for call in map(self.fit, several):
                futures.append(self.ask(call, model))
                model = model.copy()
                model.apply(call, self.now_s)
                states.append(model)
            for _ in range(steps):
                await asyncio.sleep(0)
            done = 0
            for number, future in enumerate(futures, 1):
                if future.done():
                    future.exception()
                    done = number
            await self.opened.die(keep_index=index)
            del states[:done]
            await self.open(takeover=True)

        self.run(work())
        same = [state for state in states if self.run(self.is_same(state))]
        assert same, "no beginning of the calls explains what is there"
        self.model = same[0]
        self.run(self.check())

    # --- looking ----------------------------------------------------------------------------------

    @rule()
    def read(self) -> None:
        """A reader finds the same."""

        async def work() -> None:
            reader = await open_reader(self.world)
            await self.compare(await reader.keyspace(), self.model)
            await reader.store.close()

        self.run(work())

    async def is_same(self, model: EntryModel) -> bool:
        heads, next_sqn = await look_at_entries(self.opened.store, NAMES)
        found = {
            (name_text(key.bucket), name_text(key.key), name_text(key.subkey)): Entry(
                head.sqn, head.metadata, head.expires_s
            )
            for key, head in heads.items()
            if head.is_visible(self.now_s)
        }
        return (found, next_sqn) == (model.visible(self.now_s), model.next_sqn)

    async def check(self) -> None:
        assert await self.is_same(self.model)
        await self.compare(self.keyspace, self.model)
        for snapshot, model in self.held:
            await self.compare(snapshot, model)

    async def compare(self, space: Any, model: EntryModel) -> None:
        """Folds, and heads where they can be looked up."""
        expected = model.visible(self.now_s)
        found = [head async for head in space.heads()]
        assert {
            (head.bucket, head.key, head.subkey): Entry(head.sqn, head.metadata, head.expires or 0)
            for head in found
        } == expected
        assert [bucket async for bucket in space.buckets()] == sorted(
            {name[0] for name in expected}, key=encoded
        )
        assert [key async for key in space.keys("b")] == sorted(
            {name[1] for name in expected if name[0] == "b"}
        )
        if self.mode is HeadOnly.WITH_LOOKUP:
            for name in [("b", "k", ""), *list(expected)[:3]]:
                head = await space.head(*name)
                assert (head and head.metadata) == (
                    expected[name].value if name in expected else None
                )

    def teardown(self) -> None:
        if not hasattr(self, "opened"):
            return
        try:
            self.reopen()
            self.run(self.opened.store.close())
        finally:
            self.world.close()


def encoded(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def play(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        EntriesMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_entries() -> None:
    play(15, 15)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_entries_for_long() -> None:
    play(share_of(1_000), 50)
