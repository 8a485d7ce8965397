"""A keyspace whose value log is compacted all the time, against a dictionary.

It is also compacted by its schedule, in longer waits and next to steps.

What must hold after each step: heads and values are those of the dictionary, and so is what the
records alone give; SQNs of the manifest are in order, each record is there once. What must hold of
a snapshot, whatever was changed and compacted since: it is the dictionary as it was, in both
orders. What must hold after an opening: no value segment lies there that no row names, and no large
value that no object has. What must hold after a rebuild, also of a ledger that is gone: its rows
are those of before.
"""

from __future__ import annotations

from collections.abc import Awaitable
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

from siltstone.store.settings.objects_section import ObjectsSection
from tests.support.container.container_world import World
from tests.support.faults.failing_calls import SETTINGS
from tests.support.objects.compaction_life import CompactionLife, Key, imports_into
from tests.support.soak import share_of

DEFAULT_EXAMPLES = 25
SOAK_EXAMPLES = 1_500
STEPS = 30
SNAPSHOTS_MAX = 5
ROUND_S = 15.0
"""So that it also compacts by itself in each longer wait, and next to steps."""

BY_ITSELF = ObjectsSection(compact="auto", head_checks=0)

keys = st.tuples(st.sampled_from(["o", "o", "o", "x"]), st.sampled_from("abcdefghij"))
values = st.one_of(
    st.none(),
    st.binary(min_size=1, max_size=1).map(lambda one: one * (1 + one[0])),
    st.sampled_from([b"large" * 400, b"large" * 800]),
)
ttls = st.sampled_from([None, None, None, 1, 30, 90])
changes = st.lists(st.tuples(keys, values, ttls), min_size=1, max_size=12)


class CompactionMachine(RuleBasedStateMachine):
    """The model: a dictionary, and a copy of it for each open snapshot."""

    @initialize(seed=st.integers(0, 1_000))
    def begin(self, seed: int) -> None:
        self.world = World(seed, settings=SETTINGS)
        self.patch = pytest.MonkeyPatch()
        imports_into(self.world, self.patch)
        self.patch.setattr("siltstone.objects.compaction_schedule.ROUND_EVERY_S", ROUND_S)
        self.patch.setattr("siltstone.objects.compaction_schedule.REST_S", 0.5)
        self.life = CompactionLife(self.world, settings=BY_ITSELF)
        self.run(self.life.begin())

    def run(self, step: Awaitable[Any]) -> Any:
        return self.world.run(step)

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.run(self.life.end(dies=True))
            self.patch.undo()
            self.world.close()

    @rule(wanted=changes)
    def change(self, wanted: list[Any]) -> None:
        self.run(self.life.change(wanted))
        self.run(self.life.check())

    @rule(count=st.integers(8, 20), gone=keys, ttl_s=ttls, often=st.integers(0, 2))
    def end_one(self, count: int, gone: Key, ttl_s: int | None, often: int) -> None:
        """One object is deleted, or is to expire, among changes that give a lot to compact."""
        last = (gone, None if ttl_s is None else b"last", ttl_s)
        more = [(("o", "often"), b"%d" % number * 40, None) for number in range(count)]
        self.run(self.life.change([*more[:3], last, *more[3:]]))
        for _ in range(often):
            self.run(self.life.compact(8))
        self.run(self.life.check())

    @rule(first=st.integers(0, 9))
    def put_several(self, first: int) -> None:
        """A segment or more of objects that stay."""
        names = "abcdefghij"[first:] + "abcdefghij"[:first]
        self.run(self.life.change([(("o", key), key.encode() * 60, None) for key in names[:7]]))
        self.run(self.life.check())

    @rule(run_max=st.sampled_from([2, 8]), often=st.integers(1, 3))
    def compact(self, run_max: int, often: int) -> None:
        for _ in range(often):
            self.run(self.life.compact(run_max))
            self.run(self.life.check())

    @rule()
    def flush(self) -> None:
        self.run(self.life.process.store.flush())

    @rule(seconds=st.sampled_from([2, 40, 200]))
    def wait(self, seconds: int) -> None:
        """Objects expire, what is left of them and of old segments goes; it may be compacted."""
        self.run(self.world.environment.sleep(seconds))
        self.run(self.life.check())

    @rule(dies=st.booleans())
    def reopen(self, dies: bool) -> None:
        self.run(self.life.reopen(dies=dies))

    @rule(lost=st.booleans())
    def rebuild(self, lost: bool) -> None:
        self.run(self.life.rebuild(lost=lost))

    @precondition(lambda self: len(self.life.held) < SNAPSHOTS_MAX)
    @rule()
    def hold(self) -> None:
        assert self.life.keyspace is not None
        taken = self.run(self.life.keyspace.snapshot(3_600))
        self.life.held.append((taken, dict(self.life.model)))

    @precondition(lambda self: self.life.held)
    @rule(number=st.integers(0, SNAPSHOTS_MAX))
    def fold(self, number: int) -> None:
        self.run(self.life.fold(number))

    @precondition(lambda self: self.life.held)
    @rule(number=st.integers(0, SNAPSHOTS_MAX))
    def release(self, number: int) -> None:
        self.run(self.life.fold(number))
        taken, _ = self.life.held.pop(number % len(self.life.held))
        self.run(taken.close())


def play(examples: int) -> None:
    run_state_machine_as_test(
        CompactionMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_a_keyspace_that_is_compacted_stays_a_dictionary() -> None:
    play(DEFAULT_EXAMPLES)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_long_lives() -> None:
    play(share_of(SOAK_EXAMPLES))
