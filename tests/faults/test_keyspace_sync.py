"""Every call that a sync of two keyspaces makes meets every fault.

What may fail: one call to long-term storage or the log: refused; lost; applied with its reply lost;
applied by half; answered too late; no room; or the process dies before the call or after it. What
must hold: a repeat of the sync goes on; then both keyspaces have what the rule says, with value,
index and end, and nothing else; so they have in the next process.
"""

from __future__ import annotations

from random import Random

import pytest

from siltstone.objects.async_keyspace import AsyncKeyspace
from siltstone.objects.errors import KeyspaceExistsError
from siltstone.objects.open_spaces import open_space
from siltstone.objects.records.space_rows import HeadOnly, Space, Strategy
from siltstone.objects.space_names import space_names
from siltstone.objects.space_setup import make_space
from siltstone.objects.value_segments import RollLimits
from tests.support.container.container_world import World, world
from tests.support.faults.failing_calls import SETTINGS, Faults, fates_of, run_watched
from tests.support.objects.space_life import SpaceLife
from tests.support.objects.space_model import SpaceModel
from tests.support.objects.space_world import SMALL, Opened
from tests.support.soak import shared

SAMPLE = 10
NAMES = (space_names("left"), space_names("right"))
KINDS = {
    "heads": Space(tags={"h": Strategy.RECOVR}, head_only=HeadOnly.WITH_LOOKUP),
    "large values": Space(tags={"o": Strategy.RECOVR}),
    "values": Space(tags={"o": Strategy.RECOVR}),
}
LARGE = RollLimits(length=1_000, records=5, value=700, piece=256)
SIDES = ({"a": "left", "b": "left", "c": "same"}, {"b": "right", "c": "same", "d": "right"})
"""By key the value of each side, which is also its term."""
EXPECTED = {"a": "left", "b": "left", "c": "same", "d": "right"}


async def pair_of(opened: Opened, kind: str) -> list[AsyncKeyspace]:
    limits = LARGE if kind == "large values" else SMALL
    pair = [AsyncKeyspace(await open_space(opened.store, names, limits)) for names in NAMES]
    opened.spaces += pair
    return pair


async def fill(life: SpaceLife, kind: str) -> None:
    """Make both sides, with their values on long-term storage."""

    async def step(opened: Opened) -> None:
        for names in NAMES:
            try:
                await make_space(opened.store, names, KINDS[kind])
            except KeyspaceExistsError:
                continue
        for side, values in zip(await pair_of(opened, kind), SIDES, strict=True):
            for key, value in values.items():
                if kind == "heads":
                    await side.mput([("add", "b", key, "s", value.encode())], ttl_s=9_000)
                else:
                    index = {"f": [value]}
                    await side.put("b", key, 300 * value.encode(), index=index, ttl_s=9_000)
        await opened.store.flush()

    await life.do(step)


async def sync(opened: Opened, kind: str) -> None:
    left, right = await pair_of(opened, kind)
    report = await left.sync(right, prefer="left")
    assert (report.lost, report.left_out) == (0, 0)


async def check(opened: Opened, kind: str) -> None:
    left, right = await pair_of(opened, kind)
    assert [each async for each in left.differences(right)] == []
    for side in (left, right):
        heads = [each async for each in side.heads()]
        assert all(each.expires for each in heads)
        if kind == "heads":
            assert {each.key: each.metadata.decode() for each in heads} == EXPECTED
            continue
        values = {each.head.key: each.value async for each in side.objects()}
        assert values == {key: 300 * value.encode() for key, value in EXPECTED.items()}
        assert sorted([each async for each in side.index("b", "f")]) == sorted(
            (value, key) for key, value in EXPECTED.items()
        )


def play(kind: str, number: int = 0, fate: str = "") -> Faults:
    """Sync, with one of its calls failing, until that succeeds."""
    faults = Faults(number, fate)

    async def operated(made: World) -> None:
        life = SpaceLife(made, faults, SpaceModel(), Random(number))
        await fill(life, kind)
        faults.armed = True
        await life.do(lambda opened: sync(opened, kind))
        faults.armed = False
        await (await life.living()).store.flush()
        await life.do(lambda opened: check(opened, kind))
        await life.end()
        await life.do(lambda opened: check(opened, kind))
        await life.end()

    with world(settings=SETTINGS) as made:
        made.storage_hook = faults.watch
        run_watched(made, faults, operated(made))
    return faults


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_some_calls_of_a_sync_fail(kind: str) -> None:
    every = fates_of(play(kind))
    assert every, "a sync makes calls"
    for number, fate in Random(kind).sample(every, min(SAMPLE, len(every))):
        play(kind, number, fate)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_call_of_a_sync_fails(kind: str) -> None:
    for number, fate in shared(fates_of(play(kind))):
        play(kind, number, fate)
