"""Tickets: rows that processes upload without a collection, and that one append takes."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pyarrow
import pytest

import siltstone
from siltstone.collections import upload_ticket
from siltstone.collections.async_writer import CollectionBatchRows
from siltstone.collections.upload_ticket import UploadTicket, rows_uploaded, upload_rows
from siltstone.core.errors import (
    BatchExpiredError,
    ChunkUnavailableError,
    CollectionSchemaError,
    StoreError,
)
from siltstone.testing.faults.faulty_chunk_storage import Fate, FaultyChunkStorage, StorageCall
from siltstone.testing.virtual_time import VirtualEnvironment
from tests.support.collections.collections_world import (
    SCHEMA,
    CollectionsWorld,
    many_rows,
    pairs_of,
    shown,
)

pytestmark = pytest.mark.virtual_time

HOUR_S = 3_600.0


def uploaded(
    world: CollectionsWorld, ticket: UploadTicket, *tables: pyarrow.Table, seed: int = 100
) -> CollectionBatchRows:
    """What a process brings that has nothing but the ticket and a client of long-term storage."""
    environment = VirtualEnvironment(seed, clock=world.clock)
    arrived = pickle.loads(pickle.dumps(ticket))
    made = rows_uploaded(world.new_storage(), arrived, tables, environment)
    again: CollectionBatchRows = pickle.loads(pickle.dumps(made))
    return again


async def test_one_append_takes_what_many_processes_uploaded() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        ticket = await gusts.tickets.lend()
        batches = [uploaded(world, ticket, many_rows(10, 10 * n), seed=n) for n in range(4)]
        assert await shown(gusts) == []
        other = await world.open().collection()
        done = await other.append_batches(batches)
        assert await shown(gusts, done.time) == pairs_of(many_rows(40))
        assert len(world.names("/parts/")) == 4


async def test_an_upload_counts_once_and_what_no_append_took_is_swept() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        ticket = await gusts.tickets.lend()
        lost = uploaded(world, ticket, many_rows(10), seed=1)
        kept = uploaded(world, ticket, many_rows(10), seed=2)
        assert await gusts.sweep() == 0, "both may still be appended"
        await gusts.append_batches([kept])
        for batch in (lost, kept):
            with pytest.raises(BatchExpiredError):
                await gusts.append_batches([batch])
        assert await gusts.sweep() == 1
        assert await shown(gusts) == pairs_of(many_rows(10))


async def test_a_named_writer_takes_an_upload_exactly_once() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        for repeated in (False, True):
            ticket = await gusts.tickets.lend()
            batch = uploaded(world, ticket, many_rows(10))
            done = await gusts.writer("job").append_batches([batch], sequence=7)
            assert done.repeated is repeated
            await gusts.tickets.end(ticket)
        assert await shown(gusts) == pairs_of(many_rows(10))
        assert await gusts.sweep() == 1


async def test_a_ticket_lives_for_a_day_without_the_process_that_made_it() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        maker = world.open()
        ticket = await (await maker.collection()).tickets.lend()
        forgotten = await (await maker.collection()).tickets.lend()
        batch = uploaded(world, ticket, many_rows(10))
        late = uploaded(world, forgotten, many_rows(10))
        maker.die()
        await world.sleep(23 * HOUR_S)
        await gusts.append([])
        assert await gusts.sweep() == 0
        await gusts.append_batches([batch])
        await world.sleep(2 * HOUR_S)
        await gusts.append([])
        with pytest.raises(BatchExpiredError):
            await gusts.append_batches([late])
        await gusts.sweep()
        assert len(world.names("/parts/")) == 1
        assert await shown(gusts) == pairs_of(many_rows(10))


async def test_the_process_that_made_a_ticket_lets_it_end_too() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        uploaded(world, await gusts.tickets.lend(), many_rows(10))
        await world.sleep(25 * HOUR_S)
        await gusts.append([])
        await gusts.sweep()
        assert world.names("/parts/") == []


async def test_what_was_uploaded_by_a_ticket_that_ended_is_swept() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        ticket = await gusts.tickets.lend()
        batch = uploaded(world, ticket, many_rows(10))
        other = await world.open().collection()
        for _ in range(2):
            await other.tickets.end(ticket)
        with pytest.raises(BatchExpiredError):
            await gusts.append_batches([batch])
        assert await gusts.sweep() == 1
        assert not (await gusts.info()).writers


async def test_updates_take_rows_away() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        await gusts.append(many_rows(100))
        counts = pyarrow.array([-1] * 60 + [1] * 20, pyarrow.int64())
        table = pyarrow.concat_tables([many_rows(60), many_rows(20, 200)])
        ticket = await gusts.tickets.lend()
        batch = uploaded(world, ticket, table.append_column("_diff", counts))
        await gusts.append_batches([batch])
        assert await shown(gusts) == pairs_of(
            pyarrow.concat_tables([many_rows(40, 60), many_rows(20, 200)])
        )


async def test_rows_beyond_what_is_sorted_at_once_become_several_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(upload_ticket, "RUN_BYTES", 1_000)
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        ticket = await gusts.tickets.lend()
        tables = [many_rows(30, first).sort_by([("k", "descending")]) for first in (200, 0, 100, 0)]
        batch = uploaded(world, ticket, *tables)
        assert len(batch.runs) == 2
        await gusts.append_batches([batch])
        wanted = sorted([pair for table in tables for pair in pairs_of(table)])
        assert await shown(gusts) == wanted
        await gusts.append([], remove=many_rows(30))
        assert len(await shown(gusts)) == 90


async def test_rows_beyond_an_object_become_several_in_the_order_of_keys() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        ticket = replace(await gusts.tickets.lend(), part_bytes=20_000)
        batch = uploaded(world, ticket, many_rows(5_000).sort_by([("k", "descending")]))
        (run,) = batch.runs
        assert len(run) > 2
        bounds = [bound for part in run for bound in (part.key_min, part.key_max)]
        assert bounds == sorted(bounds)
        await gusts.append_batches([batch])
        await gusts.append([], remove=many_rows(4_000))
        assert await shown(gusts) == pairs_of(many_rows(1_000, 4_000))


async def test_nothing_is_uploaded_for_no_rows() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        ticket = await gusts.tickets.lend()
        batches = [uploaded(world, ticket), uploaded(world, ticket, many_rows(0))]
        assert [batch.runs for batch in batches] == [(), ()]
        await gusts.append_batches(batches)
        assert world.names("/parts/") == []


async def test_rows_of_another_form_are_refused() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        ticket = await gusts.tickets.lend()
        nulls = pyarrow.table({"k": pyarrow.array([None], pyarrow.string())})
        with pytest.raises(CollectionSchemaError, match=r"nulls.*'k'"):
            uploaded(world, ticket, nulls)
        with pytest.raises(CollectionSchemaError, match=r"no such column.*'w'"):
            uploaded(world, ticket, many_rows(1).append_column("w", pyarrow.array([1])))
        assert world.names("/parts/") == []


async def test_a_ticket_keeps_its_schema_while_the_collection_gets_another() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        ticket = await gusts.tickets.lend()
        await gusts.evolve(pyarrow.schema([*SCHEMA, ("w", pyarrow.int64())]))
        await gusts.append_batches([uploaded(world, ticket, many_rows(10))])
        table = await (await gusts.snapshot()).to_arrow()
        assert (table.num_rows, table["w"].null_count) == (10, 10)


async def test_a_create_in_doubt_is_made_again_under_another_name() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        ticket = await gusts.tickets.lend()
        doubts = iter([Fate.LOST_REPLY, Fate.LOST_CALL])

        def doubtful(call: StorageCall) -> Fate:
            return next(doubts, Fate.DONE) if call.operation == "create" else Fate.DONE

        storage = FaultyChunkStorage(world.new_storage(), doubtful)
        environment = VirtualEnvironment(7, clock=world.clock)
        batch = rows_uploaded(storage, ticket, [many_rows(10)], environment)
        assert len(world.names("/parts/")) == 2
        await gusts.append_batches([batch])
        assert await shown(gusts) == pairs_of(many_rows(10))
        assert await gusts.sweep() == 1
        storage.plan = lambda call: Fate.LOST_CALL
        with pytest.raises(ChunkUnavailableError):
            rows_uploaded(storage, ticket, [many_rows(10)], environment)


def test_a_ticket_leads_to_its_store_by_a_path_and_to_no_other(tmp_path: Path) -> None:
    siltstone.init(tmp_path, containers=1)
    with siltstone.open_collections(tmp_path) as collections:
        gusts = collections.create("gusts", SCHEMA, key=["k"])
        ticket = gusts.upload_ticket()
        batch = upload_rows(tmp_path, ticket, [many_rows(10)])
        with pytest.raises(StoreError, match="another store"):
            upload_rows(tmp_path, replace(ticket, store_id=bytes(16)), [many_rows(10)])
        gusts.append_batches([batch])
        gusts.end_ticket(ticket)
        assert pairs_of(gusts.snapshot().to_arrow()) == pairs_of(many_rows(10))
