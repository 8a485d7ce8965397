"""Whole checkpoints in a wrong place, and the older ones that can be used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from siltstone.core.chunk_names import claim_file, index_file, journal_file, system_prefix
from siltstone.core.chunk_storage import ChunkStat
from siltstone.core.errors import ChunkUnavailableError, CorruptDataError
from siltstone.core.records.checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint
from siltstone.core.records.journal_batch import decode_journal_batch, encode_journal_batch
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.journal.journal_state import (
    JournalState,
    earlier_checkpoints,
    list_epochs,
    read_journal,
)
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

OTHER_LINEAGE = bytes(16)


def file(epoch: int, number: int) -> str:
    return journal_file(CONTAINER, epoch, number)


async def with_checkpoints(bucket: Bucket, *, epoch: int = 1, batches: int = 3) -> Owner:
    """Files 1 and 2 are the first checkpoint, 3 has batches, 4 is a checkpoint, 5 and 6 too."""
    owner = make_owner(
        Client(bucket), epoch=epoch, journal_state=await read_journal_of(bucket, epoch)
    )
    await owner.begin()
    for _ in range(2):
        for _ in range(batches):
            await owner.flush(10)
        await owner.write_checkpoint()
    return owner


async def found(bucket: Bucket, below_epoch: int = 2) -> JournalState:
    journal_state = await read_journal_of(bucket, below_epoch)
    assert journal_state is not None
    return journal_state


@pytest.mark.parametrize("batches", [1, 2, 3])
async def test_a_healthy_journal_is_read_from_its_newest_checkpoint(batches: int) -> None:
    bucket = Bucket()
    owner = await with_checkpoints(bucket, batches=batches)
    journal_state = await found(bucket)
    assert check_journal_state(owner, journal_state) == 2 * batches
    assert (journal_state.container, journal_state.epoch) == (CONTAINER, 1)
    assert journal_state.checkpoint_file == journal_state.newest_file == file(1, 6)
    assert (journal_state.passed_over, journal_state.warnings) == (False, ())
    await owner.flush(10)
    assert (await found(bucket)).newest_file == file(1, 7)


@pytest.mark.parametrize("batches", [1, 2, 3])
async def test_an_older_checkpoint_in_the_newest_place_is_passed_over(batches: int) -> None:
    bucket = Bucket()
    owner = await with_checkpoints(bucket, batches=batches)
    bucket.chunks[file(1, 6)] = bucket.chunks[file(1, 4)]
    journal_state = await found(bucket)
    assert check_journal_state(owner, journal_state) == 2 * batches
    assert (journal_state.checkpoint_file, journal_state.batches) == (file(1, 4), batches)
    assert journal_state.passed_over
    assert journal_state.warnings == (
        "passed over broken checkpoint: checkpoint is older than the file before it "
        f"where={file(1, 6)} sequence={batches}",
    )


async def test_an_older_checkpoint_after_a_checkpoint_is_passed_over() -> None:
    bucket = Bucket()
    owner = await with_checkpoints(bucket)
    await owner.write_checkpoint()
    bucket.chunks[file(1, 7)] = bucket.chunks[file(1, 4)]
    journal_state = await found(bucket)
    assert check_journal_state(owner, journal_state) == 6
    assert (journal_state.checkpoint_file, journal_state.passed_over) == (file(1, 6), True)


async def test_a_checkpoint_of_another_epoch_in_the_newest_place_is_passed_over() -> None:
    bucket = Bucket()
    await with_checkpoints(bucket)
    owner = await with_checkpoints(bucket, epoch=5)
    bucket.chunks[file(5, 6)] = bucket.chunks[file(1, 6)]
    journal_state = await found(bucket, 6)
    assert check_journal_state(owner, journal_state) == 6
    assert journal_state.warnings == (
        f"passed over broken checkpoint: checkpoint of another epoch where={file(5, 6)} epoch=1",
    )


async def test_a_checkpoint_of_another_lineage_in_the_newest_place_is_passed_over() -> None:
    bucket = Bucket()
    owner = await with_checkpoints(bucket)
    other = replace(whole(bucket, file(1, 6)), lineage=OTHER_LINEAGE)
    bucket.chunks[file(1, 6)] = bytearray(encode_checkpoint(other))
    journal_state = await found(bucket)
    assert check_journal_state(owner, journal_state) == 6
    assert journal_state.warnings == (
        "passed over broken checkpoint: checkpoint of another lineage than the file before it "
        f"where={file(1, 6)}",
    )


@pytest.mark.parametrize("lineage", [None, OTHER_LINEAGE])
async def test_a_misplaced_file_before_a_checkpoint_says_nothing_against_it(
    lineage: bytes | None,
) -> None:
    bucket = Bucket()
    owner = await with_checkpoints(bucket, batches=1)
    batch, _ = decode_journal_batch(bucket.chunks[file(1, 5)], 0, where="test")
    other = replace(batch, epoch=9, sequence=90, lineage=lineage or batch.lineage)
    bucket.chunks[file(1, 5)] = bytearray(encode_journal_batch(other))
    journal_state = await found(bucket)
    assert check_journal_state(owner, journal_state) == 2
    assert (journal_state.checkpoint_file, journal_state.warnings) == (file(1, 6), ())


@pytest.mark.parametrize(("unreadable", "needed"), [(3, False), (5, False), (6, True)])
async def test_only_what_is_needed_has_to_be_readable(unreadable: int, needed: bool) -> None:
    class Failing(Client):
        def read_into(self, name: str, offset: int, buffer: memoryview | bytearray) -> int:
            if name == file(1, unreadable):
                raise ChunkUnavailableError("does not answer", chunk=name, operation="read_into")
            return super().read_into(name, offset, buffer)

    bucket = Bucket()
    owner = await with_checkpoints(bucket)
    stage = Stage()
    reading = read_journal(AsyncChunkStorage(Failing(bucket), stage), stage, CONTAINER, 2)
    if needed:
        with pytest.raises(ChunkUnavailableError, match="does not answer"):
            await reading
    else:
        assert check_journal_state(owner, await reading) == 6


def whole(bucket: Bucket, name: str) -> Checkpoint:
    return decode_checkpoint(bucket.chunks[name], where=name)


async def earlier(bucket: Bucket, journal_state: JournalState) -> list[tuple[int, int]]:
    """Epoch and sequence of each checkpoint before the one of the state."""
    storage = AsyncChunkStorage(Client(bucket), Stage())
    return [(c.epoch, c.sequence) async for c in earlier_checkpoints(storage, journal_state)]


async def test_checkpoints_before_the_recovered_one_come_newest_first() -> None:
    bucket = Bucket()
    await with_checkpoints(bucket)
    await with_checkpoints(bucket, epoch=5, batches=2)
    journal_state = await found(bucket, 6)
    assert journal_state.checkpoint_file == file(5, 6)
    # Later ones are not older ones, in any epoch.
    bucket.chunks[file(5, 7)] = bucket.chunks[file(1, 1)]
    bucket.chunks[file(6, 1)] = bucket.chunks[file(1, 1)]
    older = [(5, 2), (5, 0), (5, 0), (1, 6), (1, 3), (1, 0), (1, 0)]
    assert await earlier(bucket, journal_state) == older
    # A damaged checkpoint and one of another lineage are not used; neither are batches, in
    # whatever state they are.
    bucket.chunks[file(5, 3)][40] ^= 1
    bucket.chunks[file(5, 4)][-1] ^= 1
    other = replace(whole(bucket, file(1, 4)), lineage=OTHER_LINEAGE)
    bucket.chunks[file(1, 4)] = bytearray(encode_checkpoint(other))
    assert await earlier(bucket, journal_state) == [(5, 0), (5, 0), (1, 6), (1, 0), (1, 0)]


async def test_when_the_recovered_checkpoint_is_gone_those_before_it_are_shown() -> None:
    bucket = Bucket()
    await with_checkpoints(bucket)
    journal_state = await found(bucket)
    bucket.chunks[file(1, 7)] = bucket.chunks[file(1, 6)]  # made meanwhile
    del bucket.chunks[file(1, 6)]
    bucket.chunks[file(2, 1)] = bucket.chunks[file(1, 4)]
    assert await earlier(bucket, journal_state) == [(1, 3), (1, 0), (1, 0)]


async def test_each_epoch_with_a_claim_or_a_journal_file_counts_as_an_owner() -> None:
    bucket = Bucket()
    await with_checkpoints(bucket)
    assert (await found(bucket)).owners == 1
    bucket.chunks[claim_file(CONTAINER, 1)] = bytearray(b"x")
    bucket.chunks[claim_file(CONTAINER, 3)] = bytearray(b"x")
    for epoch in (2, 4):
        bucket.chunks[index_file(CONTAINER, epoch, 1, 1, "n")] = bytearray(b"x")
    bucket.chunks[claim_file(CONTAINER, 9)] = bytearray(b"x")
    journal_state = await found(bucket, 9)
    assert (journal_state.owners, journal_state.highest_epoch) == (2, 4)


async def test_names_of_others_are_no_epochs() -> None:
    bucket = Bucket({f"{system_prefix(CONTAINER)}exyz/readme": bytearray(b"x")})
    assert await list_epochs(AsyncChunkStorage(Client(bucket), Stage()), CONTAINER) == 0


async def test_pauses_before_further_starts_double() -> None:
    class Growing(Client):
        """Each listing shows one more file, so a contradiction is looked at again."""

        def list(self, prefix: str = "", start_after: str = "") -> Iterator[ChunkStat]:
            number = len(self.bucket.chunks)
            self.bucket.chunks[claim_file(CONTAINER, 100 + number)] = bytearray(b"x")
            return super().list(prefix, start_after)

    bucket = Bucket()
    await with_checkpoints(bucket)
    bucket.chunks = {file(1, 4): bytearray(b"damage")}
    stage = Stage()
    with pytest.raises(CorruptDataError):
        await read_journal(AsyncChunkStorage(Growing(bucket), stage), stage, CONTAINER, 10**6)
    assert stage.slept == pytest.approx([0.2, 0.4, 0.8, 1.6])
