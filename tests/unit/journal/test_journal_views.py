"""Journal files as a person sees them, compared with what the owner wrote."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from siltstone.core.chunk_names import journal_file, system_chunk
from siltstone.core.records.checkpoint import decode_checkpoint, encode_checkpoint
from siltstone.core.records.journal_batch import decode_journal_batch
from siltstone.core.text import uuid_text
from siltstone.journal.journal_views import (
    BatchView,
    CheckpointView,
    JournalFileView,
    journal_file_view,
    journal_place,
)
from tests.support.journal.journal_world import CONTAINER, LINEAGE, Bucket, Client, make_owner


def name(number: int) -> str:
    return journal_file(CONTAINER, 1, number)


def written() -> tuple[bytes, bytes]:
    """Two batches and a checkpoint after them."""

    async def run() -> tuple[bytes, bytes]:
        owner = make_owner(Client(Bucket()))
        await owner.begin()
        for _ in range(2):
            await owner.flush(10)
        await owner.write_checkpoint()
        chunks = owner.client.bucket.chunks
        return bytes(chunks[name(3)]), bytes(chunks[name(4)])

    return asyncio.run(run())


BATCHES, CHECKPOINT = written()


def view(
    number: int, data: bytes, kind: str, **others: object
) -> tuple[JournalFileView, JournalFileView]:
    """What is shown of ``data``, and what should be shown."""
    fields: dict[str, object] = {"lineage": "", "checkpoint": None, "batches": (), "damage": ""}
    expected = JournalFileView(
        container=CONTAINER,
        epoch=1,
        number=number,
        name=name(number),
        length=len(data),
        kind=kind,
        **{**fields, **others},  # type: ignore[arg-type]
    )
    return journal_file_view(CONTAINER, name(number), data), expected


def batch_views() -> tuple[BatchView, BatchView]:
    chunk = system_chunk(CONTAINER, 1, 0, 1 << 32 | 1)
    first, end = decode_journal_batch(BATCHES, 0, where="test")
    second, _ = decode_journal_batch(BATCHES, end, where="test")
    made = [
        BatchView(
            sequence=sequence,
            safe_index=batch.safe_index,
            newest_index=batch.newest_index,
            table_log_end=10 * (sequence + 1),
            chunks=(chunk,),
        )
        for sequence, batch in enumerate((first, second))
    ]
    return made[0], made[1]


def test_batches() -> None:
    shown, expected = view(3, BATCHES, "batches", lineage=uuid_text(LINEAGE), batches=batch_views())
    assert shown == expected


def test_a_checkpoint() -> None:
    checkpoint = decode_checkpoint(CHECKPOINT, where="test")
    shown, expected = view(
        4,
        CHECKPOINT,
        "checkpoint",
        lineage=uuid_text(LINEAGE),
        checkpoint=CheckpointView(
            sequence=2,
            index_version=20,
            index_files=tuple(file.chunk_name for file in checkpoint.index_files),
            index_bytes=77,
            table_log_end=20,
            replay_index=checkpoint.replay_index,
            safe_index=checkpoint.safe_index,
            newest_index=checkpoint.newest_index,
        ),
    )
    assert shown == expected
    assert len(checkpoint.index_files) == 1


def test_a_checkpoint_of_an_empty_table_log() -> None:
    whole = decode_checkpoint(CHECKPOINT, where="test")
    empty = encode_checkpoint(replace(whole, system=(), index_files=()))
    shown = journal_file_view(CONTAINER, name(4), empty).checkpoint
    assert shown is not None
    assert (shown.table_log_end, shown.index_bytes, shown.index_files) == (0, 0, ())


@pytest.mark.parametrize("whole", [0, 1])
def test_a_torn_batch(whole: int) -> None:
    _, end = decode_journal_batch(BATCHES, 0, where="test")
    data = BATCHES[: -1 if whole else end - 1]
    damage = journal_file_view(CONTAINER, name(3), data).damage
    assert damage.startswith(f"record is cut where={name(3)}")
    shown, expected = view(
        3,
        data,
        "batches",
        lineage=uuid_text(LINEAGE) if whole else "",
        batches=batch_views()[:whole],
        damage=damage,
    )
    assert shown == expected


def test_a_whole_batch_after_damage() -> None:
    data = bytearray(BATCHES)
    data[40] ^= 1
    shown = journal_file_view(CONTAINER, name(3), data)
    assert (shown.kind, shown.lineage, shown.batches) == ("damaged", "", ())
    assert "whole ones follow it" in shown.damage


def test_what_is_no_record() -> None:
    shown = journal_file_view(CONTAINER, name(3), b"nonsense")
    assert (shown.kind, shown.lineage, shown.checkpoint) == ("unreadable", "", None)
    assert shown.damage


@pytest.mark.parametrize(
    ("file", "place"),
    [
        (name(4), (1, 4)),
        (journal_file(CONTAINER + 1, 1, 4), None),
        (system_chunk(CONTAINER, 1, 0, 1), None),
    ],
)
def test_the_place_of_a_journal_file(file: str, place: tuple[int, int] | None) -> None:
    assert journal_place(file, CONTAINER) == place
