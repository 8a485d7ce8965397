"""What a replay refuses, and that its errors name the file and the record."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from siltstone.core.errors import CorruptDataError
from siltstone.core.records.journal_batch import JournalBatch
from siltstone.journal.journal_file import FileKind, JournalFile, read_journal_file
from siltstone.journal.replay import replay
from tests.support.journal.journal_world import Bucket, Client, make_owner


def written() -> list[JournalFile]:
    """Files of an owner: checkpoints, and files of one batch each."""

    async def run() -> list[JournalFile]:
        owner = make_owner(Client(Bucket(), append=False))
        await owner.begin()
        await owner.flush(10)
        await owner.write_checkpoint()
        for _ in range(3):
            await owner.flush(10)
        chunks = owner.client.bucket.chunks
        return [read_journal_file(name, chunks[name]) for name in owner.journal.files]

    return asyncio.run(run())


_, FIRST, BEFORE, CHECKPOINT, *LATER = written()


def holding(number: int, change: Callable[[JournalBatch], JournalBatch]) -> list[JournalFile]:
    """The files after the checkpoint; the batch of one of them is changed."""
    files = list(LATER)
    ((batch, data),) = files[number].batches
    files[number] = replace(files[number], batches=((change(batch), data),))
    return files


def torn(file: JournalFile) -> JournalFile:
    return replace(file, batches=(), damage=CorruptDataError("torn", where=file.name))


def broken_checkpoint(file: JournalFile) -> JournalFile:
    return replace(torn(file), kind=FileKind.BROKEN_CHECKPOINT)


def test_batches_after_the_checkpoint_are_applied() -> None:
    replayed = replay(1, [CHECKPOINT, *LATER])
    last, _ = LATER[-1].batches[0]
    assert replayed.checkpoint == CHECKPOINT.checkpoint
    assert (replayed.batches, replayed.next_sequence) == (3, 4)
    assert replayed.layouts[0].layout == last.change.after
    assert (replayed.safe_index, replayed.newest_index) == (last.safe_index, last.newest_index)
    assert replayed.warnings == ()


def test_the_highest_statement_counts_wherever_it_stands() -> None:
    files = holding(0, lambda batch: replace(batch, safe_index=900, newest_index=901))
    replayed = replay(1, [CHECKPOINT, *files])
    assert (replayed.safe_index, replayed.newest_index) == (900, 901)


def test_a_repeated_batch_is_applied_once_and_ends_the_doubt_about_a_torn_one() -> None:
    expected = replay(1, [CHECKPOINT, *LATER])
    assert replay(1, [CHECKPOINT, *LATER, LATER[-1], LATER[0]]) == expected
    replayed = replay(
        1, [CHECKPOINT, torn(LATER[0]), LATER[0], broken_checkpoint(FIRST), *LATER[1:]]
    )
    assert (replayed.layouts, replayed.batches) == (expected.layouts, expected.batches)
    assert [warning.split(":")[0] for warning in replayed.warnings] == [
        "passed over batches",
        "passed over broken checkpoint",
    ]
    assert LATER[0].name in replayed.warnings[0]


REFUSED = {
    "batch of another epoch": (
        holding(1, lambda batch: replace(batch, epoch=2)),
        "journal batch of another epoch or lineage",
        LATER[1].name,
        "sequence=2 epoch=2",
    ),
    "batch of another lineage": (
        holding(1, lambda batch: replace(batch, lineage=bytes(16))),
        "journal batch of another epoch or lineage",
        LATER[1].name,
        "sequence=2 epoch=1",
    ),
    "batch from before the checkpoint": (
        [BEFORE, *LATER],
        "journal batch is older than the checkpoint before it",
        BEFORE.name,
        "sequence=0 epoch=1",
    ),
    "missing batch": (
        [LATER[0], LATER[2]],
        "journal lacks sequence 2",
        LATER[2].name,
        "sequence=3 epoch=1",
    ),
    "another batch of the same sequence": (
        [*LATER, replace(LATER[0], batches=((LATER[0].batches[0][0], b"other"),))],
        "journal sequence has two contents",
        LATER[0].name,
        "sequence=1 epoch=1",
    ),
    "change of another state": (
        holding(1, lambda batch: replace(batch, change=LATER[0].batches[0][0].change)),
        "journal batch does not fit the state before it",
        LATER[1].name,
        "sequence=2 epoch=1",
    ),
    "torn batch before a checkpoint": (
        [torn(LATER[0]), broken_checkpoint(FIRST)],
        "torn journal batch is not repeated",
        LATER[0].name,
        "",
    ),
}


@pytest.mark.parametrize(
    ("files", "message", "where", "facts"), REFUSED.values(), ids=REFUSED.keys()
)
def test_refused(files: list[JournalFile], message: str, where: str, facts: str) -> None:
    with pytest.raises(CorruptDataError) as caught:
        replay(1, [CHECKPOINT, *files])
    assert caught.value.where == where
    assert str(caught.value) == f"{message} where={where} {facts}".rstrip()


def test_a_checkpoint_of_another_epoch_is_refused() -> None:
    with pytest.raises(CorruptDataError) as caught:
        replay(2, [CHECKPOINT, *LATER])
    where = CHECKPOINT.name
    assert caught.value.where == where
    assert str(caught.value) == f"checkpoint of another epoch where={where} epoch=1"


def test_a_checkpoint_that_breaks_an_invariant_is_refused() -> None:
    checkpoint = CHECKPOINT.checkpoint
    assert checkpoint is not None
    (system,) = checkpoint.system
    spoiled = replace(checkpoint, system=(replace(system, extents=()),))
    with pytest.raises(CorruptDataError) as caught:
        replay(1, [replace(CHECKPOINT, checkpoint=spoiled)])
    assert str(caught.value) == f"checkpoint breaks an invariant where={CHECKPOINT.name}"
