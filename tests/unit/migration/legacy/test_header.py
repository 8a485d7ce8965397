"""The grammar of legacy headers, byte for byte."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as some

from siltstone.migration.legacy.header import (
    NO_ROLLING,
    ChunkEntry,
    ChunkOrderError,
    ConcatMarker,
    Entry,
    Header,
    HeaderChunk,
    HeaderError,
    MaxSize,
    encode_header,
    parse_header,
    written_header,
)

STREAM = "scope/stream/0.#epoch.0"
TWO_CHUNKS = bytes.fromhex(
    "6d617873697a653d313637373732313626303d73636f70652f73747265616d2f"
    "302e2365706f63682e30246f66667365742e302631363737373231363d73636f"
    "70652f73747265616d2f302e2365706f63682e30246f66667365742e31363737"
    "3732313626"
)
MERGED = bytes.fromhex(
    "6d617873697a653d3132333426303d746774246f66667365742e3026636f6e63"
    "61743d3240313030266d617873697a653d3132333426303d737263246f666673"
    "65742e302636303d737263246f66667365742e363026"
)
REWRITTEN = bytes.fromhex("6d617873697a653d31323334263230303d736567246f66667365742e32303026")
FAILED = bytes.fromhex(
    "6d617873697a653d3132333426303d746774246f66667365742e3026636f6e63"
    "61743d3240313030263130303d746774246f66667365742e31303026"
)


def parsed(text: str | bytes) -> Header:
    return parse_header(text.encode() if isinstance(text, str) else text, "seg$header")


def chunks(text: str | bytes) -> list[tuple[int, str]]:
    return [(chunk.start, chunk.name) for chunk in parsed(text).chunks]


def entries(raw: bytes) -> bytes:
    return encode_header(parsed(raw).entries, "seg$header")


def test_two_chunks() -> None:
    assert len(TWO_CHUNKS) == 101
    assert chunks(TWO_CHUNKS) == [
        (0, f"{STREAM}$offset.0"),
        (16777216, f"{STREAM}$offset.16777216"),
    ]
    assert parsed(TWO_CHUNKS).max_size == 16 * 1024 * 1024
    made = [HeaderChunk(start=start, name=name) for start, name in chunks(TWO_CHUNKS)]
    assert written_header(16777216, made, "x") == TWO_CHUNKS


def test_a_merged_source_is_shifted() -> None:
    assert len(MERGED) == 86
    assert chunks(MERGED) == [(0, "tgt$offset.0"), (100, "src$offset.0"), (160, "src$offset.60")]
    assert entries(MERGED) == MERGED


def test_a_rewritten_header_begins_after_what_was_truncated() -> None:
    assert chunks(REWRITTEN) == [(200, "seg$offset.200")]
    assert entries(REWRITTEN) == REWRITTEN


def test_a_failed_concat_shifts_nothing() -> None:
    assert len(FAILED) == 60
    assert chunks(FAILED) == [(0, "tgt$offset.0"), (100, "tgt$offset.100")]
    assert parsed(FAILED).dead_markers == 1
    assert entries(FAILED) == FAILED


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 0),
        ("&", 0),
        ("&&", 0),
        ("=x&", 0),
        ("maxsize=5&5=&", 10),
        ("concat=-1@5&", 0),
        ("concat=@5&", 0),
        ("concat=1@&", 0),
        ("concat=1@-5&", 0),
        ("concat=2147483648@5&", 0),
        ("abc=x&", 0),
        ("maxsize=5&x&", 10),
        ("maxsize=0&", 0),
        ("maxsize=many&", 0),
        ("9223372036854775808=x&", 0),
        ("maxsize=5&0=é&ñ=x&", 15),
        (b"maxsize=5&0=\xff&", 10),
        ("hello", 0),
    ],
)
def test_what_is_no_header(text: str | bytes, position: int) -> None:
    with pytest.raises(HeaderError) as failed:
        parsed(text)
    assert failed.value.position == position
    assert "seg$header" in str(failed.value)


@pytest.mark.parametrize("text", ["10=a&5=b&", "concat=2@100&0=x&7=y&9=z&", "-1=x&"])
def test_offsets_must_not_fall(text: str) -> None:
    with pytest.raises(ChunkOrderError):
        parsed(text)


def test_what_is_unusual_and_right() -> None:
    assert parsed("MAXSIZE=5&").max_size == 5
    assert chunks("0=a=b&") == [(0, "a=b")]
    assert chunks("&&0=a&&&5=b&&") == [(0, "a"), (5, "b")]
    assert parsed("maxsize=5&maxsize=7&0=a&").max_size == 5
    assert parsed("0=a&").max_size is None
    assert parsed("0=a&").rolling_bytes == NO_ROLLING
    assert parsed("maxsize=9223372036854775807&").rolling_bytes == NO_ROLLING
    assert chunks("0=a&0=b&") == [(0, "a"), (0, "b")]


def test_a_later_marker_takes_the_place_of_one_that_failed() -> None:
    found = parsed("0=t&concat=3@10&concat=3@10&concat=2@10&maxsize=9&0=a&5=b&")
    assert [chunk.start for chunk in found.chunks] == [0, 10, 15]
    assert (found.dead_markers, found.missing_chunks, found.nested) == (2, 0, False)


def test_a_dead_marker_at_nought_does_no_harm() -> None:
    found = parsed("maxsize=9&concat=3@0&0=t$offset.0&")
    assert [chunk.start for chunk in found.chunks] == [0]
    assert found.missing_chunks == 0


def test_a_source_of_which_a_part_is_missing() -> None:
    assert parsed("0=t&concat=3@10&maxsize=9&0=a&").missing_chunks == 2
    assert parsed("0=t&concat=3@10&0=a&").missing_chunks == 2
    assert parsed("0=t&concat=3@0&maxsize=9&0=a&").missing_chunks == 2
    assert parsed("0=t&concat=3@10&maxsize=9&").missing_chunks == 0


def test_a_concat_in_a_concat_is_known() -> None:
    text = "0=t&concat=2@10&maxsize=9&0=a&concat=1@20&maxsize=9&0=b&"
    assert parsed(text).nested


@pytest.mark.parametrize("torn", ["maxsize=5", "maxsize=", "max"])
def test_a_first_entry_that_is_torn(torn: str) -> None:
    found = parsed(torn)
    assert (found.torn, found.chunks, found.max_size) == (torn, (), None)


def test_a_torn_end_is_kept_apart() -> None:
    found = parsed("maxsize=5&0=a$offset.0&1677=scope/str")
    assert found.torn == "1677=scope/str"
    assert [chunk.name for chunk in found.chunks] == ["a$offset.0"]
    assert found.torn_chunk == HeaderChunk(start=1677, name="scope/str")
    assert parsed("maxsize=5&0=a&1677=").torn_chunk is None
    assert parsed("maxsize=5&0=a&7=b&5=c").torn_chunk is None
    assert parsed("maxsize=5&0=a&7=b&7=c").torn_chunk == HeaderChunk(start=7, name="c")
    assert parsed(b"maxsize=5&0=a&7=\xc3").torn_chunk is None


def test_a_torn_chunk_of_a_source_is_shifted() -> None:
    begun = "maxsize=5&0=a&concat=2@100&maxsize=5&0=b&"
    assert parsed(begun + "7=c").torn_chunk == HeaderChunk(start=107, name="c")
    assert parsed(begun + "7=c&110=d").torn_chunk == HeaderChunk(start=110, name="d")


def test_a_torn_chunk_after_a_concat_that_failed_is_not_shifted() -> None:
    assert parsed(FAILED[:-1]).torn_chunk == HeaderChunk(start=100, name="tgt$offset.100")


def test_a_name_that_no_header_can_hold() -> None:
    with pytest.raises(HeaderError, match="a&b"):
        written_header(5, [HeaderChunk(start=0, name="a&b")], "x")


names = some.text(
    some.characters(exclude_characters="&", exclude_categories=["Cs"]), min_size=1, max_size=8
)
sizes = some.integers(1, 2**63 - 1)
any_entry: some.SearchStrategy[Entry] = some.one_of(
    some.builds(MaxSize, size=sizes),
    some.builds(ConcatMarker, count=some.integers(0, 2**31 - 1), offset=some.integers(0, 2**40)),
    some.builds(ChunkEntry, offset=some.integers(0, 2**40), name=names),
)


@pytest.mark.slow
@given(some.lists(any_entry, min_size=1, max_size=12))
def test_entries_come_back(written: list[Entry]) -> None:
    raw = encode_header(written, "x")
    with suppress(ChunkOrderError):
        assert list(parsed(raw).entries) == written


@given(some.binary(max_size=60))
def test_noise_meets_typed_errors_only(raw: bytes) -> None:
    with suppress(HeaderError):
        parsed(raw)
