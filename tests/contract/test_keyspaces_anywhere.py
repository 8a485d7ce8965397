"""A random history of a keyspace is the same wherever long-term storage is: real servers of each.

Each life puts, deletes and uploads, rolls value segments, compacts them, and ends; the next one has
all of it, on an index that was lost, too. In the end the ledger is made again from the values.
"""

from __future__ import annotations

import asyncio
import io
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

import siltstone
from siltstone import objects
from siltstone.objects import AsyncKeyspace
from siltstone.objects.value_segments import RollLimits
from tests.support.objects.rebuilt import all_sealed
from tests.support.objects.small_segments import NAME, small_keyspace
from tests.support.services.places import of_hdfs, of_s3

LIMITS: Final = RollLimits(length=3_000, records=20, value=4_000, piece=700)
KEYS: Final = 20

Model = dict[str, tuple[bytes, str]]
"""By key the value, and the term under which it is found."""


def on_files(_: pytest.FixtureRequest) -> dict[str, Any]:
    return {}


def in_memory(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Where a chunk is written once, and never appended to."""
    options = {"name": request.node.name, "append": False}
    return {"binding": "memory", "options": options}


def on_s3(request: pytest.FixtureRequest) -> dict[str, Any]:
    request.getfixturevalue("s3_plugin")
    place = of_s3(request)
    return {"binding": place.binding, "options": place.options}


def on_hdfs(request: pytest.FixtureRequest) -> dict[str, Any]:
    request.getfixturevalue("hdfs_plugin")
    place = of_hdfs(request)
    return {"binding": place.binding, "options": place.options}


PLACES: dict[str, Callable[[pytest.FixtureRequest], dict[str, Any]]] = {
    "nfs": on_files,
    "memory": in_memory,
    "s3": on_s3,
    "hdfs": on_hdfs,
}


async def changed(keyspace: AsyncKeyspace, random: Random, model: Model) -> None:
    """Change about as many objects as there are, one of them to a large value."""
    futures: list[asyncio.Future[Any]] = []
    for _ in range(2 * KEYS):
        key, term = f"k{random.randrange(KEYS)}", str(random.randrange(3))
        if random.random() < 0.2:
            model.pop(key, None)
            futures.append(asyncio.ensure_future(keyspace.delete("b", key)))
            continue
        value = random.randbytes(random.randrange(300))
        model[key] = value, term
        futures.append(asyncio.ensure_future(keyspace.put("b", key, value, index={"f": [term]})))
    await asyncio.gather(*futures)
    key, value = f"k{random.randrange(KEYS)}", random.randbytes(9_000)
    await keyspace.put_from("b", key, io.BytesIO(value), index={"f": ["large"]})
    model[key] = value, "large"


async def compare(store: siltstone.AsyncStore, keyspace: AsyncKeyspace, model: Model) -> None:
    found = {each.head.key: each.value async for each in keyspace.objects("b", order="sqn")}
    assert found == {key: value for key, (value, _) in model.items()}
    terms = sorted((term, key) for key, (_, term) in model.items())
    assert sorted([each async for each in keyspace.index("b", "f")]) == terms
    assert [each async for each in objects.check_async(store, NAME, deep=True)] == []


@pytest.mark.parametrize("place", PLACES)
async def test_a_history_of_a_keyspace(
    request: pytest.FixtureRequest, tmp_path: Path, place: str
) -> None:
    file = siltstone.init(tmp_path / "store", containers=1, **PLACES[place](request))
    random, model = Random(5), Model()
    compacted = 0
    for life in range(2):
        if life == 1:
            shutil.rmtree(file.parent / "index")
        async with small_keyspace(file, LIMITS) as (store, keyspace, space):
            await compare(store, keyspace, model)
            await changed(keyspace, random, model)
            await all_sealed(space)
            await store.flush()
            while (await keyspace.compact()).run:
                compacted += 1
            await compare(store, keyspace, model)
    assert compacted > 1
    async with await siltstone.open_async(file) as store:
        await objects.rebuild_async(store, NAME)
        await compare(store, await objects.open_async(store, NAME), model)
