"""The store manifest, claims and pins: round trips, damage, and the examples on their pages."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.core.checksums import crc32c
from siltstone.core.errors import CorruptDataError, FormatError
from siltstone.core.records.cached_block import (
    CachedBlock,
    decode_cached_block,
    encode_cached_block,
)
from siltstone.core.records.claim import Claim, decode_claim, encode_claim
from siltstone.core.records.collection_choice import decode_choice, encode_choice
from siltstone.core.records.collection_rollup import (
    RolledState,
    decode_rollup,
    encode_rollup,
)
from siltstone.core.records.envelope import RecordKind, seal
from siltstone.core.records.import_note import (
    ImportNote,
    NotedChunk,
    decode_import_note,
    encode_import_note,
)
from siltstone.core.records.pin import Pin, decode_pin, encode_pin
from siltstone.core.records.recovery import Recovery, decode_recovery, encode_recovery
from siltstone.core.records.store_manifest import (
    StoreManifest,
    decode_store_manifest,
    encode_store_manifest,
)
from tests.support.docs.format_page import example

U64 = st.integers(0, 2**64 - 1)
UUIDS = st.binary(min_size=16, max_size=16)
LINEAGE = bytes(range(16))
TIME_MS = 1_700_000_000_123

MANIFEST = StoreManifest(
    store_id=bytes.fromhex("6f1c2d3e4a5b4c6d8e9fa0b1c2d3e4f5"),
    container_count=4,
    created_ms=TIME_MS,
)
CLAIM = Claim(lineage=LINEAGE, epoch=7, owner="host-a pid 4711", claimed_ms=TIME_MS)
PIN = Pin(lineage=LINEAGE, version=1_300, expires_ms=TIME_MS + 600_000, ttl_ms=600_000)
RECOVERY = Recovery(
    lineage=LINEAGE,
    previous_lineage=bytes(reversed(LINEAGE)),
    epoch=9,
    made_ms=TIME_MS,
    cut_version=1_300,
    table_version=1_300 + 2**40,
    frames=2,
    owner="host-a pid 4711",
)

NOTE = ImportNote(
    chunk_bytes=32 * 2**20,
    chunks=(
        NotedChunk(piece=3, length=300_000, name="import/c0/07/00001-0-5eed", sums=(1, 0xDEADBEEF)),
        NotedChunk(piece=4, length=1, name="import/c0/07/00002-0-5eed", sums=(7,)),
    ),
)

ROLLUP = RolledState(collection_id=LINEAGE, seqno=1, state=b"a state")

Codec = tuple[str, Any, Callable[[Any], bytes], Callable[..., Any]]
CODECS: list[Codec] = [
    ("store-manifest.md", MANIFEST, encode_store_manifest, decode_store_manifest),
    ("claim.md", CLAIM, encode_claim, decode_claim),
    ("pin.md", PIN, encode_pin, decode_pin),
    ("import-note.md", NOTE, encode_import_note, decode_import_note),
    ("collection-choice.md", "objects", encode_choice, decode_choice),
    ("collection-rollup.md", ROLLUP, encode_rollup, decode_rollup),
    ("recovery.md", RECOVERY, encode_recovery, decode_recovery),
]
each = pytest.mark.parametrize("codec", CODECS, ids=[codec[0] for codec in CODECS])


@given(st.builds(StoreManifest, store_id=UUIDS, container_count=st.integers(1, 99), created_ms=U64))
def test_manifest_comes_back(manifest: StoreManifest) -> None:
    assert decode_store_manifest(encode_store_manifest(manifest), where="x") == manifest


@given(st.builds(Claim, lineage=UUIDS, epoch=U64, owner=st.text(max_size=90), claimed_ms=U64))
def test_claim_comes_back(claim: Claim) -> None:
    assert decode_claim(encode_claim(claim), where="x") == claim


@given(
    st.builds(
        Recovery,
        lineage=UUIDS,
        previous_lineage=UUIDS,
        epoch=U64,
        made_ms=U64,
        cut_version=U64,
        table_version=U64,
        frames=U64,
        owner=st.text(max_size=90),
    )
)
def test_recovery_comes_back(recovery: Recovery) -> None:
    assert decode_recovery(encode_recovery(recovery), where="x") == recovery


@given(st.builds(Pin, lineage=UUIDS, version=U64, expires_ms=U64, ttl_ms=U64))
def test_pin_comes_back(pin: Pin) -> None:
    assert decode_pin(encode_pin(pin), where="x") == pin


@given(st.text(max_size=90))
def test_choice_comes_back(choice: str) -> None:
    assert decode_choice(encode_choice(choice), where="x") == choice


def test_a_pin_of_version_1_says_no_time_to_live() -> None:
    """The bytes of a pin from before pins recorded their time to live."""
    data = bytes.fromhex(
        "534c5452 05 01 0000 20000000 000102030405060708090a0b0c0d0e0f"
        "1405000000000000 3b90eecf8b010000 4ed680c2"
    )
    pin = Pin(lineage=LINEAGE, version=1_300, expires_ms=TIME_MS + 600_000, ttl_ms=0)
    assert decode_pin(data, where="x") == pin
    assert encode_pin(pin) == data


@each
def test_the_page_decodes(codec: Codec) -> None:
    page, record, encode, decode = codec
    assert decode(example(page), where=page) == record
    assert encode(record) == example(page)


@each
def test_every_changed_byte_and_every_cut_is_corrupt(codec: Codec) -> None:
    _, record, encode, decode = codec
    raw = encode(record)
    damaged = [raw[:length] for length in range(len(raw))]
    damaged += [raw[:n] + bytes([raw[n] ^ 0x41]) + raw[n + 1 :] for n in range(len(raw))]
    for data in [*damaged, raw + b"x"]:
        with pytest.raises(CorruptDataError) as caught:
            decode(data, where="the object")
        assert caught.value.where == "the object"


@each
def test_a_newer_version_is_a_format_error(codec: Codec) -> None:
    _, record, encode, decode = codec
    raw = bytearray(encode(record))
    raw[5] += 1
    raw[-4:] = struct.pack("<I", crc32c(raw[:-4]))
    with pytest.raises(FormatError):
        decode(raw, where="x")


@pytest.mark.parametrize(
    ("format_number", "hash_name"), [(2, "blake2b-64"), (1, "sha-1")], ids=["format", "hash"]
)
def test_a_newer_store_is_a_format_error(format_number: int, hash_name: str) -> None:
    manifest = StoreManifest(
        store_id=bytes(16),
        container_count=1,
        created_ms=0,
        format_number=format_number,
        hash_name=hash_name,
    )
    with pytest.raises(FormatError):
        decode_store_manifest(encode_store_manifest(manifest), where="x")


def test_impossible_fields_are_corrupt() -> None:
    body = bytes(16) + struct.pack("<IIQH", 1, 0, 0, 10) + b"blake2b-64"
    with pytest.raises(CorruptDataError, match="container"):
        decode_store_manifest(seal(RecordKind.STORE_MANIFEST, 1, body), where="x")
    body = struct.pack("<QIIQHI", 1, 1, 0, 300_000, 0, 1) + bytes(4)
    with pytest.raises(CorruptDataError, match="sums"):
        decode_import_note(seal(RecordKind.IMPORT_NOTE, 1, body), where="x")
    body = bytes(32) + struct.pack("<H", 1) + b"\xff"
    with pytest.raises(CorruptDataError, match="UTF-8"):
        decode_claim(seal(RecordKind.CLAIM, 1, body), where="x")
    for body in (b"\x01\x00\xff", b"\x02\x00a", b"\x01\x00ab"):
        with pytest.raises(CorruptDataError):
            decode_choice(seal(RecordKind.COLLECTION_CONSENSUS, 1, body), where="x")


def test_cached_block() -> None:
    data = example("cached-block.md")
    block = CachedBlock(
        store=bytes(range(16)), name="data/c0/a", block=2, length=5, sum=crc32c(b"hello")
    )
    assert decode_cached_block(data) == block
    assert encode_cached_block(block) == data
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1
        assert decode_cached_block(damaged) is None
