"""Entries of collections: round trips, damage, contradictions, and the example on their page."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.core.errors import CorruptDataError, FormatError
from siltstone.core.records import collection_entry
from siltstone.core.records.collection_entry import (
    Change,
    Diff,
    Entry,
    Rollup,
    decode_entry,
    encode_entry,
)
from siltstone.core.records.envelope import RecordKind, open_only, seal
from tests.support.docs.format_page import example

PAGE = "collection-entry.md"
TIME_MS = 1_700_000_000_123
U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)

ANCHOR = Rollup(seqno=0, nonce=0x0123456789ABCDEF, length=60, crc=0x1BADCAFE)
LINK = Rollup(seqno=1, nonce=0xFEDCBA9876543210, length=61, crc=0x2BADCAFE)
FIRST = Diff(
    seqno=1,
    token=7,
    written_ms=TIME_MS,
    actor="host-a pid 4711",
    changes=(Change(kind=1, body=b"abc"), Change(kind=2, body=b"")),
)
SECOND = Diff(seqno=2, token=8, written_ms=TIME_MS + 1, actor="host-b pid 7", changes=())
ENTRY = Entry(
    collection_id=bytes(range(16)),
    seqno=2,
    base=0,
    rollup=ANCHOR,
    link=LINK,
    diffs=(FIRST, SECOND),
)


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    begin = draw(st.integers(0, 2**63))
    base = begin + draw(st.integers(0, 1_000))
    count = draw(st.integers(1, 4))
    times = sorted(draw(st.sets(U64, min_size=count, max_size=count)))
    changes = st.lists(st.builds(Change, kind=st.integers(0, 255), body=st.binary()), max_size=3)
    diffs = tuple(
        Diff(
            seqno=base + 1 + place,
            token=draw(U64),
            written_ms=written_ms,
            actor=draw(st.text(max_size=30)),
            changes=tuple(draw(changes)),
        )
        for place, written_ms in enumerate(times)
    )
    anchor = Rollup(seqno=begin, nonce=draw(U64), length=draw(U64), crc=draw(U32))
    newest = base + count - 1
    link = replace(anchor, seqno=newest, nonce=draw(U64)) if newest > begin else None
    return Entry(
        collection_id=draw(st.binary(min_size=16, max_size=16)),
        seqno=base + count,
        base=base,
        rollup=anchor,
        link=draw(st.sampled_from((None, link))),
        diffs=diffs,
    )


@given(entries())
def test_an_entry_comes_back(entry: Entry) -> None:
    assert decode_entry(encode_entry(entry), where="x") == entry


def test_the_page_decodes() -> None:
    assert decode_entry(example(PAGE), where=PAGE) == ENTRY
    assert encode_entry(ENTRY) == example(PAGE)


def test_every_changed_byte_and_every_cut_is_corrupt() -> None:
    raw = encode_entry(ENTRY)
    damaged = [raw[:length] for length in range(len(raw))]
    damaged += [raw[:n] + bytes([raw[n] ^ 0x41]) + raw[n + 1 :] for n in range(len(raw))]
    for data in [*damaged, raw + b"x"]:
        with pytest.raises(CorruptDataError) as caught:
            decode_entry(data, where="the object")
        assert caught.value.where == "the object"


@pytest.mark.parametrize(
    "changed",
    [
        replace(ENTRY, seqno=3),
        replace(ENTRY, base=1),
        replace(ENTRY, base=2, diffs=()),
        replace(ENTRY, diffs=(FIRST,)),
        replace(ENTRY, diffs=(SECOND, FIRST)),
        replace(ENTRY, diffs=(FIRST, replace(SECOND, seqno=3))),
        replace(ENTRY, diffs=(FIRST, replace(SECOND, written_ms=TIME_MS))),
        replace(ENTRY, rollup=replace(ANCHOR, seqno=1)),
        replace(ENTRY, link=replace(LINK, seqno=0)),
        replace(ENTRY, link=replace(LINK, seqno=2)),
        replace(ENTRY, base=2**64 - 1),
    ],
)
def test_an_entry_that_contradicts_itself_is_corrupt(changed: Entry) -> None:
    """The sum is right: a program made this, and it had a bug."""
    with pytest.raises(AssertionError):
        encode_entry(changed)
    with patch.object(collection_entry, "_contradiction", lambda entry: ""):
        raw = encode_entry(changed)
    with pytest.raises(CorruptDataError) as caught:
        decode_entry(raw, where="the object")
    assert caught.value.where == "the object"


def test_a_flag_that_is_neither_0_nor_1_is_corrupt() -> None:
    body = bytearray(open_only(encode_entry(ENTRY), RecordKind.ENTRY, 1, where="x"))
    body[16 + 8 + 8 + 28] = 2
    with pytest.raises(CorruptDataError):
        decode_entry(seal(RecordKind.ENTRY, 1, bytes(body)), where="x")


def test_another_kind_of_record_is_no_entry() -> None:
    with pytest.raises(FormatError):
        decode_entry(seal(RecordKind.ROLLUP, 1, b""), where="x")


def test_the_size_of_a_diff_is_what_it_adds_to_an_entry() -> None:
    alone = replace(ENTRY, seqno=1, link=None, diffs=(FIRST,))
    both = replace(ENTRY, link=None)
    assert len(encode_entry(both)) - len(encode_entry(alone)) == len(SECOND.encoded)
