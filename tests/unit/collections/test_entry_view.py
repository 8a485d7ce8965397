"""Each change that an entry can hold has words for people."""

from __future__ import annotations

from typing import Any

import pytest

from siltstone.collections.entry_view import entry_view
from siltstone.core.errors import CorruptDataError, FormatError
from siltstone.core.records.collection_batch import CollectionBatch
from siltstone.core.records.collection_change import ChangeKind, ReplacedBatches, encode_change
from siltstone.core.records.collection_entry import Change, Diff, Rollup
from siltstone.core.records.collection_frontier import DONE
from siltstone.core.records.collection_part import CollectionPart, PartFlags
from siltstone.core.records.collection_rows import (
    Bookmark,
    CollectionReader,
    CollectionSchema,
    CollectionWriter,
)
from siltstone.core.records.collection_state import Life

PART = CollectionPart(
    inline=b"rows", length=4, crc=0, rows=3, schema_id=0, flags=PartFlags(0), time=5, time_min=5,
    time_max=5, diff_sum=3,
)  # fmt: skip
BATCH = CollectionBatch(lower=5, upper=DONE, runs=((PART,),))
TOLD = "[5, done): 3 rows in 1 part of 4 bytes, 4 bytes inline"

WORDS: dict[ChangeKind, tuple[Any, str]] = {
    ChangeKind.SINCE: (7, "since 7"),
    ChangeKind.LIFE: (Life.DROPPED, "dropped"),
    ChangeKind.FORMAT: (1, "format 1"),
    ChangeKind.FLOOR: (64, "floor 64"),
    ChangeKind.COLLECTED: (70, "garbage collected through 70"),
    ChangeKind.PUT_SCHEMA: (CollectionSchema(schema_id=1, key_columns=1, arrow=b""), "schema 1"),
    ChangeKind.DROP_SCHEMA: (1, "schema 1 dropped"),
    ChangeKind.PUT_READER: (
        CollectionReader(id=255, hold=3, since=2, lease_ms=1, renewed_ms=1, who="w"),
        "reader 00000000000000ff: since 2, hold 3",
    ),
    ChangeKind.DROP_READER: (255, "reader 00000000000000ff gone"),
    ChangeKind.PUT_WRITER: (
        CollectionWriter(
            name="w", id=0, sequence=4, upper=5, hold=0, lease_ms=0, renewed_ms=1, who="me"
        ),
        "writer w: sequence 4",
    ),
    ChangeKind.DROP_WRITER: ("w", "writer w gone"),
    ChangeKind.PUT_BOOKMARK: (
        Bookmark(name="b", since=DONE, token=bytes(16), who="me"),
        "bookmark b: since done",
    ),
    ChangeKind.DROP_BOOKMARK: ("b", "bookmark b gone"),
    ChangeKind.PUT_ROLLUP: (Rollup(seqno=64, nonce=1, length=1, crc=1), "rollup 64"),
    ChangeKind.DROP_ROLLUP: (64, "rollup 64 forgotten"),
    ChangeKind.PUT_BATCH: (BATCH, f"batch {TOLD}"),
    ChangeKind.REPLACE_BATCHES: (
        ReplacedBatches(lower=5, upper=DONE, batches=(BATCH,)),
        f"batches of [5, done) replaced by {TOLD}",
    ),
}


def diff(*changes: Change) -> Diff:
    return Diff(seqno=9, token=1, written_ms=1_000, actor="pid=1", changes=changes)


def test_every_kind_of_change_has_words() -> None:
    assert set(WORDS) == set(ChangeKind)
    view = entry_view(diff(*(encode_change(kind, value) for kind, (value, _) in WORDS.items())))
    assert (view.seqno, view.written_ms, view.actor) == (9, 1_000, "pid=1")
    assert view.changes == tuple(words for _, words in WORDS.values())


def test_a_change_of_a_newer_version_is_a_format_error() -> None:
    with pytest.raises(FormatError):
        entry_view(diff(Change(kind=200, body=b"")))


def test_a_damaged_change_is_named_by_its_entry() -> None:
    with pytest.raises(CorruptDataError, match="entry 9"):
        entry_view(diff(Change(kind=ChangeKind.FLOOR, body=b"x")))
