"""The codecs of journal batches and checkpoints: records come back whole, damaged ones never."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.core.checksums import crc32c
from siltstone.core.errors import CorruptDataError, FormatError
from siltstone.core.records.checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint
from siltstone.core.records.envelope import RecordKind, open_envelope, seal
from siltstone.core.records.journal_batch import (
    JournalBatch,
    decode_journal_batch,
    encode_journal_batch,
)
from siltstone.core.records.layout import Layout
from siltstone.core.records.layout_change import LayoutChange
from siltstone.core.records.table_record import TableEntry
from siltstone.core.records.writer_row import WriterRow
from tests.support.journal.journal_records import batches, checkpoints

CHANGE = LayoutChange(
    segment_id=0, before=Layout(segment_id=0), after=Layout(segment_id=0, storage_length=5)
)
BATCH = JournalBatch(
    lineage=bytes(16), epoch=4, sequence=7, safe_index=8, newest_index=-1, change=CHANGE
)


def with_sum(record: bytes) -> bytes:
    return record[:-4] + struct.pack("<I", crc32c(record[:-4]))


@pytest.mark.slow
@given(batches, st.binary(max_size=9))
def test_batch_comes_back(batch: JournalBatch, before: bytes) -> None:
    data = encode_journal_batch(batch)
    decoded, end = decode_journal_batch(before + data + b"next", len(before), where="file")
    assert decoded == batch
    assert end == len(before) + len(data)


@pytest.mark.slow
@given(checkpoints)
def test_checkpoint_comes_back(checkpoint: Checkpoint) -> None:
    assert decode_checkpoint(encode_checkpoint(checkpoint), where="file") == checkpoint


@settings(max_examples=30)
@given(checkpoints, st.data())
def test_checkpoint_with_any_changed_byte_is_corrupt(
    checkpoint: Checkpoint, data: st.DataObject
) -> None:
    raw = bytearray(encode_checkpoint(checkpoint))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptDataError) as caught:
        decode_checkpoint(raw, where="the file")
    assert caught.value.where == "the file"


@settings(max_examples=30)
@given(batches, st.data())
def test_batch_with_any_changed_byte_is_corrupt(batch: JournalBatch, data: st.DataObject) -> None:
    raw = bytearray(encode_journal_batch(batch))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptDataError):
        decode_journal_batch(raw, where="file")


def test_every_prefix_is_corrupt() -> None:
    raw = encode_journal_batch(BATCH)
    for length in range(len(raw)):
        with pytest.raises(CorruptDataError):
            decode_journal_batch(raw[:length], where="file")


@pytest.mark.parametrize("offset", [4, 5, 6], ids=["kind", "version", "reserved"])
def test_a_whole_record_of_a_newer_version_is_a_format_error(offset: int) -> None:
    raw = bytearray(encode_journal_batch(BATCH))
    raw[offset] = 200
    with pytest.raises(FormatError):
        decode_journal_batch(with_sum(bytes(raw)), where="file")


def test_bytes_after_a_checkpoint_are_corrupt() -> None:
    body = open_envelope(encode_journal_batch(BATCH), where="file").body
    with pytest.raises(CorruptDataError, match="bytes follow the record"):
        decode_checkpoint(seal(RecordKind.CHECKPOINT, 1, body) + b"x", where="file")


@pytest.mark.parametrize("body", [b"", bytes(60), bytes(400)])
def test_a_body_that_is_not_its_fields_is_corrupt(body: bytes) -> None:
    with pytest.raises(CorruptDataError):
        decode_journal_batch(seal(RecordKind.JOURNAL_BATCH, 1, body), where="file")
    with pytest.raises(CorruptDataError):
        decode_checkpoint(seal(RecordKind.CHECKPOINT, 1, body), where="file")


@pytest.mark.parametrize(
    "change",
    [
        replace(CHANGE, extra=(TableEntry(0, b"key", b"value"),)),
        replace(CHANGE, writers=(WriterRow(segment_id=0, number=1, name="w"),)),
        replace(CHANGE, layouts_removed=(5,)),
        replace(CHANGE, after=None),
    ],
    ids=["extra", "writers", "layouts removed", "removal"],
)
def test_what_the_journal_does_not_keep_is_refused(change: LayoutChange) -> None:
    with pytest.raises(ValueError, match="system"):
        encode_journal_batch(replace(BATCH, change=change))
