"""A short life of a collection on any service that keeps chunks, held by two clients of it.

A list of rows is the model. Everything is seen by both clients, and the objects from outside.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import pytest

from siltstone.collections.async_collection import AsyncCollection
from siltstone.collections.async_collections import AsyncCollections
from siltstone.collections.async_subscription import AsyncSubscription
from siltstone.collections.consensus.objects import ObjectConsensus
from siltstone.collections.place import CollectionPlace, CollectionSettings
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import CollectionNotFoundError, SinceError, UpperMismatchError
from siltstone.testing.chunk_checks.subject import ChunkService
from tests.support.collections.collections_world import (
    NAME,
    SCHEMA,
    many_rows,
    rows,
    shown,
    updates_of,
)

SETTINGS = CollectionSettings(garbage_delay_ms=0, compacts=False, poll_max_s=0.2)
"""Nothing is compacted by itself, and garbage goes at once."""

APPENDS = 6
"""Of each client, while the other one appends as well; each third has rows that are uploaded."""

Pair = tuple[str, int]


@asynccontextmanager
async def client_of(service: ChunkService) -> AsyncIterator[AsyncCollections]:
    """The collections of a service as one process has them open."""
    environment = SystemEnvironment()
    storage = service.open()
    place = CollectionPlace(
        storage=storage,
        consensus=ObjectConsensus(storage, environment),
        environment=environment,
        settings=SETTINGS,
        store_id=bytes(16),
        who="one of two",
    )
    async with AsyncCollections(place, closes=environment) as collections:
        yield collections


@dataclass
class Model:
    """The rows that each time added, in the order of times."""

    added: dict[int, list[Pair]] = field(default_factory=dict)

    def rows_at(self, as_of: int) -> list[Pair]:
        """What is to be shown at a time, in order."""
        return sorted(row for time, added in self.added.items() if time <= as_of for row in added)


async def served_life(service: ChunkService) -> None:
    """Live on ``service``, which has no collection yet; raise ``AssertionError`` if it deviates."""
    async with AsyncExitStack() as stack:
        first, second = [await stack.enter_async_context(client_of(service)) for _ in range(2)]
        mine = await first.create(NAME, SCHEMA, key=["k"], times="count")
        others = await second.collection(NAME)
        model = Model()
        async with await others.listen(0) as listener:
            follows = asyncio.ensure_future(_followed(listener, 2 * APPENDS))
            await asyncio.gather(_append(mine, "a", model), _append(others, "b", model))
            assert sorted(model.added) == list(range(2 * APPENDS)), "each time once"
            expected = [(*row, time, 1) for time, added in model.added.items() for row in added]
            assert await follows == sorted(expected)
        await _compare(mine, others, model)
        await _compact(mine, others, model, service)
        assert [one async for one in second.check(deep=True)] == []
        await _drop(first, second, service)


async def _append(collection: AsyncCollection, prefix: str, model: Model) -> None:
    writer = collection.writer(f"writer {prefix}")
    for number in range(APPENDS):
        if number % 3 == 2:
            table = many_rows(700, 1_000 * number)
            pairs = list(zip(table["k"].to_pylist(), table["v"].to_pylist(), strict=True))
        else:
            pairs = [(f"{prefix}{number}", number)]
        done = await writer.append(rows(*pairs), sequence=number)
        again = await writer.append(rows(*pairs), sequence=number)
        assert (again.upper, again.repeated) == (done.upper, True)
        model.added[done.time] = pairs


async def _followed(listener: AsyncSubscription, upper: int) -> list[tuple[str, int, int, int]]:
    """What changes up to ``upper``, complete and in one piece."""
    tables, frontier = [], 0
    async for changes in listener:
        assert changes.lower == frontier
        assert changes.upper is not None
        frontier = changes.upper
        tables.append(changes.updates)
        if frontier == upper:
            return updates_of(tables)
    raise AssertionError("a collection that nobody finished has ended")


async def _compare(mine: AsyncCollection, others: AsyncCollection, model: Model) -> None:
    """Both show the same at each time, and one that looked too early appends nothing."""
    for as_of in (0, APPENDS, 2 * APPENDS - 1):
        assert await shown(mine, as_of) == await shown(others, as_of) == model.rows_at(as_of)
    with pytest.raises(UpperMismatchError):
        await others.append(rows(("late", 0)), expected_upper=APPENDS)


async def _compact(
    mine: AsyncCollection, others: AsyncCollection, model: Model, service: ChunkService
) -> None:
    """A row is taken away for good, history ends, and of the objects only those of rows stay."""
    newest = 2 * APPENDS
    gone = model.rows_at(newest)[0]
    await others.append([], remove=rows(gone), expected_upper=newest)
    rest = model.rows_at(newest)[1:]
    assert await shown(mine) == rest
    await mine.advance_since(newest)
    await mine.compact()
    with pytest.raises(SinceError):
        await shown(others, newest - 1)
    for one in (mine, others):
        assert await shown(one, newest) == rest
    await mine.append([])  # The hold of what was uploaded moves on.
    assert await others.collect() > 0
    await mine.sweep()
    for one in (mine, others):
        assert await shown(one) == rest
    assert len(parts_seen(service)) == (await others.info()).parts


async def _drop(first: AsyncCollections, second: AsyncCollections, service: ChunkService) -> None:
    """Its rows go with it, and the name is free."""
    await second.drop(NAME)
    with pytest.raises(CollectionNotFoundError):
        await first.collection(NAME)
    await first.collect()
    assert parts_seen(service) == []
    again = await first.create(NAME, SCHEMA, key=["k"], times="count")
    assert await shown(again) == []


def parts_seen(service: ChunkService) -> list[str]:
    """Names of all objects of rows, from outside."""
    return [name for name in service.outside_names() if name.endswith(".parquet")]
