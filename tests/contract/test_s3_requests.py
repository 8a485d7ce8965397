"""What each verb of collections asks of S3, counted on the wire: the table of what they cost.

The clocks are virtual, the server and its requests are real. A process has proved the bucket by
its first change before anything is counted here, but for the whole life of a process at the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

import siltstone
from services.s3_server import S3Server
from siltstone.bindings.s3.chunk_storage import S3ChunkStorage
from siltstone.collections.async_collections import open_async_collections
from siltstone.collections.place import CollectionSettings
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.environment import Pool
from siltstone.testing.faults.fault_proxy import FaultProxy
from siltstone.testing.virtual_time import jittered
from tests.support.collections.collections_world import (
    NAME,
    SCHEMA,
    CollectionsWorld,
    many_rows,
    rows,
    shown,
)
from tests.support.services.s3_services import new_bucket, options_of, settings_of

CHANGES = ("PUT", "POST")
"""What S3 takes the higher price for; a DELETE is free."""


@pytest.fixture
def proxy(versitygw: S3Server) -> Iterator[FaultProxy]:
    with FaultProxy(("127.0.0.1", versitygw.port)) as made:
        yield made


@asynccontextmanager
async def world_on_s3(
    server: S3Server, proxy: FaultProxy, settings: CollectionSettings | None = None
) -> AsyncIterator[CollectionsWorld]:
    bucket, _ = new_bucket(server)
    clients: list[ChunkStorage] = []

    def client() -> ChunkStorage:
        clients.append(S3ChunkStorage(settings_of(server, bucket, endpoint=proxy.endpoint)))
        return clients[-1]

    chosen = settings or CollectionSettings()
    async with CollectionsWorld(settings=chosen, client=client, latency=_latency) as world:
        yield world
    for one in clients:
        one.close()


def _latency(pool: Pool, chance: Random) -> float:
    """Requests take a while; work on rows does not, so that what comes together stays together."""
    return 0.0 if "rows" in pool.name else jittered(0.1)(pool, chance)


async def cost(proxy: FaultProxy, work: Awaitable[object]) -> tuple[int, int]:
    """How many requests come meanwhile, and how many of them write."""
    proxy.forget()
    await work
    made = [request.method for request in proxy.requests]
    return len(made), sum(map(made.count, CHANGES))


@pytest.mark.virtual_time
async def test_an_inline_append_costs_two_requests_of_which_one_writes(
    versitygw: S3Server, proxy: FaultProxy
) -> None:
    async with world_on_s3(versitygw, proxy) as world:
        gusts = await (await world.create()).collection()
        for _ in range(3):
            assert await cost(proxy, gusts.append(rows(("a", 1)))) == (2, 1)
        together = asyncio.gather(*(gusts.append(rows(("a", n))) for n in range(64)))
        assert await cost(proxy, together) == (2, 1), "64 in flight are one entry"


@pytest.mark.virtual_time
async def test_an_append_with_parts_costs_one_request_more_for_each_and_two_the_first_time(
    versitygw: S3Server, proxy: FaultProxy
) -> None:
    async with world_on_s3(versitygw, proxy, CollectionSettings(part_bytes=50_000)) as world:
        gusts = await (await world.create()).collection()
        first = await cost(proxy, gusts.append(many_rows(8_000)))
        parts = len(world.names("/parts/"))
        assert parts > 1
        assert first == (4 + parts, 2 + parts)
        assert await cost(proxy, gusts.append(many_rows(8_000))) == (2 + parts, 1 + parts)


@pytest.mark.virtual_time
async def test_a_lost_race_costs_three_requests_more(
    versitygw: S3Server, proxy: FaultProxy
) -> None:
    async with world_on_s3(versitygw, proxy) as world:
        gusts = await (await world.create()).collection()
        await gusts.append(rows(("a", 0)))
        other = await world.open().collection()
        await other.append(rows(("other", 1)))
        assert await cost(proxy, gusts.append(rows(("a", 1)))) == (2 + 3, 1 + 1)


@pytest.mark.virtual_time
async def test_an_open_costs_three_requests_and_the_first_one_by_name_eight(
    versitygw: S3Server, proxy: FaultProxy
) -> None:
    async with world_on_s3(versitygw, proxy) as world:
        first = await (await world.create()).collection()
        await first.append(rows(("a", 1)))
        opener = world.open()
        assert await cost(proxy, opener.collection()) == (8, 0)

        async def open_by_id() -> None:
            assert opener.place.consensus.open(first.id) is not None

        assert await cost(proxy, open_by_id()) == (3, 0)


@pytest.mark.virtual_time
async def test_a_snapshot_costs_two_requests_and_one_for_each_small_part(
    versitygw: S3Server, proxy: FaultProxy
) -> None:
    async with world_on_s3(versitygw, proxy) as world:
        gusts = await (await world.create()).collection()
        await gusts.append(rows(("a", 1)))
        assert await cost(proxy, shown(gusts)) == (2, 0)
        for start in range(3):
            await gusts.append(many_rows(1_000, 1_000 * start))
        assert await cost(proxy, shown(gusts)) == (5, 0)


@pytest.mark.virtual_time
async def test_a_poll_costs_one_request_and_three_where_it_finds_news(
    versitygw: S3Server, proxy: FaultProxy
) -> None:
    async with world_on_s3(versitygw, proxy) as world:
        other = await (await world.create()).collection()
        listener = await (await world.open().collection()).listen(lease=False)
        waits = asyncio.ensure_future(anext(listener))
        await world.sleep(70)
        assert {await cost(proxy, world.sleep(10.2)) for _ in range(2)} == {(1, 0)}
        await other.append(rows(("a", 1)))
        assert await cost(proxy, asyncio.wait([waits])) == (3, 0)


@pytest.mark.virtual_time
async def test_an_hour_of_an_idle_listener_costs_372_requests_and_of_a_rest_none(
    versitygw: S3Server, proxy: FaultProxy
) -> None:
    async with world_on_s3(versitygw, proxy) as world:
        await (await (await world.create()).collection()).append(rows(("a", 1)))
        assert await cost(proxy, world.sleep(3_600)) == (0, 0)
        listener = await (await world.open().collection()).listen()
        waits = asyncio.ensure_future(anext(listener))
        await world.sleep(100)
        requests, writes = await cost(proxy, world.sleep(3_600))
        assert (371 <= requests <= 373, writes) == (True, 12)
        waits.cancel()


@pytest.mark.usefixtures("s3_plugin")
async def test_a_process_that_opens_the_collections_of_a_store_and_appends_makes_15_requests(
    versitygw: S3Server, proxy: FaultProxy, tmp_path: Path
) -> None:
    bucket, _ = new_bucket(versitygw)
    options = options_of(versitygw, bucket, endpoint=proxy.endpoint)
    file = siltstone.init(tmp_path, binding="s3", options=options)
    async with await open_async_collections(file) as collections:
        await collections.create(NAME, SCHEMA, key=["k"])

    async def life() -> None:
        async with await open_async_collections(file) as opened:
            found = ["GET", "HEAD", "GET", "GET"]  # a look, the store's own record, a second look
            assert [request.method for request in proxy.requests] == [*found, "GET"]
            await (await opened.collection(NAME)).append(rows(("a", 1)))

    assert await cost(proxy, life()) == (4 + 9 + 2, 1)


def test_the_first_change_of_a_process_in_a_bucket_is_preceded_by_three_requests_that_prove_it(
    versitygw: S3Server, proxy: FaultProxy
) -> None:
    bucket, _ = new_bucket(versitygw)
    storage = S3ChunkStorage(settings_of(versitygw, bucket, endpoint=proxy.endpoint))
    storage.create("a", [b"abc"])
    assert [request.method for request in proxy.requests] == ["PUT", "PUT", "DELETE", "PUT"]
    storage.close()
