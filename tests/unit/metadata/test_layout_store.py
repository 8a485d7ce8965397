"""The table-backed layout store: one atomic, small update for each change."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from siltstone.core.constants import MIB
from siltstone.core.errors import SegmentNotFoundError
from siltstone.core.layout_store import LayoutChange, LayoutStore
from siltstone.core.records.keys import CounterKind
from siltstone.core.records.layout import Layout
from siltstone.core.records.segment_state import SegmentState
from siltstone.core.records.task import TaskKind
from siltstone.core.records.writer_row import WriterRow
from siltstone.metadata import changes
from siltstone.metadata.layout_store import CHUNK_IDS_RESERVED, TableLayoutStore
from siltstone.metadata.tables import Tables
from tests.support.metadata.layout_house import (
    DELAY_S,
    SEGMENT,
    START,
    Clock,
    House,
    chunk_name,
    run,
)


@pytest.fixture
def house(tables: Tables) -> House:
    return House(tables)


def test_it_is_a_layout_store(house: House) -> None:
    store: LayoutStore = house.store
    assert store.epoch == 7
    assert store.state(SEGMENT) == house.state
    assert store.layout(SEGMENT) == Layout(segment_id=SEGMENT)
    assert store.floor(SEGMENT, 9) is None
    assert store.chunk(1) is None
    assert store.extents(SEGMENT, 0, 9, 9) == []
    assert store.sums(1, 0) == ()


def test_a_flush_is_one_update(house: House) -> None:
    change = house.flush(Layout(segment_id=SEGMENT), 3 * MIB, chunk_id=9)
    assert run(house.store.commit(change))
    assert len(house.log.updates) == 1
    assert house.store.layout(SEGMENT) == change.after
    assert house.store.floor(SEGMENT, 5) == change.extents_put[0]
    assert house.store.extents(SEGMENT, 0, 99, 9) == list(change.extents_put)
    assert house.store.chunk(9) == change.chunks_put[0]
    assert house.store.sums(9, 0) == change.sums[0].sums
    assert change.after is not None
    second = house.flush(change.after, MIB, new=False)
    assert run(house.store.commit(second))
    assert house.store.chunk(9) == second.chunks_put[0]
    assert house.store.sums(9, 0) == change.sums[0].sums + second.sums[0].sums


@pytest.mark.parametrize("blocks", [1, 32, 255])
def test_a_flush_fits_its_budget(house: House, blocks: int) -> None:
    layout = Layout(segment_id=SEGMENT, storage_start=START, storage_length=START)
    house.put(changes.put_layout(layout))
    chunk_id = 2**36
    first = house.flush(layout, 256 * 1024, chunk_id=chunk_id)
    assert run(house.store.commit(first))
    assert first.after is not None
    second = house.flush(first.after, blocks * 256 * 1024, new=False)
    assert len(second.sums[0].sums) == blocks
    assert run(house.store.commit(second))
    new_chunk, append = (len(update.record) for update in house.log.updates)
    assert new_chunk <= 300 + 4, "a flush into a new chunk"
    assert append <= 200 + 4 * blocks, "a flush that extends a chunk"


def test_a_deleted_segment_takes_no_change(house: House) -> None:
    change = house.flush(Layout(segment_id=SEGMENT), 10, chunk_id=9)
    house.put(changes.put_state(replace(house.state, deleted=True)))
    assert not run(house.store.commit(change))
    house.put(changes.remove_state(SEGMENT))
    assert not run(house.store.commit(change))
    assert house.log.updates == []
    assert run(house.store.commit(replace(change, live=False)))


def test_a_deletion_that_is_only_assigned_counts(house: House) -> None:
    change = house.flush(Layout(segment_id=SEGMENT), 10, chunk_id=9)
    house.tables.assign([changes.put_state(replace(house.state, deleted=True))])
    assert not run(house.store.commit(change))


@pytest.mark.parametrize("after", [{"start_offset": 1}, {"deleted": True}])
def test_a_change_may_rest_on_the_state_of_another_segment(
    house: House, after: dict[str, Any]
) -> None:
    other = SegmentState(segment_id=7, name="other")
    house.put(changes.put_state(other))
    change = replace(house.flush(Layout(segment_id=SEGMENT), 10, chunk_id=1), states=(other,))
    assigned = house.tables.assign([changes.put_state(replace(other, **after))])
    assert not run(house.store.commit(change))
    assert not run(house.store.commit(replace(change, live=False)))
    house.tables.acknowledge([assigned], 0)
    house.put(changes.put_state(other))
    assert run(house.store.commit(change))


async def test_commit_reads_and_assigns_in_one_step(house: House) -> None:
    house.log.hold = asyncio.Event()
    change = house.flush(Layout(segment_id=SEGMENT), 10, chunk_id=9)
    commit = asyncio.ensure_future(house.store.commit(change))
    await asyncio.sleep(0)
    assert house.rows.pending_layout(SEGMENT) == change.after
    assert house.store.layout(SEGMENT) == change.before
    assert not commit.done()
    house.log.hold.set()
    assert await commit
    assert house.store.layout(SEGMENT) == change.after


def test_a_plan_on_another_layout_is_a_defect(house: House) -> None:
    change = house.flush(Layout(segment_id=SEGMENT), 10, chunk_id=9)
    run(house.store.commit(change))
    with pytest.raises(AssertionError, match="layout changed"):
        run(house.store.commit(change))


def test_a_plan_that_missed_an_assigned_change_is_a_defect(house: House) -> None:
    house.tables.assign([changes.put_layout(Layout(segment_id=SEGMENT, storage_length=5))])
    with pytest.raises(AssertionError, match="layout changed"):
        run(house.store.commit(house.flush(Layout(segment_id=SEGMENT), 10, chunk_id=9)))


def test_a_dropped_chunk_leaves_its_row_and_a_task(house: House) -> None:
    change = house.flush(Layout(segment_id=SEGMENT), 10, chunk_id=9)
    run(house.store.commit(change))
    assert change.after is not None
    dropping = LayoutChange(
        segment_id=SEGMENT,
        before=change.after,
        after=replace(change.after, storage_start=10, last_chunk_id=0),
        extents_removed=change.extents_put,
        chunks_dropped=change.chunks_put,
    )
    run(house.store.commit(dropping))
    assert house.store.floor(SEGMENT, 99) is None
    assert house.store.chunk(9) == replace(change.chunks_put[0], references=0)
    due_ms = 1_700_000_000_000 + 900_000
    assert house.rows.tasks(due_ms - 1) == []
    (task,) = house.rows.tasks(due_ms)
    assert (task.kind, task.subject, task.name) == (TaskKind.DELETE_CHUNK, 9, chunk_name(9))
    assert task.dropped_version == house.tables.applied_version


def test_writers_go_along_unless_they_were_evicted(house: House) -> None:
    known = WriterRow(segment_id=SEGMENT, number=1, name="a", sequence=5)
    later = replace(known, sequence=8, offset=70, length=3)
    gone = WriterRow(segment_id=SEGMENT, number=2, name="b", sequence=5)
    house.put(*changes.put_writer(known))
    change = house.flush(Layout(segment_id=SEGMENT), 10, chunk_id=9)
    run(house.store.commit(replace(change, writers=(later, gone))))
    assert house.rows.writers(SEGMENT) == [later]
    assert change.after is not None
    second = house.flush(change.after, 10, new=False)
    run(house.store.commit(replace(second, writers=(known,))))
    assert house.rows.writers(SEGMENT) == [later]
    assert second.after is not None
    third = house.flush(second.after, 10, new=False)
    used = replace(later, used_ms=9)
    run(house.store.commit(replace(third, writers=(used,))))
    assert house.rows.writers(SEGMENT) == [used]


def test_removal_takes_layouts_and_what_the_caller_adds(house: House) -> None:
    change = house.flush(Layout(segment_id=SEGMENT), 10, chunk_id=9)
    run(house.store.commit(change))
    house.put(changes.put_layout(Layout(segment_id=55, storage_length=3)))
    assert change.after is not None
    removal = LayoutChange(
        segment_id=SEGMENT,
        before=change.after,
        after=None,
        extents_removed=change.extents_put,
        live=False,
        layouts_removed=(55,),
        extra=(changes.remove_state(SEGMENT),),
    )
    run(house.store.commit(removal))
    assert house.store.layout(SEGMENT) == Layout(segment_id=SEGMENT)
    assert house.store.layout(55) == Layout(segment_id=55)
    assert house.store.state(SEGMENT) is None


def test_chunk_ids_are_reserved_in_ranges(house: House) -> None:
    async def take() -> list[int]:
        work = [house.store.new_chunk(SEGMENT, 70) for _ in range(CHUNK_IDS_RESERVED + 1)]
        return [chunk.chunk_id for chunk in await asyncio.gather(*work)]

    ids = run(take())
    assert sorted(ids) == list(range(1, CHUNK_IDS_RESERVED + 2))
    assert len(house.log.updates) == 2
    assert house.rows.counter(CounterKind.CHUNK_ID) == 2 * CHUNK_IDS_RESERVED + 1
    again = TableLayoutStore(house.rows, house.log, 3, Clock(), DELAY_S)
    chunk = run(again.new_chunk(SEGMENT, 70))
    assert chunk.chunk_id == 2 * CHUNK_IDS_RESERVED + 1
    assert chunk.name == (
        f"data/c3/e{7:020d}/flights/2013/january/ny/{70:020d}-{chunk.chunk_id:016x}.chunk"
    )


async def test_a_range_is_used_only_when_it_is_acknowledged(house: House) -> None:
    house.log.hold = asyncio.Event()
    first = asyncio.ensure_future(house.store.new_chunk(SEGMENT, 0))
    second = asyncio.ensure_future(house.store.new_chunk(SEGMENT, 0))
    await asyncio.sleep(0.01)
    assert not first.done()
    assert not second.done()
    assert len(house.log.updates) == 1
    first.cancel()
    await asyncio.sleep(0.01)
    house.log.hold.set()
    assert (await second).chunk_id == CHUNK_IDS_RESERVED + 1


async def test_one_range_serves_all_that_wait_for_it(house: House) -> None:
    house.log.hold = asyncio.Event()
    waiting = asyncio.gather(*[house.store.new_chunk(SEGMENT, 0) for _ in range(3)])
    await asyncio.sleep(0.01)
    house.log.hold.set()
    assert [chunk.chunk_id for chunk in await waiting] == [1, 2, 3]
    assert len(house.log.updates) == 1


def test_a_segment_that_is_gone_gets_no_chunk(house: House) -> None:
    with pytest.raises(SegmentNotFoundError) as caught:
        run(house.store.new_chunk(SEGMENT + 1, 0))
    assert str(caught.value) == f"segment was removed segment=id {SEGMENT + 1}"


def test_a_shared_chunk_has_an_id_of_the_same_range(house: House) -> None:
    own = run(house.store.new_chunk(SEGMENT, 0))
    shared = run(house.store.new_shared_chunk(12))
    assert shared.chunk_id == own.chunk_id + 1
    name = f"data/c3/e{7:020d}/_shared/{12:020d}-{shared.chunk_id:016x}.chunk"
    assert shared.name == name
    assert len(house.log.updates) == 1
