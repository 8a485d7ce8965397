"""Wider schemas: older rows show nulls, whatever holds them."""

from __future__ import annotations

import asyncio

import pyarrow
import pytest

from siltstone.core.errors import CollectionSchemaError
from tests.support.collections.collections_world import (
    SCHEMA,
    CollectionsWorld,
    many_rows,
    rows,
)

pytestmark = pytest.mark.virtual_time

WIDER = SCHEMA.append(pyarrow.field("w", pyarrow.string()))
WIDEST = WIDER.append(pyarrow.field("x", pyarrow.float64()))


async def test_rows_from_before_show_nulls_in_new_columns() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        batch = await gusts.batch(rows(("batch", 1)))
        await gusts.append(rows(("a", 1)))
        await gusts.append(many_rows(600))
        listener = await gusts.subscribe(0)
        await gusts.evolve(WIDER)
        await gusts.append([{"k": "b", "v": 2, "w": "new"}])
        await gusts.append_batches([batch])
        for _ in range(2):
            table = await (await gusts.snapshot()).to_arrow()
            assert table.schema.names == ["k", "v", "w"]
            found = {row["k"]: row["w"] for row in table.to_pylist()}
            assert found.pop("b") == "new"
            assert set(found.values()) == {None}
            assert len(found) == 602
            await gusts.compact()
        assert (await anext(listener)).updates.schema.names == ["k", "v", "w", "_time", "_diff"]
        assert gusts.schema.names == ["k", "v", "w"]


async def test_a_removal_finds_rows_from_before() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        await gusts.append(rows(("a", 1), ("b", 2)))
        await gusts.evolve(WIDER)
        await gusts.append([], remove=[{"k": "a", "v": 1, "w": None}])
        for _ in range(2):
            table = await (await gusts.snapshot()).to_arrow()
            assert table.to_pylist() == [{"k": "b", "v": 2, "w": None}]
            await gusts.compact()


async def test_a_schema_that_is_no_wider_is_refused() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        narrower = pyarrow.schema([SCHEMA.field("k")])
        other = pyarrow.schema([SCHEMA.field("k"), pyarrow.field("v", pyarrow.string())])
        needed = SCHEMA.append(pyarrow.field("w", pyarrow.int64(), nullable=False))
        for wrong in (narrower, other, needed):
            with pytest.raises(CollectionSchemaError):
                await gusts.evolve(wrong)
        await gusts.evolve(SCHEMA)  # is what it is
        assert gusts.schema.names == ["k", "v"]


async def test_one_of_two_that_widen_a_schema_differently_is_refused() -> None:
    async with CollectionsWorld(latency=lambda pool, chance: chance.random()) as world:
        await world.create()
        handles = [await world.open().collection() for _ in range(2)]
        other = SCHEMA.append(pyarrow.field("y", pyarrow.int64()))
        done = await asyncio.gather(
            handles[0].evolve(WIDER), handles[1].evolve(other), return_exceptions=True
        )
        assert sorted(type(one).__name__ for one in done) == ["CollectionSchemaError", "NoneType"]
        both = await asyncio.gather(*(handle.info() for handle in handles))
        assert both[0].schema == both[1].schema


async def test_the_same_wider_schema_may_come_twice() -> None:
    async with CollectionsWorld(latency=lambda pool, chance: chance.random()) as world:
        await world.create()
        handles = [await world.open().collection() for _ in range(3)]
        await asyncio.gather(*(handle.evolve(WIDER) for handle in handles))
        await handles[0].evolve(WIDEST)
        assert (await handles[1].info()).schema.names == ["k", "v", "w", "x"]
