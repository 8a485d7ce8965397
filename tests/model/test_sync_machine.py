"""Two keyspaces against two dictionaries: what differs, and syncs of every kind.

Value segments are tiny and are compacted; objects expire; the owner is closed, or dies. What must
hold: differences are those of the dictionaries; after a sync both keyspaces are what the rule of
the sync makes of the dictionaries; what is changed during a sync is as it was changed; values,
index and ends travel.
"""

from __future__ import annotations

import asyncio
from math import ceil
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from siltstone.objects import tree_side
from siltstone.objects.async_keyspace import AsyncKeyspace
from siltstone.objects.open_spaces import open_space
from siltstone.objects.records.space_rows import Space, Strategy
from siltstone.objects.space_names import space_names
from siltstone.objects.space_setup import make_space
from siltstone.objects.tree import TreeShape
from siltstone.objects.value_segments import RollLimits
from tests.support import inside
from tests.support.container.container_world import World, with_settings
from tests.support.objects.compaction_life import imports_into
from tests.support.objects.space_world import Opened, open_owner
from tests.support.soak import share_of

SETTINGS = with_settings(table_flush_age_s=2.0, flush_age_s=2.0, checkpoint_age_s=20.0)
SHAPE = TreeShape(leaf_below=b"\x60", branch_below=b"\x20")
NAMES = (space_names("left"), space_names("right"))
TAGS = {"o": Strategy.RECOVR, "x": Strategy.RETAIN}

LIMITS = RollLimits(length=1_000, records=5, value=300, piece=100)
"""Value segments roll all the time, and some values are segments of their own."""

Key = tuple[str, str, str]


class Stored(NamedTuple):
    """An object of a dictionary."""

    value: bytes
    terms: tuple[str, ...]
    expires_s: int
    modified_ms: int

    @property
    def compared(self) -> tuple[object, ...]:
        return self.value, self.terms, self.expires_s


Model = dict[Key, Stored]


class Change(NamedTuple):
    """A put, or a delete where there is no value, on one side or on both."""

    sides: tuple[int, ...]
    key: Key
    value: bytes | None
    terms: tuple[str, ...]
    ttl_s: int | None


keys = st.tuples(
    st.sampled_from(["o", "x"]),
    st.sampled_from(["b", "c\0"]),
    st.text("klm", min_size=1, max_size=2),
)
changes = st.builds(
    Change,
    sides=st.sampled_from([(0,), (1,), (0, 1), (0, 1), (0, 1)]),
    key=keys,
    value=st.none() | st.sampled_from([b"", b"a", b"b", bytes(400)]),
    terms=st.sampled_from([(), (), ("s",), ("s", "t")]),
    ttl_s=st.sampled_from([None, None, None, 2, 60]),
)
preferences = st.sampled_from(
    [("left", False), ("right", False), ("newest", False), ("left", True), ("right", True)]
)


def one_of_each(several: list[Change]) -> list[Change]:
    """One change of each key: a large value is there later than what is put after it."""
    return list({each.key: each for each in several}.values())


def visible(model: Model, now_s: float) -> Model:
    return {k: each for k, each in model.items() if not each.expires_s or now_s < each.expires_s}


def synced(left: Model, right: Model, prefer: str, *, deletes: bool) -> Model:
    """What both are after a sync, by its documentation."""
    result: Model = {}
    for key in {**left, **right}:
        ours, theirs = left.get(key), right.get(key)
        if ours is None or theirs is None:
            preferred = ours if prefer == "left" else theirs
            found = preferred if deletes else ours or theirs
        elif ours.compared == theirs.compared:
            found = ours
        elif prefer == "newest":
            # At the same time any of both will do, as long as it is the same one.
            found = max(ours, theirs, key=lambda each: each.modified_ms)
        else:
            found = ours if prefer == "left" else theirs
        if found is not None:
            result[key] = found
    return result


class SyncMachine(RuleBasedStateMachine):
    """The models: of each side the objects by tag, bucket and key."""

    @initialize(seed=st.integers(0, 10_000))
    def begin(self, seed: int) -> None:
        self.world = World(seed, settings=SETTINGS)
        self.patch = pytest.MonkeyPatch()
        imports_into(self.world, self.patch)
        self.patch.setattr(tree_side, "SHAPE", SHAPE)
        self.patch.setattr(tree_side, "HASHES_MAX", 3)
        self.models: tuple[Model, Model] = ({}, {})
        self.run(self.open(makes=True))

    async def open(self, *, makes: bool = False, takeover: bool = False) -> None:
        self.opened: Opened = await open_owner(self.world, takeover=takeover)
        self.sides: list[AsyncKeyspace] = []
        for names in NAMES:
            if makes:
                await make_space(self.opened.store, names, Space(tags=TAGS))
            side = AsyncKeyspace(await open_space(self.opened.store, names, LIMITS))
            self.sides.append(side)
            self.opened.spaces.append(side)

    def run(self, work: Any) -> Any:
        return self.world.run(work)

    @property
    def now_s(self) -> float:
        return self.world.environment.time()

    def ask(self, change: Change) -> list[asyncio.Future[Any]]:
        """Make a change, and let the models know."""
        tag, bucket, key = change.key
        futures: list[asyncio.Future[Any]] = []
        for number in change.sides:
            side, model = self.sides[number], self.models[number]
            if change.value is None:
                model.pop(change.key, None)
                futures.append(side.delete(bucket, key, tag=tag))
                continue
            ends_s = 0 if change.ttl_s is None else ceil(self.now_s) + change.ttl_s
            modified_ms = int(self.now_s * 1000)
            model[change.key] = Stored(change.value, change.terms, ends_s, modified_ms)
            index = {"f": list(change.terms)}
            put = side.put(bucket, key, change.value, tag=tag, index=index, ttl_s=change.ttl_s)
            futures.append(put)
        return futures

    @rule(several=st.lists(changes, min_size=1, max_size=12))
    def change(self, several: list[Change]) -> None:
        several = one_of_each(several)

        async def work() -> None:
            await asyncio.gather(*(future for each in several for future in self.ask(each)))

        self.run(work())
        self.run(self.check())

    @rule(preference=preferences, one_side=st.booleans())
    def sync(self, preference: tuple[Any, bool], one_side: bool) -> None:
        prefer, deletes = preference
        left, right = (visible(model, self.now_s) for model in self.models)
        if one_side:
            left = {key: each for key, each in left.items() if key[:2] == ("x", "b")}
            right = {key: each for key, each in right.items() if key[:2] == ("x", "b")}
        now_s = self.now_s
        arguments: dict[str, Any] = {"bucket": "b", "tag": "x"} if one_side else {}
        report = self.run(
            self.sides[0].sync(self.sides[1], prefer=prefer, deletes=deletes, **arguments)
        )
        assert self.now_s == now_s, "nothing takes time here"
        differing = [k for k in {**left, **right} if self.differ(left.get(k), right.get(k))]
        assert report.differences == len(differing)
        assert (report.changed, report.lost, report.left_out) == (0, 0, 0)
        result = synced(left, right, prefer, deletes=deletes)
        for model in self.models:
            for key in {**left, **right}:
                model.pop(key, None)
                if key in result:
                    model[key] = result[key]
        self.run(self.check(ties=prefer == "newest"))

    @staticmethod
    def differ(ours: Stored | None, theirs: Stored | None) -> bool:
        return (ours and ours.compared) != (theirs and theirs.compared)

    @rule(
        preference=preferences,
        several=st.lists(changes, min_size=1, max_size=6),
        steps=st.integers(0, 40),
    )
    def sync_and_change(
        self, preference: tuple[Any, bool], several: list[Change], steps: int
    ) -> None:
        """What is changed while a sync runs is as it was changed."""
        prefer, deletes = preference
        several = one_of_each(several)

        async def work() -> None:
            syncing = asyncio.ensure_future(
                self.sides[0].sync(self.sides[1], prefer=prefer, deletes=deletes)
            )
            for _ in range(steps):
                await asyncio.sleep(0)
            await asyncio.gather(*(future for each in several for future in self.ask(each)))
            await syncing
            changed = [{each.key for each in several if side in each.sides} for side in (0, 1)]
            for number, keys_of_side in enumerate(changed):
                seen = await self.seen(number)
                model = visible(self.models[number], self.now_s)
                for key in keys_of_side:
                    found = seen.get(key)
                    if key in model:
                        assert found == model[key]
                    elif found is not None:
                        # Deleted before the sync looked: the other side may have given it back.
                        assert not deletes or number == (0 if prefer == "right" else 1)
            for number in (0, 1):
                seen = await self.seen(number)
                self.models[number].clear()
                self.models[number].update(seen)

        self.run(work())
        self.run(self.check())
        self.sync(preference, False)

    @rule(number=st.integers(0, 1))
    def compact(self, number: int) -> None:
        """Values lie elsewhere afterwards."""
        self.run(self.world.environment.sleep(3))
        self.run(self.opened.store.flush())
        self.run(inside.open_space(self.sides[number]).compact(2))
        self.run(self.check())

    @rule(seconds=st.sampled_from([0.25, 1.0, 3.0, 70.0]))
    def wait(self, seconds: float) -> None:
        self.run(self.world.environment.sleep(seconds))
        self.run(self.check())

    @rule(dies=st.booleans())
    def reopen(self, dies: bool) -> None:
        self.run(self.opened.die() if dies else self.opened.store.close())
        self.run(self.open(takeover=dies))
        self.run(self.check())

    async def seen(self, number: int) -> Model:
        found: Model = {}
        for tag in TAGS:
            async for each in self.sides[number].objects(tag=tag):
                head = each.head
                found[tag, head.bucket, head.key] = Stored(
                    each.value,
                    head.index.get("f", ()),
                    head.expires or 0,
                    round(head.modified * 1000),
                )
        return found

    async def check(self, *, ties: bool = False) -> None:
        """Both are as their models, and differences are those of the models."""
        for number in (0, 1):
            seen, model = await self.seen(number), visible(self.models[number], self.now_s)
            if ties and seen != model:
                assert {k: each.modified_ms for k, each in seen.items()} == {
                    k: each.modified_ms for k, each in model.items()
                }
                self.models[number].update(seen)
            else:
                assert seen == model
        left, right = (visible(model, self.now_s) for model in self.models)
        expected = {k for k in {**left, **right} if self.differ(left.get(k), right.get(k))}
        found = [each async for each in self.sides[0].differences(self.sides[1])]
        names = [(each.tag, each.bucket, each.key) for each in found]
        assert names == sorted(expected)
        for name, each in zip(names, found, strict=True):
            assert (each.ours is None, each.theirs is None) == (name not in left, name not in right)

    def teardown(self) -> None:
        if not hasattr(self, "opened"):
            return
        try:
            self.run(self.opened.store.close())
        finally:
            self.patch.undo()
            self.world.close()


def play(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        SyncMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_syncs() -> None:
    play(12, 15)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_syncs_for_long() -> None:
    play(share_of(1_000), 40)
