"""States of collections and their changes: round trips, damage, and the examples on their pages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.core.errors import CorruptDataError, FormatError
from siltstone.core.records.collection_batch import (
    Batches,
    CollectionBatch,
    decode_batch,
    encode_batch,
)
from siltstone.core.records.collection_change import (
    ChangeKind,
    ReplacedBatches,
    decode_change,
    encode_change,
)
from siltstone.core.records.collection_entry import Rollup
from siltstone.core.records.collection_frontier import DONE, HISTORY_ALL
from siltstone.core.records.collection_part import (
    CollectionPart,
    PartFlags,
    decode_part,
    encode_part,
)
from siltstone.core.records.collection_rows import (
    Bookmark,
    CollectionReader,
    CollectionSchema,
    CollectionWriter,
)
from siltstone.core.records.collection_state import (
    CollectionState,
    Life,
    Times,
    decode_state,
    encode_state,
)
from siltstone.core.records.envelope import RecordKind, open_only, seal
from tests.support.docs.format_page import example

STATE_PAGE = "collection-state.md"
CHANGE_PAGE = "collection-change.md"
TIME_MS = 1_700_000_000_123

UPLOADED = CollectionPart(
    writer=0x0123456789ABCDEF,
    born=2,
    number=0,
    nonce=0xFEDCBA9876543210,
    length=4_096,
    footer_length=512,
    crc=0x1BADCAFE,
    footer_crc=0x2BADCAFE,
    rows=70,
    schema_id=0,
    flags=PartFlags.HAS_TIME | PartFlags.HAS_DIFF | PartFlags.HAS_NEGATIVES,
    time=0,
    time_min=3,
    time_max=9,
    diff_sum=-2,
    key_min=b"bergen",
    key_max=b"oslo",
)
INLINE = CollectionPart(
    inline=b"rows",
    length=4,
    crc=0x3BADCAFE,
    rows=2,
    schema_id=0,
    flags=PartFlags(0),
    time=12,
    time_min=12,
    time_max=12,
    diff_sum=2,
)
FIRST = CollectionBatch(lower=0, upper=10, since=3, runs=((UPLOADED,),))
SECOND = CollectionBatch(lower=10, upper=13, runs=((INLINE,),))
SCHEMA = CollectionSchema(schema_id=0, key_columns=1, arrow=b"schema")
ROLLUP = Rollup(seqno=2, nonce=0x0F1E2D3C4B5A6978, length=300, crc=0x4BADCAFE)
READER = CollectionReader(
    id=5, hold=3, since=4, lease_ms=900_000, renewed_ms=TIME_MS, who="pid=4711"
)
WRITER = CollectionWriter(
    name="loader-7",
    id=0,
    sequence=41,
    upper=13,
    hold=0,
    lease_ms=0,
    renewed_ms=TIME_MS,
    who="pid=4712",
)
BOOKMARK = Bookmark(name="billing", since=4, token=bytes(range(16)), who="pid=4713")
STATE = CollectionState(
    id=bytes(range(16)),
    seqno=6,
    written_ms=TIME_MS,
    since=3,
    times=Times.COUNT,
    history=7,
    floor=2,
    collected=3,
    schemas={0: SCHEMA},
    batches=Batches().added(FIRST).added(SECOND),
    rollups={2: ROLLUP},
    readers={5: READER},
    writers={"loader-7": WRITER},
    bookmarks={"billing": BOOKMARK},
)
MERGED = ReplacedBatches(
    lower=0, upper=13, batches=(CollectionBatch(lower=0, upper=13, since=3, runs=((INLINE,),)),)
)
CHANGES: dict[ChangeKind, Any] = {
    ChangeKind.SINCE: DONE,
    ChangeKind.LIFE: Life.DROPPED,
    ChangeKind.FORMAT: 1,
    ChangeKind.FLOOR: 2**64 - 1,
    ChangeKind.COLLECTED: 3,
    ChangeKind.PUT_SCHEMA: SCHEMA,
    ChangeKind.DROP_SCHEMA: 2**32 - 1,
    ChangeKind.PUT_READER: READER,
    ChangeKind.DROP_READER: 5,
    ChangeKind.PUT_WRITER: WRITER,
    ChangeKind.DROP_WRITER: "bodø",
    ChangeKind.PUT_BOOKMARK: BOOKMARK,
    ChangeKind.DROP_BOOKMARK: "billing",
    ChangeKind.PUT_ROLLUP: ROLLUP,
    ChangeKind.DROP_ROLLUP: 2,
    ChangeKind.PUT_BATCH: SECOND,
    ChangeKind.REPLACE_BATCHES: MERGED,
}

U16 = st.integers(0, 2**16 - 1)
U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
FRONTIERS = st.integers(0, 2**63 - 2) | st.just(DONE)
TEXT = st.text(max_size=20)
UPLOADS = st.builds(
    CollectionPart,
    writer=U64,
    born=U64,
    number=U32,
    nonce=U64,
    length=st.integers(2**32, 2**64 - 1),
    footer_length=U32,
    crc=U32,
    footer_crc=U32,
    rows=st.integers(1, 2**64 - 1),
    schema_id=U32,
    flags=st.sampled_from([PartFlags(n) for n in (3, 7)]),
    time=U64,
    time_min=st.integers(0, 50),
    time_max=st.integers(50, 99),
    diff_sum=st.integers(-(2**63), 2**63 - 1),
    key_min=st.binary(max_size=32),
    key_max=st.binary(max_size=32),
)


def corrupt(state: CollectionState, match: str) -> None:
    with pytest.raises(CorruptDataError, match=match) as caught:
        decode_state(encode_state(state), where="the rollup")
    assert caught.value.where == "the rollup"


@given(UPLOADS)
def test_a_part_is_read_as_it_was_written(part: CollectionPart) -> None:
    assert decode_part(encode_part(part), where="x") == part


@given(
    st.builds(CollectionSchema, schema_id=U32, key_columns=U16, arrow=st.binary(max_size=9)),
    st.builds(
        CollectionReader,
        id=U64,
        hold=U64,
        since=FRONTIERS,
        lease_ms=U32,
        renewed_ms=U64,
        who=TEXT,
    ),
    st.builds(
        CollectionWriter,
        name=TEXT,
        id=U64,
        sequence=st.integers(-1, 2**63 - 1),
        upper=FRONTIERS,
        hold=U64,
        lease_ms=st.integers(1, 2**32 - 1),
        renewed_ms=U64,
        who=TEXT,
    ),
    st.builds(
        Bookmark, name=TEXT, since=FRONTIERS, token=st.binary(min_size=16, max_size=16), who=TEXT
    ),
)
def test_rows_are_read_as_they_were_written(
    schema: CollectionSchema, reader: CollectionReader, writer: CollectionWriter, mark: Bookmark
) -> None:
    for kind, row in (
        (ChangeKind.PUT_SCHEMA, schema),
        (ChangeKind.PUT_READER, reader),
        (ChangeKind.PUT_WRITER, writer),
        (ChangeKind.PUT_BOOKMARK, mark),
    ):
        assert decode_change(kind, encode_change(kind, row).body, where="x") == row
    state = replace(
        STATE,
        life=Life.MOVED,
        times=Times.MILLISECONDS,
        history=HISTORY_ALL,
        schemas={schema.schema_id: schema},
        readers={reader.id: reader},
        writers={writer.name: writer},
        bookmarks={mark.name: mark},
    )
    assert decode_state(encode_state(state), where="x") == state


@pytest.mark.parametrize("kind", ChangeKind)
def test_each_kind_of_change_is_read_as_it_was_written(kind: ChangeKind) -> None:
    change = encode_change(kind, CHANGES[kind])
    assert change.kind == kind
    assert decode_change(change.kind, change.body, where="x") == CHANGES[kind]
    for body in (change.body[:-1], change.body + b"x"):
        with pytest.raises(CorruptDataError, match="where=an entry"):
            decode_change(kind, body, where="an entry")


def test_the_example_of_a_state_on_its_page() -> None:
    assert encode_state(STATE) == example(STATE_PAGE)
    assert decode_state(example(STATE_PAGE), where=STATE_PAGE) == STATE


def test_the_example_of_a_change_on_its_page() -> None:
    body = example(CHANGE_PAGE)
    assert encode_change(ChangeKind.REPLACE_BATCHES, MERGED).body == body
    assert decode_change(17, body, where=CHANGE_PAGE) == MERGED


def test_equal_states_have_equal_bytes_whatever_the_order_of_their_rows() -> None:
    others = [replace(WRITER, name=name) for name in ("b", "a")]
    one = replace(STATE, writers={row.name: row for row in others})
    other = replace(STATE, writers={row.name: row for row in reversed(others)})
    assert encode_state(one) == encode_state(other)


def test_any_damaged_byte_and_every_cut_is_noticed() -> None:
    data = encode_state(STATE)
    damaged = [data[:length] for length in range(len(data))]
    damaged += [data[:n] + bytes([data[n] ^ 0x20]) + data[n + 1 :] for n in range(len(data))]
    for wrong in [*damaged, data + b"x"]:
        with pytest.raises(CorruptDataError, match="where=here"):
            decode_state(wrong, where="here")


def test_what_a_newer_version_writes_is_told_from_damage() -> None:
    body = open_only(encode_state(STATE), RecordKind.COLLECTION_STATE, 1, where="x")
    with pytest.raises(FormatError, match="collection of an unknown version found=2 known=1"):
        decode_state(
            seal(RecordKind.COLLECTION_STATE, 1, body[:16] + b"\2\0" + body[18:]), where="x"
        )
    with pytest.raises(FormatError, match="change of an unknown kind where=x kind=99"):
        decode_change(99, b"", where="x")
    with pytest.raises(FormatError, match="found=2 known=1"):
        decode_change(ChangeKind.FORMAT, b"\2\0", where="x")


@pytest.mark.parametrize(
    ("state", "match"),
    [
        (replace(STATE, since=2**63), "impossible since"),
        (replace(STATE, history=0), "without a history"),
        (replace(STATE, floor=1), "floor is no rollup"),
        (replace(STATE, collected=7), "names a later one"),
        (replace(STATE, rollups={2: ROLLUP, 7: replace(ROLLUP, seqno=7)}), "names a later one"),
        (replace(STATE, readers={5: replace(READER, since=2**63 - 1)}), "no frontier"),
        (replace(STATE, writers={"a": replace(WRITER, name="a", sequence=-2)}), "sequence"),
        (replace(STATE, writers={"a": replace(WRITER, name="a", hold=1)}), "uploads for ever"),
        (replace(STATE, schemas={0: replace(SCHEMA, arrow=bytes(65_537))}), "too long"),
        (replace(STATE, schemas={0: SCHEMA, 1: SCHEMA}), "not in order"),
    ],
)
def test_a_state_that_can_not_be_is_damage(state: CollectionState, match: str) -> None:
    corrupt(state, match)


def test_batches_with_a_gap_or_an_overlap_are_damage() -> None:
    for lower in (9, 11):
        other = replace(SECOND, lower=lower)
        corrupt(replace(STATE, batches=replace(STATE.batches, items=(FIRST, other))), "not fit")


def test_an_upper_that_is_not_that_of_the_batches_is_damage() -> None:
    data = encode_state(STATE)
    body = open_only(data, RecordKind.COLLECTION_STATE, 1, where="x")
    at = 16 + 2 + 8 + 8 + 1 + 8
    assert body[at] == 13
    wrong = body[:at] + b"\x0c" + body[at + 1 :]
    with pytest.raises(CorruptDataError, match="another upper"):
        decode_state(seal(RecordKind.COLLECTION_STATE, 1, wrong), where="x")


@pytest.mark.parametrize(
    ("part", "match"),
    [
        (replace(INLINE, writer=1), "inline and in an object"),
        (replace(INLINE, footer_length=1), "inline and in an object"),
        (replace(INLINE, rows=0), "without rows"),
        (replace(UPLOADED, footer_length=4_097), "shorter than its footer"),
        (replace(UPLOADED, time_min=10), "impossible times"),
        (replace(UPLOADED, time_max=2**63 - 1), "impossible times"),
        (replace(INLINE, time=11), "several times"),
        (replace(INLINE, diff_sum=3), "another sum"),
        (replace(INLINE, flags=PartFlags.HAS_NEGATIVES), "another sum"),
        (replace(UPLOADED, key_max=bytes(33)), "too long"),
    ],
)
def test_a_part_that_can_not_be_is_not_written_and_is_damage(
    part: CollectionPart, match: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AssertionError, match=match):
        encode_part(part)
    with monkeypatch.context() as patch:
        patch.setattr("siltstone.core.records.collection_part.contradiction", lambda _: "")
        data = encode_part(part)
    with pytest.raises(CorruptDataError, match=match):
        decode_part(data, where="x")


@pytest.mark.parametrize(
    "batch",
    [
        replace(SECOND, upper=12),
        replace(SECOND, lower=13),
        replace(SECOND, upper=10),
        replace(SECOND, upper=2**63),
        replace(SECOND, runs=((INLINE,), ())),
    ],
)
def test_a_batch_that_can_not_be_is_damage(
    batch: CollectionBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("siltstone.core.records.collection_batch.is_possible", lambda _: True)
        data = encode_batch(batch)
    with pytest.raises(CorruptDataError, match="batch with impossible times"):
        decode_batch(data, where="x")


def test_a_compacted_batch_may_have_its_since_as_a_time_beyond_its_upper() -> None:
    late = replace(INLINE, time=20, time_min=20, time_max=20)
    batch = replace(SECOND, since=20, runs=((late,),))
    assert decode_batch(encode_batch(batch), where="x") == batch


def test_a_batch_that_was_made_of_another_one_is_encoded_as_it_is_itself() -> None:
    before = encode_batch(SECOND)
    longer = replace(SECOND, upper=SECOND.upper + 1)
    assert decode_batch(encode_batch(longer), where="x") == longer
    assert encode_batch(SECOND) == before != encode_batch(longer)


def test_batches_count_their_parts_and_inline_bytes() -> None:
    batches = STATE.batches
    assert (batches.part_count, batches.inline_bytes, batches.upper) == (2, 4, 13)
    assert batches.span(0, 13) == (0, 2)
    assert batches.span(10, 13) == (1, 2)
    assert batches.span(0, 12) is None
    assert batches.span(1, 13) is None
    merged = batches.replaced(0, 2, MERGED.batches)
    assert merged == Batches().added(MERGED.batches[0])
    with pytest.raises(ValueError, match="does not fit at 13"):
        batches.added(SECOND)
