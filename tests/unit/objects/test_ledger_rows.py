"""Values of the rows of a ledger: they come back; damage is told, or changes what a row says.

Rows have no sums of their own: the table log below them has. So what is looked for here is that no
byte crashes a decoder, and that a row which is accepted says exactly what its bytes say.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.core.errors import CorruptDataError, FormatError
from siltstone.core.records.wire import text, uvarint
from siltstone.objects.records.head import Head, decode_head, encode_head, head_fields
from siltstone.objects.records.keys import IndexEntry
from siltstone.objects.records.large_place import LargePlace
from siltstone.objects.records.large_row import LargeRow, decode_large_row, encode_large_row
from siltstone.objects.records.rebuild_rows import (
    Doubt,
    Rebuild,
    RebuildPhase,
    decode_doubt,
    decode_rebuild,
    encode_doubt,
    encode_rebuild,
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
from tests.support.objects.records_to_try import ENTRIES, HEADS, U32, U64, cuts, flipped

HEAD = Head(
    sqn=7,
    previous=6,
    number=1,
    offset=4_096,
    length=120,
    size=9,
    value_hash=bytes(range(8)),
    modified_ms=1_700_000_000_000,
    expires_s=1_800_000_000,
    entries=(IndexEntry(b"city", b"oslo"), IndexEntry(b"day", b"")),
    metadata=b"note",
)
LARGE_HEAD = HEAD._replace(large=LargePlace(7, 2**20, 2**32 - 1))
SPACE = Space(tags={"o": Strategy.RECOVR, "w": Strategy.RETAIN, "é": Strategy.RECALC})
STATE = SpaceState(next_sqn=300, number=4, first_sqn=200, length=70_000, records=99, next_number=5)
MANIFEST = ManifestRow(
    number=3,
    status=ValueStatus.SEALED,
    first_sqn=100,
    last_sqn=199,
    length=2**28,
    records=100,
    footer_end=2**28 + 4_000,
    as_of=250,
    kept=1_000,
)

Decode = Callable[[bytes], object]

ROWS: dict[str, tuple[bytes, Decode]] = {
    "head": (encode_head(HEAD), lambda raw: decode_head(raw, where="a row")),
    "large head": (encode_head(LARGE_HEAD), lambda raw: decode_head(raw, where="a row")),
    "large": (
        encode_large_row(LargeRow(300, 2**33, 1_800_000_000)),
        lambda raw: decode_large_row(raw, where="a row"),
    ),
    "space": (encode_space(SPACE), lambda raw: decode_space(raw, where="a row")),
    "state": (encode_state(STATE), lambda raw: decode_state(raw, where="a row")),
    "rebuild": (
        encode_rebuild(
            Rebuild(
                phase=RebuildPhase.INDEX,
                state=STATE,
                sqn=299,
                seen_ms=1_700_000_000_000,
                position=b"\x10o",
                source="a backup",
            )
        ),
        lambda raw: decode_rebuild(raw, where="a row"),
    ),
    "doubtful": (
        encode_doubt(Doubt(number=3, last_sqn=300)),
        lambda raw: decode_doubt(raw, where="a row"),
    ),
    "manifest": (
        encode_manifest_row(MANIFEST),
        lambda raw: decode_manifest_row(100, raw, where="a row"),
    ),
    "task": (encode_task(1_800_000_000), lambda raw: decode_task(raw, where="a row")),
    "index entry": (
        encode_index_entry(1_800_000_000),
        lambda raw: decode_index_entry(raw, where="a row"),
    ),
}


@given(HEADS)
def test_a_head_comes_back(head: Head) -> None:
    assert decode_head(encode_head(head), where="x") == head


@given(st.dictionaries(st.text("oé\0", max_size=2), st.sampled_from(Strategy), max_size=4))
def test_a_space_comes_back(tags: dict[str, Strategy]) -> None:
    raw = encode_space(Space(tags=tags))
    assert decode_space(raw, where="x") == Space(tags=tags)
    assert encode_space(Space(tags=dict(reversed(tags.items())))) == raw, "the order is of the row"


@pytest.mark.parametrize("mode", list(HeadOnly))
def test_a_space_of_heads_only_comes_back(mode: HeadOnly) -> None:
    space = Space(tags={"h": Strategy.RECOVR}, head_only=mode)
    assert decode_space(encode_space(space), where="x") == space


@given(U32, st.integers(0, 2**32), st.integers(1, 2**63), st.integers(0, 2**40), U64)
def test_a_state_comes_back(
    number: int, more: int, first_sqn: int, records: int, length: int
) -> None:
    state = SpaceState(
        next_sqn=first_sqn + records,
        number=min(number, 2**32 - 2),
        first_sqn=first_sqn,
        length=length,
        records=records,
        next_number=min(number + 1 + more, 2**32 - 1),
    )
    assert decode_state(encode_state(state), where="x") == state


@given(
    st.builds(
        ManifestRow,
        number=U32,
        status=st.sampled_from(ValueStatus),
        first_sqn=U64,
        last_sqn=U64,
        length=U64,
        records=U64,
        footer_end=U64,
        as_of=U64,
    )
)
def test_a_manifest_row_comes_back(row: ManifestRow) -> None:
    assert decode_manifest_row(row.first_sqn, encode_manifest_row(row), where="x") == row


@given(st.builds(LargeRow, sqn=U64, size=U64, not_before_s=U64))
def test_a_row_of_a_large_value_comes_back(row: LargeRow) -> None:
    assert decode_large_row(encode_large_row(row), where="x") == row


@given(U32)
def test_an_index_entry_comes_back(expires_s: int) -> None:
    assert decode_index_entry(encode_index_entry(expires_s), where="x") == expires_s


@pytest.mark.parametrize("name", ROWS)
def test_each_flipped_bit_is_told_or_changes_what_the_row_says(name: str) -> None:
    raw, decode = ROWS[name]
    whole = decode(raw)
    for damaged in flipped(raw):
        try:
            found = decode(damaged)
        except (CorruptDataError, FormatError):
            continue
        assert found != whole


def test_a_flipped_bit_of_a_head_that_is_accepted_is_what_the_head_says() -> None:
    """Two heads never have the same bytes, so a comparison shows what is damaged."""
    for damaged in (*flipped(encode_head(HEAD)), *flipped(encode_head(LARGE_HEAD))):
        try:
            head = decode_head(damaged, where="x")
        except (CorruptDataError, FormatError):
            continue
        assert encode_head(head) == damaged


def test_the_fields_of_a_head_are_given_where_it_can_be_decoded() -> None:
    raw = encode_head(HEAD)
    kinds = set()
    for tried in (raw, *flipped(raw), *cuts(raw)):
        told: type[Exception] | None = None
        try:
            fields = decode_head(tried, where="row")[:9]
        except (CorruptDataError, FormatError) as error:
            told = type(error)
            with pytest.raises(told):
                head_fields(tried, b"row")
        else:
            assert head_fields(tried, b"row")[:9] == fields
        kinds.add(told)
    assert kinds == {None, CorruptDataError, FormatError}


def test_a_flipped_bit_of_the_space_loses_no_tag_without_a_word() -> None:
    for damaged in flipped(encode_space(SPACE)):
        try:
            space = decode_space(damaged, where="x")
        except (CorruptDataError, FormatError):
            continue
        assert len(space.tags) == len(SPACE.tags)


@pytest.mark.parametrize("name", ROWS)
def test_each_cut_is_damage(name: str) -> None:
    raw, decode = ROWS[name]
    begin = len(raw) - len(HEAD.metadata) if "head" in name else len(raw)
    for damaged in cuts(raw[:begin]):
        with pytest.raises(CorruptDataError):
            decode(damaged)


@pytest.mark.parametrize("name", sorted(ROWS.keys() - {"head", "large head"}))
def test_bytes_after_a_row_are_damage(name: str) -> None:
    raw, decode = ROWS[name]
    with pytest.raises(CorruptDataError, match="longer"):
        decode(raw + b"\0")


@given(HEADS, st.binary(max_size=9))
def test_what_follows_the_index_of_a_head_is_metadata(head: Head, more: bytes) -> None:
    found = decode_head(encode_head(head) + more, where="x")
    assert found == head._replace(metadata=head.metadata + more)


@pytest.mark.parametrize("name", ROWS)
def test_another_kind_or_a_newer_version_is_told(name: str) -> None:
    raw, decode = ROWS[name]
    with pytest.raises(FormatError, match="unknown kind"):
        decode(bytes((raw[0] + 8,)) + raw[1:])
    with pytest.raises(FormatError) as caught:
        decode(raw[:1] + b"\x09" + raw[2:])
    error = caught.value
    assert (error.found, error.known) == (9, 1)
    assert error.record == ("head" if "head" in name else "row")


def test_reserved_bytes_and_unknown_shapes_are_told() -> None:
    head = encode_head(HEAD)
    for place in (2, 3):
        with pytest.raises(FormatError, match="unknown flags"):
            decode_head(head[:place] + b"\2" + head[place + 1 :], where="x")
    raw = encode_space(SPACE)
    for place, value in ((2, b"\2"), (3, b"\1"), (3, b"\3")):  # partitions, flags
        with pytest.raises(FormatError, match="unknown shape"):
            decode_space(raw[:place] + value + raw[place + 1 :], where="x")
    with pytest.raises(FormatError, match="unknown strategy"):
        decode_space(raw[:-1] + b"\x09", where="x")


def test_a_large_value_without_pieces_is_damage() -> None:
    raw = encode_head(LARGE_HEAD._replace(large=LargePlace(7, 0, 0)))
    with pytest.raises(CorruptDataError, match="pieces without bytes"):
        decode_head(raw, where="x")


def test_a_space_with_a_tag_twice_is_damage() -> None:
    tag = text("o") + bytes((Strategy.RECOVR,))
    with pytest.raises(CorruptDataError, match="twice"):
        decode_space(b"\2\1\1\0" + uvarint(2) + tag + tag, where="x")


def test_a_tag_that_is_no_text_is_damage() -> None:
    with pytest.raises(CorruptDataError, match="impossible text"):
        decode_space(b"\2\1\1\0\1\1\xff\1", where="x")


@pytest.mark.parametrize(
    "change",
    [
        {"first_sqn": 0},
        {"first_sqn": 301},
        {"records": 101},
        {"number": 5},
        {"next_number": 4},
        {"next_number": 2**32},
    ],
)
def test_a_state_that_contradicts_itself_is_damage(change: dict[str, int]) -> None:
    fields = {name: getattr(STATE, name) for name in SpaceState.__slots__} | change
    with pytest.raises(CorruptDataError, match="contradicts"):
        decode_state(encode_state(SpaceState(**fields)), where="x")


def test_an_impossible_status_or_number_of_a_value_segment_is_damage() -> None:
    raw = encode_manifest_row(MANIFEST)
    with pytest.raises(CorruptDataError, match="unknown status"):
        decode_manifest_row(100, raw[:3] + b"\x04" + raw[4:], where="x")
    with pytest.raises(CorruptDataError, match="impossible number"):
        decode_manifest_row(100, raw[:2] + uvarint(2**32) + raw[3:], where="x")


@given(ENTRIES)
def test_more_entries_than_a_head_has_are_damage(entries: tuple[IndexEntry, ...]) -> None:
    raw = bytearray(encode_head(HEAD._replace(entries=entries, metadata=b"")))
    place = 4 + 8 + 8 + 4 + 8 + 4 + 8 + 8 + 8 + 4
    raw[place : place + 2] = (len(entries) + 1).to_bytes(2, "little")
    with pytest.raises(CorruptDataError, match="cut"):
        decode_head(bytes(raw), where="x")
