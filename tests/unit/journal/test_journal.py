"""The writer of the journal: order, repetition, failure, cancelling, and what may be relied on."""

from __future__ import annotations

import asyncio

import pytest

from siltstone.bindings.memory.bucket import Bucket as MemoryBucket
from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.core.chunk_names import journal_file
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import LogError
from siltstone.core.records.checkpoint import Checkpoint
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.journal.journal import ATTEMPTS_MAX, Journal
from siltstone.journal.journal_state import read_journal
from siltstone.journal.pinned_layout import PinnedLayoutStore
from tests.support.journal.journal_world import (
    CONTAINER,
    LINEAGE,
    Bucket,
    Client,
    Fate,
    Owner,
    Stage,
    check_journal_state,
    flush_change,
    make_owner,
    read_journal_of,
)


def file(number: int) -> str:
    return journal_file(CONTAINER, 1, number)


async def opened(*, append: bool = True, stage: Stage | None = None) -> Owner:
    owner = make_owner(Client(Bucket(), append=append), stage=stage)
    await owner.begin()
    return owner


async def test_the_first_checkpoint_is_in_two_equal_files() -> None:
    owner = await opened()
    chunks = owner.client.bucket.chunks
    assert chunks[file(1)] == chunks[file(2)]
    assert owner.journal.files == (file(1), file(2))
    assert [durable.number for durable in owner.journal.checkpoints] == [1, 2]


async def test_batches_are_appended_where_that_is_possible() -> None:
    owner = await opened()
    for _ in range(3):
        await owner.flush(10)
    assert owner.client.mutations[2:] == [
        ("create", file(3)),
        ("write", file(3)),
        ("write", file(3)),
    ]


async def test_write_once_storage_gets_a_file_a_batch() -> None:
    owner = await opened(append=False)
    for _ in range(3):
        await owner.flush(10)
    assert owner.client.mutations[2:] == [("create", file(n)) for n in (3, 4, 5)]


async def test_a_file_takes_as_many_writes_as_the_service_allows() -> None:
    owner = make_owner(Client(Bucket(), appends_max=2))
    await owner.begin()
    for _ in range(3):
        await owner.flush(10)
    assert owner.journal.files[2:] == (file(3), file(4))


async def test_a_file_ends_at_its_size_limit() -> None:
    owner = make_owner(Client(Bucket()), file_bytes_max=1_000)
    await owner.begin()
    for _ in range(12):
        await owner.flush(10)
    sizes = [len(owner.client.bucket.chunks[name]) for name in owner.journal.files[2:]]
    assert len(sizes) > 2
    assert max(sizes) <= 1_000


async def test_no_batch_goes_to_a_file_older_than_a_checkpoint() -> None:
    owner = await opened()
    await owner.flush(10)
    await owner.write_checkpoint()
    await owner.flush(10)
    assert owner.client.mutations[2:] == [("create", file(n)) for n in (3, 4, 5)]


@pytest.mark.parametrize("fate", [fate for fate in Fate if fate is not Fate.DONE])
async def test_a_failed_write_is_repeated_with_the_same_bytes_in_the_next_file(fate: Fate) -> None:
    owner = await opened()
    await owner.flush(10)
    length = len(owner.client.bucket.chunks[file(3)])
    owner.client.fates = iter([fate])
    await owner.flush(20)
    await owner.flush(30)
    owner.client.bucket.deliver_late()
    chunks = owner.client.bucket.chunks
    first = bytes(chunks[file(3)][length:])
    assert bytes(chunks[file(4)]).startswith(first)
    assert owner.client.mutations[-3:] == [
        ("write", file(3)),
        ("create", file(4)),
        ("write", file(4)),
    ]
    assert owner.stage.slept == [pytest.approx(0.125)]
    assert check_journal_state(owner, await read_journal_of(owner.client.bucket)) == 3


async def test_a_failed_checkpoint_is_repeated_alone_in_the_next_file() -> None:
    owner = await opened()
    owner.client.fates = iter([Fate.LATE, Fate.TORN])
    await owner.write_checkpoint()
    owner.client.bucket.deliver_late()
    chunks = owner.client.bucket.chunks
    assert chunks[file(3)] == chunks[file(5)]
    assert owner.journal.checkpoints[-1].file_name == file(5)


async def test_after_its_attempts_the_journal_is_ended() -> None:
    owner = await opened()
    before = owner.store.snapshot()
    owner.client.fates = iter([Fate.LOST_REPLY] * ATTEMPTS_MAX)
    with pytest.raises(LogError, match="journal write failed") as caught:
        await owner.flush(10)
    assert owner.journal.failure is caught.value
    assert owner.store.snapshot() == before
    assert len(owner.client.mutations) == 2 + ATTEMPTS_MAX
    with pytest.raises(LogError, match="journal has failed"):
        await owner.flush(10)
    with pytest.raises(LogError, match="journal has failed"):
        await owner.write_checkpoint()
    assert len(owner.client.mutations) == 2 + ATTEMPTS_MAX


async def test_pauses_between_attempts_double() -> None:
    owner = await opened()
    owner.client.fates = iter([Fate.LOST_REPLY] * (ATTEMPTS_MAX - 1))
    await owner.flush(10)
    assert owner.stage.slept == pytest.approx([0.125, 0.25, 0.5, 1.0, 2.0])


async def test_an_older_pin_keeps_every_file() -> None:
    owner = await opened()
    await owner.flush(10)
    for _ in range(2):
        await owner.write_checkpoint()
    names = sorted(owner.client.bucket.chunks)
    needed = owner.journal.checkpoints[0].checkpoint.index_version
    assert needed == 10
    pins = (needed - 1, needed, None)
    kept = [
        owner.journal.deletable(names, owner.store.snapshot(), (), pinned_version=version) == []
        for version in pins
    ]
    assert kept == [True, False, False]


async def test_what_compose_raises_writes_nothing_and_ends_nothing() -> None:
    owner = await opened()
    old = await flush_change(owner.store, owner.client, 10)
    await owner.flush(20)
    with pytest.raises(ValueError, match="planned on"):
        await owner.store.commit(old)
    await owner.flush(30)
    assert owner.journal.next_sequence == 2
    assert owner.journal.failure is None


async def test_records_are_composed_one_after_the_other() -> None:
    owner = await opened(append=False)
    await asyncio.gather(owner.flush(10), owner.write_checkpoint(), owner.write_checkpoint())
    newest, older = owner.journal.checkpoints[::-1]
    assert newest.checkpoint.sequence == older.checkpoint.sequence == 1
    assert newest.checkpoint.system == older.checkpoint.system == owner.states[1]


@pytest.mark.parametrize("after", [True, False])
@pytest.mark.parametrize("cancels", [1, 3])
async def test_a_cancelled_write_is_carried_to_its_end(after: bool, cancels: int) -> None:
    stage = Stage()
    owner = await opened(stage=stage)
    stage.pause_at, stage.pause_after = stage.calls, after
    flush = asyncio.create_task(owner.flush(10))
    await stage.paused.wait()
    for _ in range(cancels):
        flush.cancel()
        await asyncio.sleep(0)
    assert not flush.done()
    stage.resume.set()
    with pytest.raises(asyncio.CancelledError):
        await flush
    assert owner.store.snapshot() == owner.states[1]
    await owner.flush(20)
    assert check_journal_state(owner, await read_journal_of(owner.client.bucket)) == 2


async def test_a_write_cancelled_before_its_turn_is_not_composed() -> None:
    stage = Stage()
    owner = await opened(stage=stage)
    stage.pause_at = stage.calls
    flush = asyncio.create_task(owner.flush(10))
    await stage.paused.wait()
    waiting = asyncio.create_task(owner.write_checkpoint())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    stage.resume.set()
    await flush
    assert len(owner.journal.files) == 3


async def test_a_checkpoint_counts_only_when_a_later_one_is_durable() -> None:
    owner = make_owner(Client(Bucket()))
    stated = [owner.journal.stated_safe_index]
    await owner.begin()
    stated.append(owner.journal.stated_safe_index)
    await owner.write_checkpoint()
    stated.append(owner.journal.stated_safe_index)
    await owner.flush(10)
    stated.append(owner.journal.stated_safe_index)
    await owner.write_checkpoint()
    stated.append(owner.journal.stated_safe_index)
    await owner.write_checkpoint()
    stated.append(owner.journal.stated_safe_index)
    # Stated indexes grow by 7 with each record, beginning at 2.
    assert stated == [0, 2, 2, 16, 16, 23]


async def test_a_batch_before_the_first_checkpoint_is_a_defect() -> None:
    owner = make_owner(Client(Bucket()))
    with pytest.raises(AssertionError, match="precedes"):
        await owner.store.commit(await flush_change(owner.store, owner.client, 10))


async def test_chunks_that_batches_after_the_older_checkpoint_name_are_kept() -> None:
    owner = await opened(append=False)
    await owner.flush(10)
    (passed,) = [chunk.name for chunk in owner.store.snapshot()[0].chunks]
    await owner.flush(10)
    await owner.trim()
    assert passed not in owner.collect()
    await owner.write_checkpoint()
    assert passed not in owner.collect()
    # Now both checkpoints come after the batches that named it.
    await owner.write_checkpoint()
    assert passed in owner.collect()
    check_journal_state(owner, await read_journal_of(owner.client.bucket))


async def test_real_threads_and_another_storage() -> None:
    environment = SystemEnvironment()
    bucket = MemoryBucket()
    storage = AsyncChunkStorage(MemoryChunkStorage(bucket), environment, threads=2)
    journal = Journal(storage, environment, CONTAINER, 4, LINEAGE, file_bytes_max=2_000)
    store = PinnedLayoutStore(journal, (), lambda _: (3, 9))

    def checkpoint(sequence: int) -> Checkpoint:
        return Checkpoint(
            lineage=LINEAGE,
            epoch=4,
            sequence=sequence,
            system=store.snapshot(),
            index_files=(),
            index_version=0,
            index_crc=0,
            replay_index=0,
            safe_index=0,
            newest_index=-1,
        )

    await journal.write_first_checkpoint(checkpoint)
    client = Client(Bucket(), append=False)
    for _ in range(20):
        await store.commit(await flush_change(store, client, 50))
    await asyncio.gather(*(journal.write_checkpoint(checkpoint) for _ in range(2)))
    for _ in range(20):
        await store.commit(await flush_change(store, client, 50))
    journal_state = await read_journal(storage, environment, CONTAINER, 5)
    assert journal_state
    assert journal_state.layouts == store.snapshot()
    assert (journal_state.batches, journal_state.safe_index, journal_state.newest_index) == (
        20,
        3,
        9,
    )
    await storage.close()
    environment.close()
