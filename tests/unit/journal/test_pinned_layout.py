"""The pinned layout store: a ``LayoutStore`` that shows only durable changes."""

from __future__ import annotations

import asyncio

import pytest

from siltstone.core.chunk_names import system_chunk
from siltstone.core.constants import TABLE_LOG_ID, TABLE_LOG_NAME
from siltstone.core.errors import LogError
from siltstone.core.layout_store import LayoutChange, LayoutStore
from siltstone.core.records.layout import Layout
from siltstone.journal.journal import ATTEMPTS_MAX
from siltstone.journal.pinned_layout import EPOCH_MAX, PinnedLayoutStore
from siltstone.journal.pinned_state import empty_layout
from tests.support.journal.journal_world import (
    CONTAINER,
    Bucket,
    Client,
    Fate,
    Owner,
    Stage,
    flush_change,
    make_owner,
    read_journal_of,
)


async def opened(*, epoch: int = 1, flushes: int = 0) -> Owner:
    owner = make_owner(Client(Bucket(), append=False), epoch=epoch)
    await owner.begin()
    for _ in range(flushes):
        await owner.flush(100)
    return owner


async def test_a_new_store_is_empty_and_live() -> None:
    store: LayoutStore = (await opened()).store
    assert store.layout(TABLE_LOG_ID) == Layout(segment_id=TABLE_LOG_ID)
    assert store.floor(TABLE_LOG_ID, 5) is None
    assert store.extents(TABLE_LOG_ID, 0, 10, 5) == []
    assert store.chunk(1) is None
    assert store.sums(1, 0) == ()
    state = store.state(TABLE_LOG_ID)
    assert state is not None
    assert (state.name, state.sealed_length, state.deleted) == (TABLE_LOG_NAME, None, False)


async def test_the_state_names_the_segment_and_begins_at_its_start() -> None:
    store = (await opened()).store
    for segment_id in (TABLE_LOG_ID, TABLE_LOG_ID + 5):
        state = store.state(segment_id)
        assert (state.segment_id, state.start_offset) == (segment_id, 0)


async def test_the_start_may_be_all_that_is_flushed() -> None:
    store = (await opened(flushes=2)).store
    store.set_start(0, 0)
    assert store.state(0).start_offset == 0
    store.set_start(0, 200)
    assert store.state(0).start_offset == 200


async def test_chunk_ids_hold_the_epoch_and_names_hold_the_id() -> None:
    store = (await opened(epoch=9)).store
    first, second = await store.new_chunk(0, 0), await store.new_chunk(0, 70)
    assert (first.chunk_id, second.chunk_id) == (9 << 32 | 1, 9 << 32 | 2)
    assert second.name == system_chunk(CONTAINER, 9, 70, second.chunk_id)
    assert store.uncommitted == {first.name, second.name}


@pytest.mark.parametrize("epoch", [0, EPOCH_MAX + 1])
def test_an_epoch_that_does_not_fit_into_chunk_ids_is_a_defect(epoch: int) -> None:
    with pytest.raises(AssertionError, match="an epoch has to fit"):
        make_owner(Client(Bucket()), epoch=epoch)


async def test_the_last_epoch_fits_and_the_last_chunk_of_one_too() -> None:
    store = (await opened(epoch=EPOCH_MAX)).store
    ids = [(await store.new_chunk(0, 0)).chunk_id for _ in range(100)]
    assert ids == [EPOCH_MAX << 32 | counter for counter in range(1, 101)]
    store._last_counter = 2**32 - 2
    assert (await store.new_chunk(0, 0)).chunk_id == 2**63 - 1
    with pytest.raises(AssertionError, match="used up its chunk ids"):
        await store.new_chunk(0, 0)


async def test_layouts_are_kept_in_the_order_of_their_segments() -> None:
    filled = (await opened(flushes=1)).store.snapshot()
    journal = (await opened()).journal
    given = (empty_layout(7), *filled, empty_layout(2))
    store = PinnedLayoutStore(journal, given, lambda _: (0, 0))
    assert store.snapshot() == (filled[0], empty_layout(2), empty_layout(7))


async def test_the_statement_is_asked_about_the_change_that_is_committed() -> None:
    owner = await opened()
    asked: list[LayoutChange] = []

    def statement(change: LayoutChange) -> tuple[int, int]:
        asked.append(change)
        return 31, 47

    store = PinnedLayoutStore(owner.journal, (), statement)
    change = await flush_change(store, owner.client, 100)
    assert await store.commit(change) is True
    assert asked == [change]
    journal_state = await read_journal_of(owner.client.bucket)
    assert journal_state is not None
    assert (journal_state.safe_index, journal_state.newest_index) == (31, 47)
    assert journal_state.layouts == store.snapshot()


async def test_extents_and_floor() -> None:
    store = (await opened(flushes=4)).store
    starts = [extent.start for extent in store.extents(0, 0, 400, 10)]
    assert starts == [0, 100, 200, 300]
    assert [extent.start for extent in store.extents(0, 100, 300, 10)] == [100, 200]
    assert [extent.start for extent in store.extents(0, 199, 201, 10)] == [100, 200]
    assert [extent.start for extent in store.extents(0, 50, 400, 2)] == [0, 100]
    assert store.extents(0, 400, 500, 10) == []
    assert store.extents(0, 100, 100, 10) == []
    floors = [store.floor(0, offset) for offset in (0, 99, 100, 1_000)]
    assert [extent and extent.start for extent in floors] == [0, 0, 100, 300]
    last = store.layout(0).last_chunk_id
    chunk = store.chunk(last)
    assert chunk is not None
    assert chunk.length == 100
    assert len(store.sums(last, 0)) == 1


async def test_a_committed_chunk_is_not_in_progress_any_more() -> None:
    owner = await opened(flushes=2)
    assert owner.store.uncommitted == frozenset()


async def test_a_failed_commit_changes_nothing_in_memory() -> None:
    owner = await opened(flushes=1)
    before = owner.store.snapshot()
    owner.client.fates = iter([Fate.TORN] * ATTEMPTS_MAX)
    with pytest.raises(LogError):
        await owner.flush(100)
    assert owner.store.snapshot() == before
    assert owner.store.layout(0).storage_length == 100
    assert len(owner.store.uncommitted) == 1


async def test_the_start_follows_what_was_asked_and_what_was_dropped() -> None:
    owner = await opened(flushes=4)
    store = owner.store
    store.set_start(0, 250)
    store.set_start(0, 40)
    assert store.state(0).start_offset == 250
    await owner.trim()
    assert store.state(0).start_offset == 300
    with pytest.raises(AssertionError, match="no dead bytes"):
        store.set_start(0, 401)


async def test_the_last_batch_states_the_layout_that_the_change_before_it_led_to() -> None:
    stage = Stage()
    owner = make_owner(Client(Bucket()), stage=stage)
    await owner.begin()
    stage.pause_at = stage.calls
    flush = asyncio.create_task(owner.flush(100))
    await stage.paused.wait()
    last = asyncio.create_task(owner.store.state_end())
    await asyncio.sleep(0)
    stage.resume.set()
    await asyncio.gather(flush, last)
    journal_state = await read_journal_of(owner.client.bucket)
    assert journal_state is not None
    assert journal_state.layouts == owner.store.snapshot()
    assert journal_state.next_sequence == 2
