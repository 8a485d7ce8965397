"""No clock decides what an object is: SQNs do, and what was removed stays away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from siltstone import objects
from siltstone.objects.open_space import OpenSpace
from tests.support.objects.rebuilt import all_sealed
from tests.support.objects.small_segments import (
    NAME,
    small_keyspace,
    store_for_keyspaces,
    values_of,
)

TIMES = (0.0, -1e6, 1e6, -1.7e9, 6e9, -3.0)
"""Seconds that the clock is off: also in 1973, and after the year 2106."""

SetClock = Callable[[float], None]


def clock_of(space: OpenSpace, monkeypatch: pytest.MonkeyPatch) -> SetClock:
    """Return what sets the clock of a keyspace so many seconds off."""
    environment = space.parts.store.environment
    begun = environment.time()

    def put_off(seconds: float) -> None:
        monkeypatch.setattr(environment, "time", lambda: begun + seconds)

    return put_off


async def compacted(keyspace: objects.AsyncKeyspace, space: OpenSpace) -> None:
    store = space.parts.store
    await all_sealed(space)
    await store.flush()
    while (await keyspace.compact()).run:
        pass


async def test_changes_count_in_the_order_of_their_calls_whatever_the_clock_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, random = store_for_keyspaces(tmp_path), Random(7)
    model: dict[str, bytes] = {}
    async with small_keyspace(folder) as (store, keyspace, space):
        put_off = clock_of(space, monkeypatch)
        last = 0
        for number in range(150):
            put_off(random.choice(TIMES))
            key = f"k{random.randrange(15)}"
            if random.random() < 0.2:
                sqn = await keyspace.delete("b", key)
                assert (sqn is None) == (model.pop(key, None) is None)
            else:
                model[key] = b"%d" % number
                sqn = (await keyspace.put("b", key, model[key])).sqn
            if sqn is not None:
                assert sqn == last + 1
                last = sqn
        assert await values_of(keyspace) == model
        await compacted(keyspace, space)
        assert await values_of(keyspace) == model
        told = objects.check_async(store, NAME, deep=True)
        assert [each async for each in told if each.severity != "garbage"] == []
    monkeypatch.undo()
    async with small_keyspace(folder) as (_, keyspace, _):
        assert await values_of(keyspace) == model


async def test_what_was_removed_when_it_expired_stays_away_when_the_clock_goes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = store_for_keyspaces(tmp_path)
    async with small_keyspace(folder) as (store, keyspace, space):
        put_off = clock_of(space, monkeypatch)
        for number in range(30):
            await keyspace.put("b", f"k{number}", b"v", index={"f": ["t"]}, ttl_s=10)
        await keyspace.put("b", "stays", b"v")
        put_off(100)
        assert await keyspace.reap() == 30
        put_off(0)
        assert await values_of(keyspace) == {"stays": b"v"}
        assert [each async for each in keyspace.index("b", "f")] == []
        assert await keyspace.head("b", "k3") is None
        await compacted(keyspace, space)
        assert await values_of(keyspace) == {"stays": b"v"}
        told = objects.check_async(store, NAME, deep=True)
        assert [each async for each in told if each.severity != "garbage"] == []
        assert (await keyspace.put("b", "k3", b"again", expected=None)).replaced is None


async def test_a_time_to_live_after_the_last_time_that_a_row_holds_ends_at_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (_, keyspace, space):
        put_off = clock_of(space, monkeypatch)
        put_off(2.4e9)
        await keyspace.put("b", "k", b"v", ttl_s=2**31)
        head = await keyspace.head("b", "k")
        assert head is not None
        assert head.expires == 2**32 - 2
        put_off(6e9)
        assert await keyspace.head("b", "k") is None
        assert await keyspace.reap() == 1
        assert (await keyspace.stat()).objects == 0
