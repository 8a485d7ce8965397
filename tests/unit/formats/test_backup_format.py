"""The record of a backup and its list: round trips, damage, and the example on their page."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.core.errors import CorruptDataError, FormatError
from siltstone.core.records.backup import (
    Backup,
    BackupChunk,
    BackupCollections,
    BackupContainer,
    BackupFragment,
    BackupIndexFile,
    BackupObject,
    decode_backup,
    decode_chunk_list,
    encode_backup,
    encode_chunk_list,
)
from siltstone.core.records.backup_collections import (
    BackupCollection,
    decode_collections,
    encode_collections,
)
from siltstone.core.records.envelope import RecordKind, open_envelope, seal
from tests.support.docs.format_page import example

PAGE = "backup.md"
BACKUP = Backup(
    store_id=bytes.fromhex("6f1c2d3e4a5b4c6d8e9fa0b1c2d3e4f5"),
    generation=3,
    begun_ms=1_700_000_000_123,
    container_count=4,
    owner="pid=4711",
    containers=(
        BackupContainer(
            container=1,
            lineage=bytes(range(16)),
            epoch=9,
            table_version=1_300,
            table_crc=0x11223344,
            segments=5,
            chunks=1,
            chunk_bytes=300_000,
            missing=0,
            list=BackupObject(name="files/1-list", length=55, crc=0x55667788),
            tail=BackupObject(),
            index_files=(
                BackupIndexFile(
                    file_name="000012.sst",
                    content=BackupObject(name="files/1-index", length=4_096, crc=0x99AABBCC),
                ),
            ),
        ),
    ),
    collections=BackupCollections(
        content=BackupObject(name="files/0-collections", length=900, crc=0xDDEEFF00),
        count=2,
        parts=3,
        part_bytes=200_000,
    ),
)
CHUNK = BackupChunk(
    name="data/c1/a.chunk",
    length=300_000,
    fragments=(
        BackupFragment(start=0, stop=270_000, crc=0x01020304),
        BackupFragment(start=262_144, stop=300_000, crc=0x05060708),
    ),
)
U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
ID = st.binary(min_size=16, max_size=16)
TEXT = st.text(max_size=20)
OBJECTS = st.builds(BackupObject, name=TEXT, length=U64, crc=U32)
NAMED = st.builds(BackupObject, name=st.text(min_size=1, max_size=20), length=U64, crc=U32)
COLLECTIONS = st.builds(BackupCollections, content=NAMED, count=U32, parts=U64, part_bytes=U64)
CONTAINERS = st.builds(
    BackupContainer,
    container=U32,
    lineage=ID,
    epoch=U64,
    table_version=U64,
    table_crc=U32,
    segments=U64,
    chunks=U64,
    chunk_bytes=U64,
    missing=U64,
    list=OBJECTS,
    tail=OBJECTS,
    index_files=st.lists(
        st.builds(BackupIndexFile, file_name=TEXT, content=OBJECTS), max_size=2
    ).map(tuple),
)


@pytest.mark.slow
@given(
    st.builds(
        Backup,
        store_id=ID,
        generation=U64,
        begun_ms=U64,
        container_count=U32,
        owner=TEXT,
        containers=st.lists(CONTAINERS, max_size=3).map(tuple),
        collections=st.none() | COLLECTIONS,
        has_left_collections=st.booleans(),
    )
)
def test_what_is_written_is_read(backup: Backup) -> None:
    assert decode_backup(encode_backup(backup), where="here") == backup


def test_the_example_on_the_page() -> None:
    assert encode_backup(BACKUP) == example(PAGE)
    assert decode_backup(example(PAGE), where=PAGE) == BACKUP


def test_any_damaged_byte_is_noticed() -> None:
    data = encode_backup(BACKUP)
    for position in range(len(data)):
        wrong = bytearray(data)
        wrong[position] ^= 0x20
        with pytest.raises((CorruptDataError, FormatError)):
            decode_backup(wrong, where="here")
    with pytest.raises(CorruptDataError):
        decode_backup(data[:-1], where="here")


def test_a_newer_version_is_told_from_damage() -> None:
    with pytest.raises(FormatError):
        decode_backup(seal(RecordKind.BACKUP, 4, b"what will be"), where="here")


def test_a_record_without_collections_is_one_that_older_releases_read() -> None:
    before = replace(BACKUP, collections=None)
    data = encode_backup(before)
    assert open_envelope(data, where="here").version == 1
    assert open_envelope(encode_backup(BACKUP), where="here").version == 2
    assert decode_backup(data, where="here") == before


@pytest.mark.parametrize("found", [BACKUP.collections, None], ids=["some", "none"])
def test_a_record_says_that_it_lacks_collections(found: BackupCollections | None) -> None:
    lacking = replace(BACKUP, collections=found, has_left_collections=True)
    data = encode_backup(lacking)
    assert open_envelope(data, where="here").version == 3
    assert decode_backup(data, where="here") == lacking


@pytest.mark.slow
@given(
    st.lists(
        st.builds(
            BackupCollection,
            name=TEXT,
            id=ID,
            key_columns=U32,
            times=U32,
            history=U64,
            created_ms=U64,
            columns=st.binary(max_size=9),
            state=st.binary(max_size=9),
            parts=st.sampled_from([(), (CHUNK,), (CHUNK, replace(CHUNK, fragments=()))]),
        ),
        max_size=3,
    ).map(tuple)
)
def test_collections_are_read_as_they_were_written(found: tuple[BackupCollection, ...]) -> None:
    data = encode_collections(found)
    assert decode_collections(data, where="here") == found
    for wrong in (data[:-1], data + b"x"):
        with pytest.raises(CorruptDataError, match="where=here"):
            decode_collections(wrong, where="here")


def test_a_list_is_read_as_it_was_written() -> None:
    absent = replace(CHUNK, name="data/c1/b.chunk", fragments=())
    marked = replace(CHUNK, name="old/file", mark=".c1-2a")
    data = encode_chunk_list([CHUNK, absent, marked])
    assert decode_chunk_list(data, 3, where="here") == (CHUNK, absent, marked)
    assert absent.missing
    assert not CHUNK.missing
    for wrong, count in ((data[:-1], 3), (data, 2), (data, 4)):
        with pytest.raises(CorruptDataError, match="where=here"):
            decode_chunk_list(wrong, count, where="here")


@pytest.mark.parametrize(
    "fragments",
    [[(0, 100)], [(0, 200), (250, 300_000)], [(0, 300_001)], [(1, 300_000)], [(0, 9), (5, 9)]],
)
def test_fragments_that_do_not_make_their_chunk_are_damage(
    fragments: list[tuple[int, int]],
) -> None:
    made = tuple(BackupFragment(start=start, stop=stop, crc=0) for start, stop in fragments)
    data = encode_chunk_list([replace(CHUNK, fragments=made)])
    with pytest.raises(CorruptDataError, match="fragments do not make their chunk"):
        decode_chunk_list(data, 1, where="here")
