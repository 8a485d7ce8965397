"""A record of a newer version is refused as such; the error has its kind and both versions."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from siltstone.core.checksums import crc32c
from siltstone.core.errors import FormatError
from siltstone.core.records.backup import LEFT_VERSION, decode_backup
from siltstone.core.records.checkpoint import decode_checkpoint
from siltstone.core.records.claim import decode_claim
from siltstone.core.records.collection_choice import decode_choice
from siltstone.core.records.collection_entry import decode_entry
from siltstone.core.records.collection_rollup import decode_rollup
from siltstone.core.records.collection_state import decode_state
from siltstone.core.records.envelope import RecordKind, claimed_kind
from siltstone.core.records.file_manifest import HEAD_BYTES, decode_manifest_head
from siltstone.core.records.frame import decode_frame
from siltstone.core.records.import_note import decode_import_note
from siltstone.core.records.journal_batch import decode_journal_batch
from siltstone.core.records.keys import RowKind
from siltstone.core.records.log_file_header import decode_log_file_header
from siltstone.core.records.marker_slot import decode_marker_slot
from siltstone.core.records.pin import decode_pin
from siltstone.core.records.recovery import decode_recovery
from siltstone.core.records.store_manifest import decode_store_manifest
from siltstone.core.records.table_record import decode_table_record
from siltstone.objects.records.space_backup import decode_space_backup
from siltstone.tier1.kafka.claim_record import decode_claim_record
from siltstone.volumes.records.commit_record import decode_record
from siltstone.volumes.records.place_record import decode_place
from tests.support.docs.format_page import FORMATS, example
from tests.support.docs.metadata_examples import READ, ROWS, examples

NEWER = 200

Decode = Callable[[bytes], object]

ENVELOPES: dict[RecordKind, tuple[str, Decode]] = {
    RecordKind.JOURNAL_BATCH: ("journal-batch.md", lambda d: decode_journal_batch(d, where="x")),
    RecordKind.CHECKPOINT: ("checkpoint.md", lambda d: decode_checkpoint(d, where="x")),
    RecordKind.STORE_MANIFEST: ("store-manifest.md", lambda d: decode_store_manifest(d, where="x")),
    RecordKind.CLAIM: ("claim.md", lambda d: decode_claim(d, where="x")),
    RecordKind.PIN: ("pin.md", lambda d: decode_pin(d, where="x")),
    RecordKind.RECOVERY: ("recovery.md", lambda d: decode_recovery(d, where="x")),
    RecordKind.IMPORT_NOTE: ("import-note.md", lambda d: decode_import_note(d, where="x")),
    RecordKind.KEYSPACE_BACKUP: (
        "keyspace-backup.md",
        lambda d: decode_space_backup(d, where="x"),
    ),
    RecordKind.BACKUP: ("backup.md", lambda d: decode_backup(d, where="x")),
    RecordKind.ENTRY: ("collection-entry.md", lambda d: decode_entry(d, where="x")),
    RecordKind.ROLLUP: ("collection-rollup.md", lambda d: decode_rollup(d, where="x")),
    RecordKind.COLLECTION_CONSENSUS: (
        "collection-choice.md",
        lambda d: decode_choice(d, where="x"),
    ),
    RecordKind.COLLECTION_STATE: ("collection-state.md", lambda d: decode_state(d, where="x")),
    RecordKind.VOLUME_COMMIT: ("volume-commit.md", lambda d: decode_record(d, where="x")),
    RecordKind.VOLUME_PLACE: ("volume-place.md", lambda d: decode_place(d, where="x")),
}

OTHERS: dict[str, tuple[str, Decode]] = {
    "frame": ("frame.md", decode_frame),
    "log file": ("log-file.md", decode_log_file_header),
    "marker slot": ("marker.md", decode_marker_slot),
    "claim in Kafka": ("kafka-claim.md", decode_claim_record),
}

ELSEWHERE = {
    "piece.md": "in frames",
    "rows.md": "each has a version of its own",
    "table-record.md": "has several examples",
    "file-manifest.md": "two bytes of version",
    "events.md": "bytes of applications, with none",
    "export.md": "test_export_format.py",
    "stream-offset.md": "test_stream_offset.py",
    "collection-part.md": "Parquet and Arrow, and a row in the state",
    "collection-change.md": "in entries: a collection has a format",
    "collection-table.md": "rows of a table, whose records have a version; entries have theirs",
    "cached-block.md": "a cache: what is newer is a miss",
    "keyspace-rows.md": "tests/unit/objects/test_ledger_rows.py",
    "value-record.md": "tests/unit/objects/test_value_records.py",
    "large-value.md": "tests/unit/objects/test_ledger_rows.py",
    "volume-rows.md": "test_volume_formats.py",
    "value-footer.md": "tests/unit/objects/test_footers.py",
}


def refused(decode: Decode, data: bytes, record: str, known: int) -> None:
    assert decode is not None
    with pytest.raises(FormatError) as caught:
        decode(data)
    error = caught.value
    assert (error.record, error.found, error.known) == (record, NEWER, known)
    assert re.match(rf"{record} of an unknown version found={NEWER} known={known}", str(error))


def summed(data: bytes, place: int, length: int | None = None) -> bytes:
    """``data`` with a newer version at ``place``, and a right checksum at its end."""
    changed = bytearray(data)
    changed[place] = NEWER
    end = len(changed) - 4 if length is None else length
    changed[end : end + 4] = crc32c(changed[:end]).to_bytes(4, "little")
    return bytes(changed)


NEWEST = {RecordKind.BACKUP: LEFT_VERSION}
"""Versions that are newer than the one of the example."""


@pytest.mark.parametrize("kind", RecordKind)
def test_records_in_an_envelope(kind: RecordKind) -> None:
    page, decode = ENVELOPES[kind]
    data = example(page)
    assert claimed_kind(data) == kind
    known = NEWEST.get(kind, data[5])
    refused(decode, summed(data, 5), kind.name.lower().replace("_", " "), known)


@pytest.mark.parametrize("record", OTHERS)
def test_records_of_logs(record: str) -> None:
    page, decode = OTHERS[record]
    data = example(page)
    refused(decode, summed(data, 5), record, data[5])


def test_table_records() -> None:
    data = bytes.fromhex(examples("table-record.md")["table-record"])
    refused(lambda d: decode_table_record(d, where="x"), summed(data, 1), "table record", data[1])


def test_file_manifests() -> None:
    data = example("file-manifest.md")
    head = bytearray(data)
    head[4:6] = NEWER.to_bytes(2, "little")
    known = int.from_bytes(data[4:6], "little")
    head[HEAD_BYTES - 4 : HEAD_BYTES] = crc32c(head[: HEAD_BYTES - 4]).to_bytes(4, "little")
    refused(lambda d: decode_manifest_head(d, where="x"), bytes(head), "file manifest", known)


@pytest.mark.parametrize("name", READ)
def test_rows(name: str) -> None:
    key, value = ROWS[name]
    _, decode = READ[name]
    # In the key of an import row, the byte after the kind is another kind.
    begin = key[: 2 if key[0] == RowKind.IMPORT else 1]
    known = max(other[1] for at, other in ROWS.values() if at.startswith(begin))
    changed = value[:1] + bytes((NEWER,)) + value[2:]
    with pytest.raises(FormatError) as caught:
        decode(key, changed)
    error = caught.value
    assert (error.found, error.known) == (NEWER, known)
    assert error.record == ("position" if name == "position" else "row")


def test_every_page_of_a_format_is_looked_at() -> None:
    seen = {page for page, _ in (*ENVELOPES.values(), *OTHERS.values())} | ELSEWHERE.keys()
    assert {path.name for path in FORMATS.glob("*.md")} - {"README.md"} == seen
