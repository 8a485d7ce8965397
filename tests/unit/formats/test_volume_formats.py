"""The examples on the pages of volumes are what the code reads and writes."""

from __future__ import annotations

import pytest
from pyroaring import BitMap

from siltstone.core.errors import FormatError
from siltstone.volumes.records.commit_record import (
    NO_DIGEST,
    Codec,
    CommitRecord,
    Slab,
    decode_record,
    encode_record,
)
from siltstone.volumes.records.place_record import decode_place, encode_place
from siltstone.volumes.records.state_rows import (
    CommitRow,
    Mapping,
    PendingPush,
    Snapshot,
    SyncDirection,
    VolumeConfig,
    VolumeStatus,
    Watermarks,
    decode_commit,
    decode_config,
    decode_push,
    decode_snapshot,
    decode_status,
    decode_watermarks,
    encode_commit,
    encode_config,
    encode_push,
    encode_snapshot,
    encode_status,
    encode_watermarks,
)
from tests.support.docs.format_page import example
from tests.support.docs.metadata_examples import examples

LOG = bytes(range(16))

RECORD = CommitRecord(
    log=LOG,
    lsn=1,
    previous=NO_DIGEST,
    pages=3,
    kept=0,
    client=bytes([0xC1]) * 16,
    time_ms=1_700_000_000_123,
    content=bytes([0xD2]) * 32,
    bundle=bytes([0xB3]) * 16,
    stored=BitMap([1, 2]),
    zeros=BitMap([3]),
    slabs=(Slab(length=61, codec=Codec.ZSTD, crc=0x01020304),),
)
CONFIG = VolumeConfig(log=LOG, sync=SyncDirection.BOTH, place=LOG[::-1])
SNAPSHOT = Snapshot(local=300, mapping=Mapping(2, 299), pages=3, generation=300)
WATERMARKS = Watermarks(pending_sync=299, checkpoint=290)
PUSH = PendingPush(end=300, target=3, digest=b"\xd2" * 4, data=b"\x00\x01")
COMMIT = CommitRow(changed=BitMap([1, 3]), pages=3, kept=2)


def test_a_commit_record() -> None:
    data = example("volume-commit.md")
    assert encode_record(RECORD) == data
    assert decode_record(data, where="x") == RECORD


def test_the_record_of_a_place() -> None:
    data = example("volume-place.md")
    assert encode_place(LOG) == data
    assert decode_place(data, where="x") == LOG


def row(name: str) -> bytes:
    return bytes.fromhex(examples("volume-rows.md")[name])


def test_rows_of_a_volume() -> None:
    assert encode_config(CONFIG) == row("config")
    assert decode_config(row("config"), where="x") == CONFIG
    assert encode_status(VolumeStatus.CONFLICT) == row("status")
    assert decode_status(row("status"), where="x") is VolumeStatus.CONFLICT
    assert encode_snapshot(SNAPSHOT) == row("snapshot")
    assert decode_snapshot(row("snapshot"), where="x") == SNAPSHOT
    assert encode_watermarks(WATERMARKS) == row("watermarks")
    assert decode_watermarks(row("watermarks"), where="x") == WATERMARKS
    assert encode_push(PUSH) == row("push")
    assert decode_push(row("push"), where="x") == PUSH
    assert encode_commit(COMMIT) == row("commit")
    assert decode_commit(row("commit"), where="x") == COMMIT


@pytest.mark.parametrize(
    ("name", "decode"),
    [
        ("config", decode_config),
        ("status", decode_status),
        ("snapshot", decode_snapshot),
        ("watermarks", decode_watermarks),
        ("push", decode_push),
        ("commit", decode_commit),
    ],
)
def test_a_row_of_a_newer_version_is_refused(name: str, decode: object) -> None:
    assert callable(decode)
    newer = bytearray(row(name))
    newer[1] = 200
    with pytest.raises(FormatError, match="found=200 known=1"):
        decode(bytes(newer), where="x")
