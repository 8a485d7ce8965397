"""A store may be closed whatever a keyspace does: the next opening has all of it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import siltstone
from siltstone import objects
from tests.support.objects.rebuilt import all_sealed
from tests.support.objects.small_segments import (
    NAME,
    small_keyspace,
    store_for_keyspaces,
    values_of,
)

TURNS = (0, 1, 3, 10, 30, 100, 300)
"""Turns of the loop that a compaction has."""


@pytest.mark.parametrize("turns", TURNS)
async def test_a_store_that_is_closed_while_a_compaction_runs_opens_with_all_of_it(
    tmp_path: Path, turns: int
) -> None:
    folder = store_for_keyspaces(tmp_path)
    async with small_keyspace(folder) as (store, keyspace, space):
        for number in range(120):
            await keyspace.put("b", f"k{number % 20}", b"%d" % number * 20, index={"f": ["t"]})
        await all_sealed(space)
        await store.flush()
        model = await values_of(keyspace)
        compaction = asyncio.ensure_future(keyspace.compact())
        for _ in range(turns):
            await asyncio.sleep(0)
        await store.close()
        (told,) = await asyncio.gather(compaction, return_exceptions=True)
        assert isinstance(told, (siltstone.SiltstoneError, objects.CompactionReport))
    async with small_keyspace(folder) as (store, keyspace, _):
        assert await values_of(keyspace) == model
        assert [each async for each in objects.check_async(store, NAME, deep=True)] == []
        while (await keyspace.compact()).run:
            pass
        assert await values_of(keyspace) == model
