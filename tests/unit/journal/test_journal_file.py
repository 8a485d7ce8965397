"""What the bytes of one journal file are: whole, torn at the end, or damaged before the end."""

from __future__ import annotations

import asyncio

import pytest

from siltstone.core.chunk_names import journal_file
from siltstone.core.errors import CorruptDataError
from siltstone.core.records.envelope import HEADER_BYTES
from siltstone.core.records.journal_batch import decode_journal_batch
from siltstone.journal.journal_file import FileKind, read_journal_file
from tests.support.journal.journal_world import CONTAINER, Bucket, Client, make_owner

NAME = journal_file(CONTAINER, 1, 3)
LENGTH_BYTE = 8
"""The lowest byte of the record's length."""
SUM_BYTE = -1
"""The record's last byte."""


def written() -> tuple[bytes, bytes]:
    """A file that is a checkpoint, and a file of four batches."""

    async def run() -> tuple[bytes, bytes]:
        owner = make_owner(Client(Bucket()))
        await owner.begin()
        for _ in range(4):
            await owner.flush(10)
        chunks = owner.client.bucket.chunks
        return bytes(chunks[journal_file(CONTAINER, 1, 1)]), bytes(chunks[NAME])

    return asyncio.run(run())


CHECKPOINT, BATCHES = written()


def ends_of(data: bytes) -> list[int]:
    ends = [0]
    while ends[-1] < len(data):
        ends.append(decode_journal_batch(data, ends[-1], where="test")[1])
    return ends


ENDS = ends_of(BATCHES)


def damaged(byte: int, *numbers: int) -> bytes:
    """The four batches; in those of ``numbers`` one byte is changed."""
    data = bytearray(BATCHES)
    for number in numbers:
        start, end = ENDS[number], ENDS[number + 1]
        data[start + byte if byte >= 0 else end + byte] ^= 1
    return bytes(data)


def test_whole_batches_come_with_their_bytes() -> None:
    file = read_journal_file(NAME, BATCHES)
    assert (file.name, file.kind, file.damage, file.cut) == (NAME, FileKind.BATCHES, None, False)
    assert [batch.sequence for batch, _ in file.batches] == [0, 1, 2, 3]
    assert b"".join(data for _, data in file.batches) == BATCHES


@pytest.mark.parametrize("whole", [0, 1, 2, 3])
@pytest.mark.parametrize("left", [HEADER_BYTES, HEADER_BYTES + 1, -1])
def test_a_torn_last_batch_is_told_and_those_before_it_count(whole: int, left: int) -> None:
    cut = ENDS[whole] + left if left > 0 else ENDS[whole + 1] + left
    file = read_journal_file(NAME, BATCHES[:cut])
    assert [batch.sequence for batch, _ in file.batches] == list(range(whole))
    assert file.kind is FileKind.BATCHES
    assert file.damage is not None
    assert file.damage.where == NAME
    assert file.cut == (whole == 0)
    assert not file.may_be_failed_boot


@pytest.mark.parametrize("whole", [CHECKPOINT, BATCHES[: ENDS[1]]])
def test_cut_is_every_beginning_of_a_first_record(whole: bytes) -> None:
    for length in range(len(whole)):
        assert read_journal_file(NAME, whole[:length]).cut, length
    assert not read_journal_file(NAME, whole).cut
    for length in range(1, 5):
        assert not read_journal_file(NAME, b"\0" * length).cut


@pytest.mark.parametrize("whole", [CHECKPOINT, BATCHES[: ENDS[1]]])
@pytest.mark.parametrize(("change", "cut"), [(1, True), (-1, False)])
def test_cut_believes_the_length_that_the_first_record_says(
    whole: bytes, change: int, cut: bool
) -> None:
    data = bytearray(whole)
    length = int.from_bytes(data[LENGTH_BYTE:HEADER_BYTES], "little") + change
    data[LENGTH_BYTE:HEADER_BYTES] = length.to_bytes(4, "little")
    file = read_journal_file(NAME, bytes(data))
    assert (file.cut, file.damage is None) == (cut, False)


@pytest.mark.parametrize("byte", [LENGTH_BYTE, SUM_BYTE])
@pytest.mark.parametrize("numbers", [(3,), (2, 3), (0, 1, 2, 3)])
def test_damage_up_to_the_end_is_told_and_what_is_before_it_counts(
    byte: int, numbers: tuple[int, ...]
) -> None:
    file = read_journal_file(NAME, damaged(byte, *numbers))
    assert len(file.batches) == numbers[0]
    assert file.damage is not None
    assert not file.cut


@pytest.mark.parametrize("byte", [LENGTH_BYTE, SUM_BYTE])
@pytest.mark.parametrize("numbers", [(0,), (1,), (0, 1), (0, 2), (0, 1, 3)])
def test_damage_with_a_whole_batch_after_it_is_corrupt(byte: int, numbers: tuple[int, ...]) -> None:
    with pytest.raises(CorruptDataError, match="whole ones follow it") as caught:
        read_journal_file(NAME, damaged(byte, *numbers))
    assert caught.value.where == NAME
    assert str(caught.value).endswith(f"at={ENDS[numbers[0]]}")


def test_a_batch_after_a_damaged_checkpoint_is_corrupt() -> None:
    broken = CHECKPOINT[:-1] + bytes([CHECKPOINT[-1] ^ 1])
    with pytest.raises(CorruptDataError, match="whole ones follow it") as caught:
        read_journal_file(NAME, broken + BATCHES)
    assert caught.value.where == NAME
    assert str(caught.value).endswith("at=0")


@pytest.mark.parametrize(
    ("data", "kind", "failed_boot"),
    [
        (CHECKPOINT, FileKind.CHECKPOINT, False),
        (CHECKPOINT[:-1], FileKind.BROKEN_CHECKPOINT, True),
        (CHECKPOINT[:-1] + b"\0", FileKind.BROKEN_CHECKPOINT, False),
        (CHECKPOINT[: HEADER_BYTES - 1], FileKind.UNREADABLE, True),
        (bytes(len(CHECKPOINT)), FileKind.UNREADABLE, True),
        (bytes(3), FileKind.UNREADABLE, True),
        (bytes(512) + b"nonsense", FileKind.UNREADABLE, True),
        (bytes(511) + b"nonsense", FileKind.UNREADABLE, False),
        (CHECKPOINT + bytes(1024), FileKind.BROKEN_CHECKPOINT, True),
        (CHECKPOINT + bytes(1024 - len(CHECKPOINT)), FileKind.BROKEN_CHECKPOINT, True),
        (CHECKPOINT + bytes(512 - len(CHECKPOINT)), FileKind.BROKEN_CHECKPOINT, False),
        (b"", FileKind.UNREADABLE, True),
        (b"nonsense", FileKind.UNREADABLE, False),
    ],
)
def test_only_an_unfinished_checkpoint_can_be_that_of_a_failed_boot(
    data: bytes, kind: FileKind, failed_boot: bool
) -> None:
    file = read_journal_file(NAME, data)
    assert (file.kind, file.may_be_failed_boot) == (kind, failed_boot)
    assert (file.damage is None) == (file.checkpoint is not None) == (data == CHECKPOINT)
