"""A keyspace against a dictionary: every verb, tiny value segments, expiry, owners that die.

What must hold after each step: every verb told what the dictionary tells; heads, values, index
entries and ends that the rows and records hold are those of the dictionary, for this owner and for
a reader; what an owner that died was doing is there as a whole or not at all; value segments follow
one another without gaps, and footers say what their records say; each large value is the segment of
one object, and of others nothing is left after an opening.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from siltstone.core.errors import ClosedError, ConditionFailedError, OutcomeUnknownError
from siltstone.objects import check_async
from siltstone.objects.batch import PutResult
from siltstone.objects.records.keys import LargeStatus
from siltstone.objects.records.space_rows import ValueStatus
from siltstone.objects.value_segments import RollLimits
from siltstone.testing.faults.faulty_fenced_log import FaultPlan
from tests.support import inside
from tests.support.container.container_world import World, with_settings
from tests.support.objects.space_check import SeenSpace, look
from tests.support.objects.space_model import REFUSED, Change, SpaceModel, ask, told
from tests.support.objects.space_world import NAMES, SMALL, Opened, open_owner, open_reader
from tests.support.objects.streams_to_put import left
from tests.support.soak import share_of

SETTINGS = with_settings(table_flush_age_s=2.0, flush_age_s=2.0, checkpoint_age_s=20.0)

LIMITS = st.sampled_from(
    [
        SMALL,
        RollLimits(length=400, records=2, value=SMALL.value, piece=2_000),
        RollLimits(),
    ]
)

keys = st.tuples(
    st.sampled_from(["o", "o", "x"]),
    st.sampled_from(["b", "b\0", "\udcffb"]),
    st.sampled_from(["k", "k\0k", "l", "m"]),
)
entries = st.tuples(st.sampled_from(["city", "day"]), st.sampled_from(["", "a", "a\0", "b"]))
values = st.binary(max_size=4) | st.sampled_from([b"", bytes(300), b"\xff" * 1_500])
puts = st.builds(
    Change,
    key=keys,
    value=values,
    metadata=st.binary(max_size=3),
    index=st.just(()) | st.lists(entries, max_size=3).map(tuple),
    ttl_s=st.none() | st.sampled_from([1, 3, 50]),
    condition=st.sampled_from(["any", "any", "any", "absent", "right", "wrong"]),
)
spec_puts = st.builds(
    Change,
    key=keys,
    value=values,
    index=st.none(),
    specs=st.lists(
        st.tuples(st.sampled_from(["add", "remove"]), entries).map(lambda s: (s[0], *s[1])),
        max_size=4,
    ).map(tuple),
)
deletes = st.builds(
    Change, key=keys, condition=st.sampled_from(["any", "any", "absent", "right", "wrong"])
)
changes = st.one_of(puts, puts, spec_puts, deletes)
large_puts = st.builds(
    replace,
    st.one_of(puts, spec_puts),
    value=st.sampled_from([SMALL.value + 1, 1_999, 2_000, 5_000]).map(
        lambda length: (b"%d" % length * length)[:length]
    ),
    stream=st.booleans(),
)


class KeyspaceMachine(RuleBasedStateMachine):
    """The model: the objects by key, and the SQN of the next change."""

    @initialize(seed=st.integers(0, 10_000), limits=LIMITS)
    def begin(self, seed: int, limits: RollLimits) -> None:
        self.world = World(seed, settings=SETTINGS)
        self.plan = FaultPlan()
        self.limits = limits
        self.model = SpaceModel()
        self.run(self.open())
        self.run(self.opened.make())
        self.run(self.open_space())

    async def open(self, *, takeover: bool = False) -> None:
        self.opened: Opened = await open_owner(self.world, takeover=takeover, plan=self.plan)

    async def open_space(self) -> None:
        self.keyspace = await self.opened.keyspace(self.limits)

    def run(self, work: Any) -> Any:
        return self.world.run(work)

    @property
    def now_s(self) -> float:
        return self.world.environment.time()

    # --- changes ----------------------------------------------------------------------------------

    @rule(several=st.lists(changes, min_size=1, max_size=9), pauses=st.booleans())
    def change(self, several: list[Change], pauses: bool) -> None:
        """Changes that are not awaited before the next one is asked for."""

        async def work() -> list[Any]:
            now_s, futures, expected = self.now_s, [], []
            for change in several:
                arguments = self.model.arguments(change, now_s)
                futures.append(ask(self.keyspace, change, arguments))
                expected.append(self.model.apply(change, now_s))
                if pauses:
                    await asyncio.sleep(0)
            results = await asyncio.gather(*futures, return_exceptions=True)
            assert self.now_s == now_s, "nothing takes time here"
            assert [self.heard(result) for result in results] == expected
            return results

        self.run(work())
        self.run(self.check())

    def heard(self, result: object) -> object:
        return REFUSED if isinstance(result, ConditionFailedError) else told(result)

    @rule(change=changes, applied=st.booleans())
    def unknown(self, change: Change, applied: bool) -> None:
        """The log fails: the change took place or not, and the next one goes on from there."""
        before, after = self.model.copy(), self.model

        async def work() -> object:
            arguments = after.arguments(change, self.now_s)
            self.plan.fail("append", applied=applied)
            future = ask(self.keyspace, change, arguments)
            after.apply(change, self.now_s)
            try:
                return await future
            except OutcomeUnknownError as error:
                return error
            except ConditionFailedError as error:
                return error

        result = self.run(work())
        self.plan.faults.clear()
        self.run(self.reopened())
        seen: SeenSpace = self.run(look(self.opened.store, NAMES))
        if isinstance(result, OutcomeUnknownError) and after.differs(seen, self.now_s):
            self.model = before
        self.run(self.check())

    @rule(change=large_puts)
    def put_large(self, change: Change) -> None:
        """It takes effect when its bytes are there, so nothing else is asked for meanwhile."""

        async def work() -> None:
            now_s = self.now_s
            arguments = self.model.arguments(change, now_s)
            results = await asyncio.gather(
                ask(self.keyspace, change, arguments), return_exceptions=True
            )
            assert self.now_s == now_s, "nothing takes time here"
            assert [self.heard(each) for each in results] == [self.model.apply(change, now_s)]

        self.run(work())
        self.run(self.check())

    @rule(change=large_puts, number=st.integers(1, 9), applied=st.booleans())
    def unknown_large(self, change: Change, number: int, applied: bool) -> None:
        """The log fails at one of the steps: the change took place or not."""
        before, after = self.model.copy(), self.model

        async def work() -> object:
            arguments = after.arguments(change, self.now_s)
            self.plan.fail("append", number, applied=applied)
            future = ask(self.keyspace, change, arguments)
            after.apply(change, self.now_s)
            return (await asyncio.gather(future, return_exceptions=True))[0]

        result: object = self.run(work())
        self.plan.faults.clear()
        self.run(self.reopened())
        seen: SeenSpace = self.run(look(self.opened.store, NAMES))
        is_told = isinstance(result, (PutResult, ConditionFailedError))
        assert is_told or isinstance(result, (OutcomeUnknownError, ClosedError)), result
        if isinstance(result, ClosedError) or (not is_told and after.differs(seen, self.now_s)):
            self.model = before
        self.run(self.check())

    @rule(change=large_puts, steps=st.integers(0, 80), index=st.booleans())
    def die_uploading(self, change: Change, steps: int, index: bool) -> None:
        """The process dies while a large value is on its way: it is there as a whole or not."""
        before, after = self.model.copy(), self.model

        async def work() -> bool:
            now_s = self.now_s
            putting: asyncio.Future[object] = asyncio.ensure_future(
                ask(self.keyspace, change, after.arguments(change, now_s))
            )
            after.apply(change, now_s)
            for _ in range(steps):
                await asyncio.sleep(0)
            done = putting.done()
            await self.opened.die(keep_index=index)
            putting.cancel()
            await asyncio.gather(putting, return_exceptions=True)
            await self.open(takeover=True)
            await self.open_space()
            return done

        done = self.run(work())
        seen = self.run(look(self.opened.store, NAMES))
        assert self.run(left(inside.open_space(self.keyspace)))[0] <= {LargeStatus.LIVE}
        if not done and after.differs(seen, self.now_s):
            self.model = before
        self.run(self.check())

    async def reopened(self) -> None:
        """Wait until the store has opened its container again.

        It may have failed just now, by an append of its own, and not know that yet.
        """
        await self.world.environment.sleep(0.01)
        for _ in range(100):
            if self.opened.store.stats()[0].error is None:
                return
            await self.world.environment.sleep(1)
        raise AssertionError("the container stays closed")

    # --- time -------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.25, 1.0, 3.0, 70.0]))
    def wait(self, seconds: float) -> None:
        self.run(self.world.environment.sleep(seconds))
        self.run(self.check())

    @rule()
    def reap(self) -> None:
        """What has expired is gone from the rows, too."""
        self.run(self.keyspace.reap())
        seen = self.run(look(self.opened.store, NAMES))
        assert seen.visible(self.now_s) == seen.objects
        self.run(self.check())

    # --- owners -----------------------------------------------------------------------------------

    @rule()
    def reopen(self) -> None:
        self.run(self.opened.store.close())
        self.run(self.open())
        self.run(self.open_space())
        self.run(self.check())

    @rule(several=st.lists(changes, max_size=6), steps=st.integers(0, 30), index=st.booleans())
    def die(self, several: list[Change], steps: int, index: bool) -> None:
        """The process dies while changes are on their way: a beginning of them is there."""
        states = [self.model]

        async def work() -> None:
            now_s, model = self.now_s, self.model
            futures = []
            for change in several:
                futures.append(ask(self.keyspace, change, model.arguments(change, now_s)))
                model = model.copy()
                model.apply(change, now_s)
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
            await self.open_space()

        self.run(work())
        seen = self.run(look(self.opened.store, NAMES))
        same = [state for state in states if not state.differs(seen, self.now_s)]
        assert same, [state.differs(seen, self.now_s) for state in states]
        self.model = same[0]
        self.run(self.check())

    # --- looking ----------------------------------------------------------------------------------

    @rule()
    def read(self) -> None:
        """A reader finds the same."""

        async def work() -> None:
            reader = await open_reader(self.world)
            keyspace = await reader.keyspace()
            await self.compare(keyspace, await look(reader.store, NAMES))
            await reader.store.close()

        self.run(work())

    @rule()
    def flush(self) -> None:
        self.run(self.opened.store.flush())

    async def check(self) -> None:
        await self.compare(self.keyspace, await look(self.opened.store, NAMES))

    async def compare(self, keyspace: Any, seen: SeenSpace) -> None:
        assert self.model.differs(seen, self.now_s) == ""
        for tag, bucket, key in [("o", "b", "k"), *list(self.model.objects)[:3]]:
            expected = self.model.visible(self.now_s).get((tag, bucket, key))
            found = await keyspace.get(bucket, key, tag=tag)
            head = await keyspace.head(bucket, key, tag=tag)
            assert head == (None if found is None else found.head)
            if expected is None:
                assert found is None
                continue
            assert (found.value, head.metadata) == (expected.value, expected.metadata)
            assert (head.sqn, head.size) == (expected.sqn, len(expected.value))
            assert (head.expires or 0) == expected.expires_s
            index = {(name, term) for name, terms in head.index.items() for term in terms}
            assert index == expected.entries
            assert (head.bucket, head.key, head.tag) == (bucket, key, tag)

    def teardown(self) -> None:
        if not hasattr(self, "opened"):
            return
        try:
            self.run(self.last_look())
        finally:
            self.world.close()

    async def last_look(self) -> None:
        """Footers are written soon; a closed store opens with the same.

        After a roll whose outcome is unknown, the next request finds out whether it took place.
        """
        assert await self.keyspace.delete("b", "of no change") is None
        await self.world.environment.sleep(5)
        seen = await look(self.opened.store, NAMES)
        assert {row.status for row in seen.manifest[:-1]} <= {ValueStatus.SEALED}
        told = check_async(self.opened.store, NAMES.name, deep=True)
        assert [finding async for finding in told] == []
        await self.opened.store.close()
        await self.open()
        await self.open_space()
        await self.check()
        assert (await left(inside.open_space(self.keyspace)))[0] <= {LargeStatus.LIVE}
        await self.opened.store.close()


def play(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        KeyspaceMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_keyspace() -> None:
    play(20, 20)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_keyspace_for_long() -> None:
    play(share_of(1_000), 50)
