"""Values of metadata rows: what is written is read back, and nothing else is."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.core.errors import CorruptDataError, FormatError
from siltstone.core.records.attributes import decode_attributes
from siltstone.core.records.block_sums import encode_block_sums, encode_sums, sums_position
from siltstone.core.records.chunk import Chunk, encode_chunk, encode_chunk_head, encode_chunk_tail
from siltstone.core.records.task import decode_task
from siltstone.core.records.wire import Reader, text, uvarint
from tests.unit.records.rows import CHUNKS, CODECS, SUMS


@pytest.mark.slow
@pytest.mark.parametrize("kind", CODECS)
@settings(max_examples=60)
@given(data=st.data())
def test_values_round_trip(kind: str, data: st.DataObject) -> None:
    rows, encode, decode = CODECS[kind]
    row = data.draw(rows)
    assert decode(row, encode(row)) == row


@pytest.mark.slow
@pytest.mark.parametrize("kind", CODECS)
@settings(max_examples=40)
@given(data=st.data())
def test_cut_and_longer_values_are_damaged(kind: str, data: st.DataObject) -> None:
    rows, encode, decode = CODECS[kind]
    row = data.draw(rows)
    value = encode(row)
    with pytest.raises(CorruptDataError):
        decode(row, value + b"\0")
    cut = value[: data.draw(st.integers(0, len(value) - 1))]
    if kind != "block sums" or len(cut) < 2 or len(cut) % 4 != 2:
        with pytest.raises(CorruptDataError):
            decode(row, cut)


@pytest.mark.parametrize("kind", CODECS)
@settings(max_examples=15)
@given(data=st.data())
def test_other_kinds_and_versions_are_refused(kind: str, data: st.DataObject) -> None:
    rows, encode, decode = CODECS[kind]
    row = data.draw(rows)
    value = encode(row)
    with pytest.raises(FormatError):
        decode(row, value[:1] + b"\xfe" + value[2:])
    with pytest.raises(FormatError):
        decode(row, b"\xff" + value[1:])


@pytest.mark.slow
@pytest.mark.parametrize("kind", CODECS)
@settings(max_examples=150)
@given(data=st.data(), noise=st.binary(max_size=40))
def test_noise_meets_typed_errors_only(kind: str, data: st.DataObject, noise: bytes) -> None:
    rows, encode, decode = CODECS[kind]
    row = data.draw(rows)
    for value in (noise, encode(row)[:2] + noise):
        with contextlib.suppress(CorruptDataError, FormatError):
            decode(row, value)


@given(CHUNKS)
def test_what_changes_of_a_chunk_is_its_tail(chunk: Chunk) -> None:
    assert encode_chunk(chunk) == encode_chunk_head(chunk) + encode_chunk_tail(chunk)
    assert len(encode_chunk_tail(chunk)) <= 21


@given(SUMS, st.data())
def test_sums_are_patched_by_position(sums: tuple[int, ...], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(sums)))
    old = encode_block_sums(sums[:first])
    assert sums_position(first) == len(old)
    assert old + encode_sums(sums[first:]) == encode_block_sums(sums)


def test_an_unknown_task_is_of_a_newer_version() -> None:
    value = bytes((9, 1, 0, 0, 0, 0))
    assert decode_task(5, 1, 7, value).subject == 7
    with pytest.raises(FormatError):
        decode_task(5, 99, 7, value)
    with pytest.raises(FormatError):
        decode_task(5, 1, 7, bytes((9, 1, 77, 0, 0, 0)))


@pytest.mark.parametrize("keys", [("b", "a"), ("a", "a"), ("", "")])
def test_attributes_stand_in_the_order_of_their_keys(keys: tuple[str, str]) -> None:
    value = b"\x0d\1\2" + b"".join(text(key) + text("v") for key in keys)
    with pytest.raises(CorruptDataError, match="order"):
        decode_attributes(1, value)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**64 - 1, "ff" * 9 + "01")],
)
def test_uvarints(value: int, encoded: str) -> None:
    assert uvarint(value).hex() == encoded
    reader = Reader(b"\1\1" + uvarint(value), kind=1, version=1, where="test")
    assert reader.uvarint() == value
    reader.end()


@pytest.mark.parametrize("value", [-1, 2**64])
def test_numbers_beyond_u64_are_refused(value: int) -> None:
    with pytest.raises(ValueError, match="u64"):
        uvarint(value)


@pytest.mark.parametrize("encoded", ["ff" * 9 + "02", "80" * 10 + "01", "80", ""])
def test_impossible_uvarints(encoded: str) -> None:
    reader = Reader(b"\1\1" + bytes.fromhex(encoded), kind=1, version=1, where="test")
    with pytest.raises(CorruptDataError):
        reader.uvarint()


def test_text_is_utf8() -> None:
    assert text("é") == b"\x02\xc3\xa9"
    with pytest.raises(CorruptDataError, match="text"):
        Reader(b"\1\1\x01\xff", kind=1, version=1, where="test").text()
