"""The examples on the pages of the log's formats decode to what the pages say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from siltstone.core.checksums import crc32c
from siltstone.core.errors import CorruptDataError, FormatError
from siltstone.core.records.frame import KIND_BATCH, Frame, decode_frame, encode_frame
from siltstone.core.records.log_file_header import (
    LogFileHeader,
    decode_log_file_header,
    encode_log_file_header,
)
from siltstone.core.records.marker_slot import MarkerSlot, decode_marker_slot, encode_marker_slot
from siltstone.tier1.kafka.claim_record import (
    KIND_CLAIM,
    ClaimRecord,
    decode_claim_record,
    encode_claim_record,
)
from tests.support.docs.format_page import example

LINEAGE = bytes(range(16))
NONCE = bytes(range(0xA0, 0xB0))


def test_frame() -> None:
    data = example("frame.md")
    frame = decode_frame(data)
    assert frame == Frame(
        kind=KIND_BATCH,
        lineage=LINEAGE,
        epoch=2,
        index=7,
        previous_crc=0x1234ABCD,
        count=1,
        body=b"hello",
        crc=int.from_bytes(data[-4:], "little"),
    )
    assert frame.size == len(data)
    encoded = encode_frame(
        [b"hel", b"lo"],
        kind=KIND_BATCH,
        lineage=LINEAGE,
        epoch=2,
        index=7,
        previous_crc=0x1234ABCD,
        count=1,
    )
    assert b"".join(encoded.buffers) == data


def test_log_file_header() -> None:
    frame = example("frame.md")
    crc = int.from_bytes(frame[-4:], "little")
    header = LogFileHeader(
        lineage=LINEAGE,
        nonce=NONCE,
        container=3,
        number=0,
        epoch=5,
        predecessor_epoch=2,
        predecessor_end=8,
        predecessor_crc=crc,
        copy_length=len(frame),
        first_index=8,
        previous_crc=crc,
    )
    assert decode_log_file_header(example("log-file.md")) == header
    assert encode_log_file_header(header) == example("log-file.md")
    assert header.frames_offset == 4096 + len(frame)


def test_marker_slot() -> None:
    slot = MarkerSlot(epoch=5, nonce=NONCE)
    assert decode_marker_slot(example("marker.md")) == slot
    assert encode_marker_slot(slot) == example("marker.md")


@pytest.mark.parametrize(
    ("page", "decode"),
    [
        ("frame.md", decode_frame),
        ("log-file.md", decode_log_file_header),
        ("marker.md", decode_marker_slot),
    ],
)
def test_every_flip_and_truncation_is_seen(page: str, decode: object) -> None:
    assert callable(decode)
    data = example(page)
    for place in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[place] ^= 1 << bit
            assert decode(damaged) is None
        assert decode(data[:place]) is None
    assert decode(bytes(len(data))) is None


@pytest.mark.parametrize("place", [4, 5])
def test_newer_versions_are_told_from_damage(place: int) -> None:
    for page, decode in (
        ("frame.md", decode_frame),
        ("log-file.md", decode_log_file_header),
        ("marker.md", decode_marker_slot),
    ):
        data = bytearray(example(page))
        data[place] = 9
        data[-4:] = crc32c(data[:-4]).to_bytes(4, "little")
        with pytest.raises(FormatError):
            decode(data)


@pytest.mark.parametrize(
    "change",
    [
        {"predecessor_epoch": 5},
        {"predecessor_epoch": 0},
        {"predecessor_end": 0},
        {"first_index": 7},
        {"first_index": 9},
        {"previous_crc": 1},
        {"number": 1},
    ],
)
def test_impossible_headers_are_refused(change: dict[str, int]) -> None:
    header = decode_log_file_header(example("log-file.md"))
    assert header is not None
    impossible = replace(header, **change)  # type: ignore[arg-type]
    with pytest.raises(CorruptDataError):
        decode_log_file_header(encode_log_file_header(impossible))


def test_impossible_slots_are_refused() -> None:
    with pytest.raises(CorruptDataError):
        decode_marker_slot(encode_marker_slot(MarkerSlot(epoch=0, nonce=NONCE)))


def test_kafka_claim() -> None:
    data = example("kafka-claim.md")
    record = ClaimRecord(
        kind=KIND_CLAIM,
        lineage=LINEAGE,
        nonce=NONCE,
        above=4,
        host=bytes(range(0xC0, 0xD0)),
        pid=4711,
        started=123456,
        owner="pid=4711",
    )
    assert decode_claim_record(data) == record
    assert encode_claim_record(record) == data


@pytest.mark.parametrize("place", range(len(example("kafka-claim.md"))))
def test_a_damaged_claim_is_none(place: int) -> None:
    data = bytearray(example("kafka-claim.md"))
    data[place] ^= 1
    assert decode_claim_record(bytes(data)) is None


@pytest.mark.parametrize("length", [0, 4, 80, 91])
def test_a_short_claim_is_none(length: int) -> None:
    assert decode_claim_record(example("kafka-claim.md")[:length]) is None


@pytest.mark.parametrize("place", [4, 5])
def test_a_claim_of_a_newer_version_is_told(place: int) -> None:
    data = bytearray(example("kafka-claim.md"))
    data[place] = 9
    data[-4:] = crc32c(data[:-4]).to_bytes(4, "little")
    with pytest.raises(FormatError):
        decode_claim_record(bytes(data))


@pytest.mark.parametrize("place", [6, 76])
def test_an_impossible_claim_is_told(place: int) -> None:
    data = bytearray(example("kafka-claim.md"))
    data[place] ^= 1
    data[-4:] = crc32c(data[:-4]).to_bytes(4, "little")
    with pytest.raises(CorruptDataError):
        decode_claim_record(bytes(data))
