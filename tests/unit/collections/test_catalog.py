"""Names of collections: made, found, renamed and dropped, while others have them open."""

from __future__ import annotations

import asyncio
from typing import Any

import pyarrow
import pytest

from siltstone.collections.consensus.object_names import CHOICE_NAME
from siltstone.core.errors import (
    ClosedError,
    CollectionDroppedError,
    CollectionExistsError,
    CollectionNotFoundError,
    CollectionSchemaError,
)
from tests.support.collections.collections_world import (
    NAME,
    SCHEMA,
    CollectionsWorld,
    Opener,
    calls_since,
    many_rows,
    rows,
    shown,
)

pytestmark = pytest.mark.virtual_time


async def made(opener: Opener, name: str) -> None:
    await opener.collections.create(name, SCHEMA, key=["k"], times="count")


async def test_every_process_finds_what_one_made() -> None:
    async with CollectionsWorld() as world:
        mine, other = world.open(), world.open()
        for name in ("b", "a", "bodø, 2 m"):
            await made(mine, name)
        assert await other.collections.list() == ["a", "b", "bodø, 2 m"]
        await (await other.collection("a")).append(rows(("a", 1)))
        assert await shown(await mine.collection("a")) == [("a", 1)]
        assert await shown(await mine.collection("b")) == []


async def test_one_of_several_makes_a_collection_of_a_name() -> None:
    async with CollectionsWorld(latency=lambda pool, chance: chance.random()) as world:
        openers = [world.open() for _ in range(5)]
        done = await asyncio.gather(*(made(one, "x") for one in openers), return_exceptions=True)
        errors = [one for one in done if one is not None]
        assert len(errors) == 4
        assert all(isinstance(one, CollectionExistsError) for one in errors)
        handles = [await one.collection("x") for one in openers]
        assert len({handle.id for handle in handles}) == 1
        await asyncio.gather(*(handle.append(rows(("a", 1))) for handle in handles))
        assert len(await shown(handles[0])) == 5


async def test_many_make_collections_at_once() -> None:
    async with CollectionsWorld(latency=lambda pool, chance: chance.random()) as world:
        openers = [world.open() for _ in range(3)]
        await asyncio.gather(
            *(made(one, f"{n}-{m}") for n, one in enumerate(openers) for m in "ab")
        )
        assert await openers[0].collections.list() == [f"{n}-{m}" for n in range(3) for m in "ab"]


async def test_who_only_looks_makes_nothing() -> None:
    async with CollectionsWorld() as world:
        opener = world.open()
        assert await opener.collections.list() == []
        for verb in (opener.collections.collection, opener.collections.drop):
            with pytest.raises(CollectionNotFoundError, match="gusts"):
                await verb(NAME)
        with pytest.raises(CollectionNotFoundError):
            await opener.collections.rename(NAME, "other")
        assert world.names() == []
        await made(opener, NAME)
        assert CHOICE_NAME in world.names()
        with pytest.raises(CollectionNotFoundError):
            await opener.collection("other")


@pytest.mark.parametrize("history", [7.5, None])
async def test_a_history_that_is_no_number_is_a_mistake(history: Any) -> None:
    async with CollectionsWorld() as world:
        opener = await world.create()
        with pytest.raises(TypeError, match="as an integer"):
            await opener.collections.create("other", SCHEMA, key=["k"], history=history)


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 256])
async def test_names_that_cannot_be_are_refused(name: str) -> None:
    async with CollectionsWorld() as world:
        opener = await world.create()
        with pytest.raises(ValueError, match="1 to 255 bytes"):
            await made(opener, name)
        with pytest.raises(ValueError, match="1 to 255 bytes"):
            await opener.collections.rename(NAME, name)


@pytest.mark.parametrize(
    "wrong",
    [
        {"times": "days"},
        {"times": "count", "history": "7d"},
        {"history": "7w"},
        {"history": "d"},
        {"history": 0},
        {"key": ["v", "x"]},
        {"schema": pyarrow.schema([pyarrow.field("k", pyarrow.list_(pyarrow.int64()))])},
    ],
)
async def test_choices_that_cannot_be_are_refused(wrong: dict[str, object]) -> None:
    async with CollectionsWorld() as world:
        choices = {"schema": SCHEMA, "key": ["k"], "times": "ms", **wrong}
        with pytest.raises((ValueError, CollectionSchemaError)):
            await world.open().collections.create(NAME, **choices)
        assert world.names() == []


async def test_handles_go_on_when_a_collection_is_renamed() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create()
        mine = await opener.collection()
        other = world.open()
        listener = await mine.listen()
        await made(other, "taken")
        with pytest.raises(CollectionExistsError):
            await other.collections.rename(NAME, "taken")
        await other.collections.rename(NAME, "winds")
        await mine.append(rows(("a", 1)))
        assert (await anext(listener)).updates.num_rows == 1
        renamed = await opener.collection("winds")
        assert (renamed.name, renamed.id) == ("winds", mine.id)
        assert await shown(renamed) == [("a", 1)]
        with pytest.raises(CollectionNotFoundError):
            await opener.collection(NAME)
        await made(opener, NAME)
        assert (await other.collection(NAME)).id != mine.id


async def test_a_dropped_collection_is_gone_for_every_handle_and_its_name_is_free() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create()
        mine = await opener.collection()
        loader = mine.writer("loader")
        await loader.append(many_rows(1_000), sequence=0)
        batch = await mine.batch(rows(("b", 2)))
        bill = await mine.bookmark("billing")
        other = world.open()
        await other.collections.drop(NAME)
        assert await other.collections.list() == []
        for call in (
            lambda: mine.append(rows(("a", 1))),
            lambda: mine.append(many_rows(1_000)),
            lambda: loader.append(rows(("a", 1)), sequence=1),
            lambda: mine.append_batches([batch]),
            lambda: mine.batch(rows(("c", 3))),
            mine.snapshot,
            mine.subscribe,
            mine.listen,
            mine.finish,
            mine.info,
            mine.compact,
            lambda: mine.advance_since(0),
            lambda: mine.bookmark("new"),
            lambda: bill.advance(1),
            lambda: mine.evolve(SCHEMA.append(pyarrow.field("w", pyarrow.int64()))),
        ):
            with pytest.raises(CollectionDroppedError):
                await call()
        await made(opener, NAME)
        late = await opener.collection(NAME)
        assert late.id != mine.id
        assert await shown(late) == []


async def test_what_a_dropped_collection_had_is_deleted_but_for_a_tombstone() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create()
        mine = await opener.collection()
        for start in range(70):
            await mine.append(many_rows(600 if start < 3 else 5, 1_000 * start))
        await world.open().collections.drop(NAME)
        left = world.names(mine.id.hex())
        assert [name for name in left if "/parts/" in name] == []
        assert len([name for name in left if "/rollups/" in name]) == 1
        assert len([name for name in left if "/entries/" in name]) <= 5
        with pytest.raises(CollectionDroppedError):
            await mine.info()


@pytest.mark.parametrize("call", range(0, 40, 3))
async def test_a_drop_that_died_is_finished_by_another_one(call: int) -> None:
    async with CollectionsWorld() as world:
        opener = await world.create()
        mine = await opener.collection()
        await mine.append(many_rows(1_000))
        dying = world.open()
        await dying.collection()
        start = len(dying.storage.calls)

        def die(operation: str, name: str) -> None:
            if len(dying.storage.calls) > start + call:
                dying.die()
                dying.storage.before(operation, name)

        dying.storage.before = die
        drop = asyncio.ensure_future(dying.collections.drop(NAME))
        await asyncio.wait([drop], timeout=60)
        if not drop.done() or drop.exception() is not None:
            assert await world.open().collections.list() == [NAME], "the name stays until its end"
            await world.open().collections.drop(NAME)
        assert await world.open().collections.list() == []
        assert world.names("/parts/") == []
        with pytest.raises(CollectionDroppedError):
            await mine.append(rows(("a", 1)))


async def test_two_may_drop_a_collection_at_once() -> None:
    async with CollectionsWorld(latency=lambda pool, chance: chance.random()) as world:
        await (await (await world.create()).collection()).append(many_rows(1_000))
        openers = [world.open() for _ in range(3)]
        done = await asyncio.gather(
            *(one.collections.drop(NAME) for one in openers), return_exceptions=True
        )
        assert None in done
        assert all(one is None or isinstance(one, CollectionNotFoundError) for one in done)
        assert await openers[0].collections.list() == []
        assert world.names("/parts/") == []


async def test_closed_collections_do_nothing_more() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create()
        gusts = await opener.collection()
        await gusts.append(rows(("a", 1)))
        await opener.collections.close()
        await opener.collections.close()
        for call in (lambda: gusts.append(rows(("b", 2))), gusts.snapshot, opener.collections.list):
            with pytest.raises(ClosedError):
                await call()
        assert await shown(await world.open().collection()) == [("a", 1)]


async def test_opening_by_name_costs_eight_requests_and_the_next_one_three() -> None:
    async with CollectionsWorld() as world:
        await made(await world.create(), "other")
        opener = world.open()
        gusts = await opener.collection()
        assert len(calls_since(opener, 0)) == 8
        await gusts.append(rows(("a", 1)))
        before = len(opener.storage.calls)
        await opener.collection("other")
        assert len(calls_since(opener, before)) == 5, "a snapshot of the catalog, and three"
