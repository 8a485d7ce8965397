"""What may be deleted, as a table of cases."""

from __future__ import annotations

import pytest

from siltstone.core.chunk_names import (
    claim_file,
    data_chunk,
    index_file,
    journal_file,
    system_chunk,
)
from siltstone.core.records.checkpoint import Checkpoint, IndexFile, SystemLayout
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.layout import Layout
from siltstone.journal.retention import (
    DurableCheckpoint,
    is_system_file,
    journal_number,
    plan_deletion,
)

C = 2


def journal(number: int, epoch: int = 5) -> str:
    return journal_file(C, epoch, number)


def tables(chunk_id: int, epoch: int = 5) -> str:
    return system_chunk(C, epoch, 0, chunk_id)


def index(number: int, epoch: int = 5) -> str:
    return index_file(C, epoch, number, 1, "n")


def system(*chunk_ids: int) -> tuple[SystemLayout, ...]:
    chunks = tuple(Chunk(chunk_id=n, name=tables(n), epoch=5, length=1) for n in chunk_ids)
    return (SystemLayout(layout=Layout(segment_id=0), extents=(), chunks=chunks, sums=()),)


def durable(number: int, *, chunks: tuple[int, ...], indexes: tuple[int, ...]) -> DurableCheckpoint:
    files = tuple(IndexFile(file_name="f", chunk_name=index(n), length=1, crc=n) for n in indexes)
    checkpoint = Checkpoint(
        lineage=bytes(16),
        epoch=5,
        sequence=0,
        system=system(*chunks),
        index_files=files,
        index_version=100,
        index_crc=0,
        replay_index=0,
        safe_index=0,
        newest_index=0,
    )
    return DurableCheckpoint(number=number, file_name=journal(number), checkpoint=checkpoint)


CHECKPOINTS = [
    durable(4, chunks=(1, 2), indexes=(1,)),
    durable(7, chunks=(2, 3), indexes=(1, 2)),
]
LISTING = [
    *(journal(n) for n in range(1, 10)),
    *(tables(n) for n in range(1, 8)),
    *(index(n) for n in range(1, 5)),
    journal(1, 4),
    journal(9, 4),
    tables(1, 4),
    index(1, 4),
    claim_file(C, 4),
    claim_file(C, 5),
    journal(1, 6),
    tables(1, 6),
    data_chunk(C, 4, "name", 0, 1),
    journal_file(C + 1, 4, 1),
    f"system/c{C}/e{4:020d}/somebody-else",
    "system/store",
]


def plan(checkpoints: list[DurableCheckpoint], pinned_version: int | None = None) -> list[str]:
    return plan_deletion(
        LISTING,
        checkpoints,
        system(3, 4),
        {tables(5), index(3)},
        container=C,
        pinned_version=pinned_version,
    )


def test_what_nothing_needs_goes() -> None:
    assert plan(CHECKPOINTS) == [
        *(journal(n) for n in (1, 2, 3)),
        *(tables(n) for n in (6, 7)),
        index(4),
        journal(1, 4),
        journal(9, 4),
        tables(1, 4),
        index(1, 4),
        claim_file(C, 4),
    ]


def test_chunks_of_an_older_epoch_stay_while_a_layout_names_them() -> None:
    kept = plan_deletion(LISTING, CHECKPOINTS, system(3), {tables(1, 4)}, container=C)
    assert tables(1, 4) not in kept


@pytest.mark.parametrize("count", [0, 1])
def test_nothing_goes_before_two_checkpoints_are_durable(count: int) -> None:
    assert plan(CHECKPOINTS[:count]) == []


def test_only_the_two_newest_checkpoints_count() -> None:
    oldest = durable(2, chunks=(6,), indexes=(4,))
    assert plan([oldest, *CHECKPOINTS]) == plan(CHECKPOINTS)


@pytest.mark.parametrize("numbers", [(7, 4), (4, 4)])
def test_checkpoints_in_another_order_are_a_defect(numbers: tuple[int, ...]) -> None:
    with pytest.raises(AssertionError, match="oldest first"):
        plan([durable(number, chunks=(), indexes=()) for number in numbers])


def test_what_is_a_system_file() -> None:
    assert [name for name in LISTING if not is_system_file(name, C)] == [
        data_chunk(C, 4, "name", 0, 1),
        journal_file(C + 1, 4, 1),
        f"system/c{C}/e{4:020d}/somebody-else",
        "system/store",
    ]


@pytest.mark.parametrize(("version", "goes"), [(99, False), (100, True), (None, True)])
def test_an_older_pin_keeps_everything(version: int | None, goes: bool) -> None:
    assert bool(plan(CHECKPOINTS, version)) == goes


@pytest.mark.parametrize(
    ("name", "number"),
    [
        (journal(12), 12),
        ("journal-00000000000000000001", 1),
        ("journal-1", None),
        ("journal-0000000000000000000x", None),
        ("journal-٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠١", None),
        ("00000000000000000001", None),
        (tables(1), None),
        (index(1), None),
    ],
)
def test_journal_number(name: str, number: int | None) -> None:
    assert journal_number(name) == number
