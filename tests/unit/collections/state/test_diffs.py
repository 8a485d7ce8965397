"""Diffs lead from one state to the next, whatever commands made it, and damage is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.collections.state.diffs import apply, diff_of
from siltstone.core.errors import CorruptDataError, FormatError
from siltstone.core.records.collection_batch import Batches, CollectionBatch
from siltstone.core.records.collection_change import ChangeKind, ReplacedBatches, encode_change
from siltstone.core.records.collection_entry import Change, Diff, Rollup
from siltstone.core.records.collection_rows import Bookmark, CollectionReader
from siltstone.core.records.collection_state import CollectionState, Life
from tests.support.collections.state_world import START_MS, Update, first_state, part_of

READER = CollectionReader(id=1, hold=1, since=0, lease_ms=1, renewed_ms=0, who="")
PART = replace(part_of([Update("a", 0, 1)]), inline=b"x" * 100)
CUTS = st.sets(st.integers(1, 12), max_size=6)


def batches_of(cuts: set[int], upper: int, filled: Sequence[int] = ()) -> Batches:
    """Batches from 0 to ``upper`` that are cut there; those at ``filled`` have a part."""
    made = Batches()
    for n, (lower, end) in enumerate(pairwise([0, *sorted(c for c in cuts if c < upper), upper])):
        timed = replace(PART, time=lower, time_min=lower, time_max=lower)
        made = made.added(
            CollectionBatch(lower=lower, upper=end, runs=((timed,),) if n in filled else ())
        )
    return made


def diff(*changes: Change, seqno: int = 1, written_ms: int = START_MS + 1) -> Diff:
    return Diff(seqno=seqno, token=0, written_ms=written_ms, actor="", changes=changes)


def after(state: CollectionState, **fields: object) -> CollectionState:
    return replace(state, seqno=state.seqno + 1, written_ms=state.written_ms + 1, **fields)  # type: ignore[arg-type]


@given(CUTS, CUTS, st.integers(0, 4), st.sets(st.integers(0, 6)))
def test_any_batches_become_any_others(
    old: set[int], new: set[int], more: int, filled: set[int]
) -> None:
    before = replace(first_state(), batches=batches_of(old, 13))
    made = after(before, batches=batches_of(new, 13 + more, sorted(filled)))
    assert apply(before, diff_of(before, made)) == made


def test_a_diff_has_only_what_changed() -> None:
    before = replace(first_state(), batches=batches_of({2, 4, 6, 8}, 10))
    merged = CollectionBatch(lower=2, upper=6)
    last = CollectionBatch(lower=10, upper=11)
    made = after(before, batches=before.batches.replaced(1, 3, [merged]).added(last))
    assert diff_of(before, made, token=5, actor="me").changes == (
        encode_change(
            ChangeKind.REPLACE_BATCHES, ReplacedBatches(lower=2, upper=6, batches=(merged,))
        ),
        encode_change(ChangeKind.PUT_BATCH, last),
    )


def test_what_did_not_change_is_the_same_object_afterwards() -> None:
    before = replace(first_state(), batches=batches_of({3}, 9), readers={1: READER})
    made = apply(before, diff_of(before, after(before, since=4)))
    assert made.readers is before.readers
    assert made.batches is before.batches
    made = apply(before, diff_of(before, after(before, batches=batches_of({3, 9}, 10))))
    assert made.batches.items[0] is before.batches.items[0]


ROLLUP = Rollup(seqno=0, nonce=1, length=1, crc=1)
MARK = Bookmark(name="m", since=0, token=bytes(16), who="")
OPEN = replace(
    first_state(),
    since=3,
    collected=0,
    rollups={0: ROLLUP},
    batches=batches_of({5}, 9),
    bookmarks={"m": MARK},
)
BATCH = CollectionBatch(lower=10, upper=11)


@pytest.mark.parametrize(
    "change",
    [
        encode_change(ChangeKind.SINCE, 2),
        encode_change(ChangeKind.FLOOR, 7),
        encode_change(ChangeKind.COLLECTED, 7),
        encode_change(ChangeKind.PUT_ROLLUP, replace(ROLLUP, seqno=2)),
        encode_change(ChangeKind.DROP_ROLLUP, 1),
        encode_change(ChangeKind.DROP_READER, 1),
        encode_change(ChangeKind.DROP_WRITER, "w"),
        encode_change(ChangeKind.DROP_BOOKMARK, "n"),
        encode_change(ChangeKind.DROP_SCHEMA, 1),
        encode_change(ChangeKind.PUT_BATCH, BATCH),
        encode_change(ChangeKind.REPLACE_BATCHES, ReplacedBatches(lower=5, upper=8, batches=())),
        encode_change(ChangeKind.REPLACE_BATCHES, ReplacedBatches(lower=5, upper=9, batches=())),
        encode_change(
            ChangeKind.REPLACE_BATCHES, ReplacedBatches(lower=0, upper=5, batches=(BATCH,))
        ),
        Change(kind=ChangeKind.SINCE, body=b"x"),
    ],
)
def test_a_change_that_does_not_fit_is_damage_of_its_entry(change: Change) -> None:
    with pytest.raises(CorruptDataError) as caught:
        apply(OPEN, diff(change))
    assert caught.value.where == f"entry 1 of collection {OPEN.id.hex()}"


def test_a_change_of_a_newer_version_is_no_damage() -> None:
    with pytest.raises(FormatError, match="change of an unknown kind"):
        apply(OPEN, diff(Change(kind=77, body=b"")))
    with pytest.raises(FormatError, match="collection of an unknown version found=2 known=1"):
        apply(OPEN, diff(Change(kind=ChangeKind.FORMAT, body=b"\2\0")))


@pytest.mark.parametrize(
    "wrong", [diff(seqno=2), diff(seqno=0), diff(written_ms=START_MS), diff(written_ms=0)]
)
def test_a_diff_of_another_state_is_damage(wrong: Diff) -> None:
    with pytest.raises(CorruptDataError, match="does not follow the state"):
        apply(OPEN, wrong)


@pytest.mark.parametrize("life", [Life.DROPPED, Life.MOVED])
def test_what_has_ended_does_not_go_on(life: Life) -> None:
    ended = replace(OPEN, life=life)
    for change in (
        encode_change(ChangeKind.LIFE, Life.OPEN),
        encode_change(ChangeKind.PUT_BATCH, replace(BATCH, lower=9)),
    ):
        with pytest.raises(CorruptDataError, match="has ended goes on"):
            apply(ended, diff(change))
    housekeeping = encode_change(ChangeKind.COLLECTED, 1)
    assert apply(ended, diff(housekeeping)).collected == 1


@given(st.binary(max_size=60), st.sampled_from([*ChangeKind, 0, 99]))
def test_whatever_a_change_holds_only_typed_errors_come(body: bytes, kind: int) -> None:
    try:
        made = apply(OPEN, diff(Change(kind=kind, body=body)))
    except (CorruptDataError, FormatError):
        return
    assert made.seqno == 1
