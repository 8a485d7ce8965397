"""The examples on the pages of keyspaces are what the code reads and writes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from siltstone.core.checksums import crc32c
from siltstone.core.errors import CorruptDataError, FormatError
from siltstone.core.records.backup import BackupObject
from siltstone.objects.changes import hash_of
from siltstone.objects.records.footer import (
    TRAILER_BYTES,
    Trailer,
    decode_directory,
    decode_piece,
    decode_trailer,
    encode_footer,
    note_of,
)
from siltstone.objects.records.head import Head, decode_head, encode_head
from siltstone.objects.records.keys import (
    SPACE,
    STATE,
    IndexEntry,
    LargeStatus,
    ObjectKey,
    decode_doubtful_key,
    decode_expiry_key,
    decode_head_key,
    decode_index_key,
    decode_large_key,
    doubtful_key,
    expiry_key,
    first_sqn_of,
    head_key,
    index_keys,
    large_key,
    manifest_key,
    number_of_task,
    task_key,
)
from siltstone.objects.records.large_place import LargePlace, encode_place
from siltstone.objects.records.large_row import LargeRow, decode_large_row, encode_large_row
from siltstone.objects.records.rebuild_rows import (
    Doubt,
    Rebuild,
    RebuildPhase,
    decode_doubt,
    decode_rebuild,
    encode_doubt,
    encode_rebuild,
    is_rebuild,
)
from siltstone.objects.records.space_backup import (
    AbsentBytes,
    CopiedSegment,
    LargeCopy,
    SpaceBackup,
    decode_space_backup,
    encode_space_backup,
)
from siltstone.objects.records.space_rows import (
    HeadOnly,
    ManifestRow,
    Space,
    SpaceState,
    Strategy,
    ValueStatus,
    decode_index_entry,
    decode_manifest_row,
    decode_space,
    decode_state,
    decode_task,
    encode_index_entry,
    encode_manifest_row,
    encode_space,
    encode_state,
    encode_task,
)
from siltstone.objects.records.value_record import (
    RecordHeader,
    ValueKind,
    decode_record,
    encode_header,
    encode_value_sum,
)
from tests.support.docs.format_page import example
from tests.support.docs.metadata_examples import examples, row

ROWS = {name: row(text) for name, text in examples("keyspace-rows.md").items()}
PLAIN = {"segment", "place", "record", "head"}
KEY = ObjectKey(b"o", b"2026", b"a.jpg")
ENTRIES = (IndexEntry(b"city", b"oslo"),)
VALUE = b"hello"
EXPIRES_S = 1_800_000_000
PUT = RecordHeader(
    kind=ValueKind.STANDARD,
    sqn=2,
    previous=1,
    modified_ms=1_700_000_000_123,
    size=5,
    value_hash=hash_of(VALUE, b"{}"),
    expires_s=EXPIRES_S,
    key=KEY,
    entries=ENTRIES,
    metadata=b"{}",
    stored=5,
)
DELETE = RecordHeader(
    kind=ValueKind.TOMBSTONE,
    sqn=3,
    previous=2,
    modified_ms=1_700_000_001_123,
    size=0,
    value_hash=hash_of(b"", b""),
    expires_s=0,
    key=KEY,
    entries=(),
    metadata=b"",
    stored=0,
)
HEAD = Head(
    sqn=2,
    previous=1,
    number=1,
    offset=300,
    length=PUT.record_length,
    size=5,
    value_hash=PUT.value_hash,
    modified_ms=PUT.modified_ms,
    expires_s=EXPIRES_S,
    entries=ENTRIES,
    metadata=b"{}",
)


def test_the_record_is_as_the_page_says() -> None:
    data = example("value-record.md")
    assert decode_record(data, where="page") == (PUT, VALUE)
    assert encode_header(PUT) + VALUE + encode_value_sum(VALUE) == data


def test_a_large_value_is_as_the_page_says() -> None:
    page = {name: plain(text) for name, text in examples("large-value.md").items() if name in PLAIN}
    value, size = b"hello, world", 12
    sums = b"".join(crc32c(piece).to_bytes(4, "little") for piece in (value[:8], value[8:]))
    place = LargePlace(number=7, piece_bytes=8, sums_crc=crc32c(sums))
    assert page["segment"] == value + sums
    assert place.sums_bytes(size) == len(sums)
    assert page["place"] == encode_place(place)
    header = PUT._replace(
        sqn=9,
        previous=0,
        modified_ms=1_700_000_002_123,
        size=size,
        value_hash=hash_of(value, b"{}"),
        expires_s=0,
        key=ObjectKey(b"o", b"2026", b"film.mp4"),
        entries=(),
        stored=0,
        large=place,
    )
    assert decode_record(page["record"], where="page") == (header, b"")
    assert encode_header(header) == page["record"]
    head = HEAD._replace(
        sqn=9,
        previous=0,
        offset=400,
        length=header.record_length,
        size=size,
        value_hash=header.value_hash,
        modified_ms=header.modified_ms,
        expires_s=0,
        entries=(),
        large=place,
    )
    assert decode_head(page["head"], where="page") == head
    assert encode_head(head) == page["head"]


def test_the_rows_of_a_large_value_are_as_the_page_says() -> None:
    page = examples("large-value.md")
    for status in LargeStatus:
        expected = LargeRow() if status is LargeStatus.UPLOADING else LargeRow(9, 12)
        key, value = row(page[status.name.lower()])
        assert (key, value) == (large_key(status, 7), encode_large_row(expected))
        assert decode_large_key(key) == (status, 7)
        assert decode_large_row(value, where="page") == expected


def plain(text: str) -> bytes:
    """The bytes of an example with comments."""
    return bytes.fromhex("".join(line.partition("#")[0] for line in text.splitlines()))


def test_the_footer_is_as_the_page_says() -> None:
    data = example("value-footer.md")
    start = PUT.record_length + DELETE.record_length
    trailer = decode_trailer(data[-TRAILER_BYTES:], where="page")
    assert trailer == Trailer(directory=367, length=52, records=2, first_sqn=2, last_sqn=3, as_of=0)
    directory = data[trailer.directory - start : -TRAILER_BYTES]
    assert len(directory) == trailer.length
    (piece,) = decode_directory(directory, where="page")
    found = decode_piece(piece, data[: piece.end - start], where="page")
    assert found == [
        (0, encode_header(PUT), PUT),
        (PUT.record_length, encode_header(DELETE), DELETE),
    ]
    notes = [note_of(encode_header(header), header) for header in (PUT, DELETE)]
    assert encode_footer(notes, start=start, as_of=0, where="page") == data


def test_the_head_is_as_the_page_says() -> None:
    assert decode_head(example("keyspace-rows.md"), where="page") == HEAD
    assert encode_head(HEAD) == example("keyspace-rows.md")
    assert ROWS["head-key"] == (head_key(KEY), b"")
    assert decode_head_key(ROWS["head-key"][0]) == KEY
    escaped = ObjectKey(b"o", b"a\0b", b"k")
    assert ROWS["escaped-head-key"] == (head_key(escaped), b"")
    assert decode_head_key(ROWS["escaped-head-key"][0]) == escaped


def test_what_an_object_is_found_by_is_as_the_page_says() -> None:
    key, value = ROWS["index-entry"]
    assert (decode_index_key(key), decode_index_entry(value, where="page")) == (
        (ENTRIES[0], KEY),
        EXPIRES_S,
    )
    assert ([key], value) == (index_keys(KEY, ENTRIES), encode_index_entry(EXPIRES_S))
    key, value = ROWS["expiry"]
    assert (key, value) == (expiry_key(KEY, EXPIRES_S), b"")
    assert decode_expiry_key(key) == (EXPIRES_S, KEY)


def test_the_rows_about_the_keyspace_are_as_the_page_says() -> None:
    space = Space(tags={"o": Strategy.RECOVR, "w": Strategy.RETAIN})
    assert ROWS["space"] == (SPACE, encode_space(space))
    assert decode_space(ROWS["space"][1], where="page") == space
    heads = Space(tags={"h": Strategy.RECOVR}, head_only=HeadOnly.WITH_LOOKUP)
    assert ROWS["heads-only"] == (SPACE, encode_space(heads))
    assert decode_space(ROWS["heads-only"][1], where="page") == heads
    state = SpaceState(
        next_sqn=301, number=2, first_sqn=300, length=PUT.record_length, records=1, next_number=3
    )
    assert ROWS["state"] == (STATE, encode_state(state))
    assert decode_state(ROWS["state"][1], where="page") == state
    sealed = ManifestRow(
        number=1,
        status=ValueStatus.SEALED,
        first_sqn=1,
        last_sqn=299,
        length=70_000,
        records=299,
        footer_end=100_000,
    )
    active = ManifestRow(number=2, status=ValueStatus.ACTIVE, first_sqn=300)
    for name, expected in (("sealed", sealed), ("active", active)):
        key, value = ROWS[name]
        assert (key, value) == (manifest_key(expected.first_sqn), encode_manifest_row(expected))
        assert decode_manifest_row(first_sqn_of(key), value, where="page") == expected
    key, value = ROWS["task"]
    assert (key, value) == (task_key(7), encode_task(0))
    assert (number_of_task(key), decode_task(value, where="page")) == (7, 0)


def test_the_page_shows_a_rebuild_and_a_doubtful_object() -> None:
    state = SpaceState(next_sqn=500, number=2, first_sqn=300, length=104, records=1, next_number=3)
    now = Rebuild(phase=RebuildPhase.RECORDS, state=state, sqn=1_000, seen_ms=1_700_000_000_123)
    assert ROWS["rebuild"] == (STATE, encode_rebuild(now))
    assert is_rebuild(ROWS["rebuild"][1])
    assert not is_rebuild(ROWS["state"][1])
    assert decode_rebuild(ROWS["rebuild"][1], where="page") == now
    doubt = Doubt(number=2, last_sqn=300)
    assert ROWS["doubtful"] == (doubtful_key(7, KEY), encode_doubt(doubt))
    assert decode_doubt(ROWS["doubtful"][1], where="page") == doubt
    assert decode_doubtful_key(ROWS["doubtful"][0]) == (7, KEY)
    assert decode_doubtful_key(doubtful_key(7)) == (7, None)


BACKUP = SpaceBackup(
    store_id=bytes(range(16)),
    generation=3,
    made_ms=1_700_000_000_123,
    owner="pid=7",
    keyspace="photos",
    next_sqn=300,
    tags={"o": Strategy.RECOVR},
    segments=(
        CopiedSegment(
            segment_id=21,
            row=ManifestRow(
                number=1,
                status=ValueStatus.SEALED,
                first_sqn=1,
                last_sqn=299,
                length=70_000,
                records=299,
                footer_end=100_000,
            ),
            objects=(
                BackupObject(
                    name="values/0000000000000015.0-100000", length=100_000, crc=0x12345678
                ),
            ),
        ),
    ),
)


def test_the_page_shows_a_backup() -> None:
    assert example("keyspace-backup.md") == encode_space_backup(BACKUP)
    assert decode_space_backup(example("keyspace-backup.md"), where="page") == BACKUP


def test_a_backup_that_is_damaged_or_contradicts_itself_is_refused() -> None:
    part = BackupObject(name="values/0000000000000016.0-9", length=9, crc=7)
    large = LargeCopy(segment_id=22, number=2, length=9, objects=(part,))
    lack = AbsentBytes(is_large=True, number=2, start=3, stop=9, reason="é damaged")
    record = replace(BACKUP, large=(large,), missing=(lack, replace(lack, is_large=False)))
    raw = encode_space_backup(record)
    assert decode_space_backup(raw, where="place") == record
    for position in range(len(raw)):
        wrong = bytearray(raw)
        wrong[position] ^= 0x10
        with pytest.raises((CorruptDataError, FormatError)):
            decode_space_backup(bytes(wrong), where="place")
    with pytest.raises(CorruptDataError):
        decode_space_backup(
            encode_space_backup(replace(BACKUP, large=(replace(large, length=10),))), where="place"
        )
    with pytest.raises(CorruptDataError):
        decode_space_backup(
            encode_space_backup(replace(BACKUP, missing=(replace(lack, stop=2),))), where="place"
        )
    (copy,) = BACKUP.segments
    for segments, next_sqn in (
        ((copy, copy), 300),
        ((copy,), 299),
        ((replace(copy, objects=copy.objects * 2),), 300),
        ((replace(copy, objects=()),), 300),
    ):
        wrong_record = replace(BACKUP, segments=segments, next_sqn=next_sqn)
        with pytest.raises(CorruptDataError):
            decode_space_backup(encode_space_backup(wrong_record), where="place")
