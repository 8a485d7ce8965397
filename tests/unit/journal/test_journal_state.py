"""Which epoch and which files a boot reads, and what it refuses."""

from __future__ import annotations

import asyncio

import pytest

from siltstone.core.chunk_names import claim_file, journal_file, system_prefix
from siltstone.core.errors import ChunkNotFoundError, CorruptDataError, FormatError
from siltstone.core.records.envelope import RecordKind, seal
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.journal.journal_state import STARTS_MAX, list_epochs, read_journal
from tests.support.journal.journal_world import (
    CONTAINER,
    Bucket,
    Client,
    Owner,
    Stage,
    check_journal_state,
    make_owner,
    read_journal_of,
)


def file(epoch: int, number: int) -> str:
    return journal_file(CONTAINER, epoch, number)


async def lived(bucket: Bucket, *, epoch: int = 1, flushes: int = 2) -> Owner:
    owner = make_owner(
        Client(bucket), epoch=epoch, journal_state=await read_journal_of(bucket, epoch)
    )
    await owner.begin()
    for _ in range(flushes):
        await owner.flush(10)
    return owner


async def highest(bucket: Bucket) -> int:
    return await list_epochs(AsyncChunkStorage(Client(bucket), Stage()), CONTAINER)


async def test_a_new_container_has_no_journal() -> None:
    assert await read_journal_of(Bucket()) is None
    assert await highest(Bucket()) == 0


async def test_any_system_file_counts_for_the_highest_epoch_and_foreign_names_do_not() -> None:
    bucket = Bucket()
    bucket.chunks[claim_file(CONTAINER, 7)] = bytearray(b"x")
    bucket.chunks[claim_file(CONTAINER + 1, 9)] = bytearray(b"x")
    bucket.chunks[f"{system_prefix(CONTAINER)}exyz/readme"] = bytearray(b"x")
    bucket.chunks[f"{system_prefix(CONTAINER)}e12/journal-00000000000000000001"] = bytearray(b"x")
    assert await highest(bucket) == 7
    assert await read_journal_of(bucket, 20) is None


@pytest.mark.parametrize("page", [1, 2, 3, 1_000])
async def test_the_newest_epoch_below_mine_is_read(page: int) -> None:
    bucket = Bucket()
    first = await lived(bucket)
    second = await lived(bucket, epoch=5)
    check_journal_state(second, await read_journal_of(bucket, 6, page=page))
    check_journal_state(first, await read_journal_of(bucket, 5, page=page))
    assert await read_journal_of(bucket, 1, page=page) is None


async def test_batches_before_the_newest_checkpoint_are_not_read() -> None:
    bucket = Bucket()
    owner = await lived(bucket)
    await owner.write_checkpoint()
    await owner.flush(10)
    bucket.chunks[file(1, 3)][:] = b"damage"
    journal_state = await read_journal_of(bucket)
    check_journal_state(owner, journal_state)
    assert journal_state
    assert (journal_state.batches, journal_state.next_sequence) == (1, 3)
    assert journal_state.checkpoint_file == file(1, 4)
    assert journal_state.warnings == ()


@pytest.mark.parametrize("length", [0, 1, 3, 5, 11, 12, 60])
async def test_an_epoch_whose_first_checkpoint_is_cut_never_opened(length: int) -> None:
    bucket = Bucket()
    owner = await lived(bucket)
    bucket.chunks[file(2, 1)] = bucket.chunks[file(1, 1)][:length]
    journal_state = await read_journal_of(bucket, 3)
    check_journal_state(owner, journal_state)
    assert journal_state
    assert journal_state.highest_epoch == 2
    assert "never opened" in journal_state.warnings[0]


@pytest.mark.parametrize("lost", [slice(0, 512), slice(512, 1024), slice(1024, None), slice(None)])
async def test_an_epoch_whose_first_checkpoint_lacks_a_block_never_opened(lost: slice) -> None:
    """As after a power cut that kept the length of the file but not all of its bytes."""
    bucket = Bucket()
    owner = await lived(bucket)
    data = bytearray(seal(RecordKind.CHECKPOINT, 1, b"many rows " * 130))
    data[lost] = bytes(len(data[lost]))
    bucket.chunks[file(2, 1)] = data
    journal_state = await read_journal_of(bucket, 3)
    check_journal_state(owner, journal_state)
    assert journal_state
    assert journal_state.highest_epoch == 2
    assert "never opened" in journal_state.warnings[0]


async def test_a_failed_first_boot_leaves_nothing_to_recover() -> None:
    bucket = Bucket()
    await lived(bucket)
    first = bucket.chunks[file(1, 1)][:20]
    bucket.chunks = {file(1, 1): first}
    assert await read_journal_of(bucket) is None
    assert await highest(bucket) == 1


@pytest.mark.parametrize("cut", [True, False])
async def test_an_opened_epoch_without_a_whole_checkpoint_is_corrupt(cut: bool) -> None:
    bucket = Bucket()
    await lived(bucket)
    await lived(bucket, epoch=2, flushes=int(cut))
    for number in (1, 2):
        if cut:
            del bucket.chunks[file(2, number)][-1:]
        else:
            bucket.chunks[file(2, number)][-1] ^= 1
    with pytest.raises(CorruptDataError, match="no whole checkpoint") as caught:
        await read_journal_of(bucket, 3)
    assert caught.value.where.startswith(file(2, 1)[:-1])
    assert str(caught.value).endswith(" epoch=2")


async def test_a_missing_file_between_is_corrupt() -> None:
    bucket = Bucket()
    owner = make_owner(Client(bucket, append=False))
    await owner.begin()
    for _ in range(3):
        await owner.flush(10)
    del bucket.chunks[file(1, 4)]
    stage = Stage()
    with pytest.raises(CorruptDataError, match="lacks sequence 1"):
        await read_journal_of(bucket, stage=stage)
    assert len(stage.slept) == 1


async def test_a_sequence_with_two_contents_is_corrupt() -> None:
    bucket = Bucket()
    owner = await lived(bucket, flushes=1)
    other = make_owner(Client(Bucket()))
    await other.begin()
    await other.flush(11)
    bucket.chunks[file(1, 4)] = other.client.bucket.chunks[file(1, 3)]
    assert owner.acknowledged == 1
    with pytest.raises(CorruptDataError, match="two contents"):
        await read_journal_of(bucket)


async def test_files_of_another_epoch_in_a_folder_are_corrupt() -> None:
    bucket = Bucket()
    await lived(bucket)
    bucket.chunks[file(2, 1)] = bucket.chunks[file(1, 1)]
    with pytest.raises(CorruptDataError, match="another epoch"):
        await read_journal_of(bucket, 3)


async def test_a_whole_record_of_an_unknown_kind_is_a_format_error() -> None:
    bucket = Bucket()
    await lived(bucket)
    bucket.chunks[file(1, 9)] = bytearray(seal(RecordKind.PIN, 1, b"body"))
    with pytest.raises(FormatError):
        await read_journal_of(bucket)


async def test_a_file_that_is_gone_again_and_again_ends_the_reading() -> None:
    class Vanishing(Client):
        def read_into(self, name: str, offset: int, buffer: memoryview | bytearray) -> int:
            raise ChunkNotFoundError("gone", chunk=name, operation="read_into")

    bucket = Bucket()
    await lived(bucket)
    stage = Stage()
    storage = AsyncChunkStorage(Vanishing(bucket), stage)
    with pytest.raises(ChunkNotFoundError):
        await read_journal(storage, stage, CONTAINER, 2)
    assert len(stage.slept) == STARTS_MAX - 1


async def test_a_file_is_read_up_to_the_length_that_the_listing_showed() -> None:
    bucket = Bucket()
    owner = await lived(bucket)
    stage = Stage()
    stage.pause_at = 1
    reading = asyncio.create_task(read_journal_of(bucket, stage=stage))
    await stage.paused.wait()
    await owner.flush(10)
    stage.resume.set()
    journal_state = await reading
    assert journal_state
    assert journal_state.next_sequence == 2
    assert journal_state.warnings == ()


async def test_a_torn_batch_before_a_damaged_checkpoint_is_corrupt() -> None:
    bucket = Bucket()
    owner = await lived(bucket)
    await owner.write_checkpoint()
    bucket.chunks[file(1, 4)][30] ^= 1
    journal_state = await read_journal_of(bucket)
    check_journal_state(owner, journal_state)
    assert journal_state
    assert file(1, 4) in journal_state.warnings[0]
    del bucket.chunks[file(1, 3)][-1]
    with pytest.raises(CorruptDataError, match="not repeated"):
        await read_journal_of(bucket)


async def test_an_epoch_that_no_owner_can_have_is_named() -> None:
    bucket = Bucket()
    bucket.chunks[claim_file(CONTAINER, 2**63 - 2)] = bytearray(b"x")
    assert await highest(bucket) == 2**63 - 2
    for epoch in (2**63 - 1, 10**20 - 1):
        bucket.chunks[claim_file(CONTAINER, epoch)] = bytearray(b"x")
        with pytest.raises(CorruptDataError, match="no owner made this") as caught:
            await highest(bucket)
        assert caught.value.where == claim_file(CONTAINER, epoch)
        del bucket.chunks[claim_file(CONTAINER, epoch)]
