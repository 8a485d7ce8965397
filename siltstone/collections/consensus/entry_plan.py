"""What the next entry holds, and what is known after one. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from siltstone.core.consensus import Tip
from siltstone.core.constants import KIB
from siltstone.core.records.collection_entry import Diff, Entry, Rollup

REPEATED_BYTES_MAX: Final = 64 * KIB
"""Of diffs that an entry repeats: about what a request costs anyway, and enough for most opens."""

FIRST_SEQNO: Final = 1
"""Its entry is never deleted, so that no late create of it can succeed."""


def next_entry(tip: Tip, diff: Diff, link: Rollup | None) -> Entry:
    """Return the entry that adds ``diff`` after ``tip``."""
    assert diff.seqno == tip.seqno + 1, "a diff follows the tip that it was made for"
    assert diff.written_ms > tip.written_ms, "times of diffs rise"
    assert link is None or tip.anchor.seqno < link.seqno <= tip.seqno, "a link is newer"
    repeated = _newest(tip.recent)
    return Entry(
        collection_id=tip.collection_id,
        seqno=diff.seqno,
        base=tip.seqno - len(repeated),
        rollup=tip.anchor,
        link=link,
        diffs=(*repeated, diff),
    )


def first_entry(collection_id: bytes, rollup: Rollup, diff: Diff) -> Entry:
    """Return the entry that begins a collection."""
    assert rollup.seqno == 0, "a collection begins with the state before its first diff"
    assert diff.seqno == FIRST_SEQNO, "it begins with the first diff"
    return Entry(
        collection_id=collection_id,
        seqno=FIRST_SEQNO,
        base=0,
        rollup=rollup,
        link=None,
        diffs=(diff,),
    )


def tip_of(entry: Entry, *, repeats: bool = True) -> Tip:
    """Return what is known after an entry that counts; ``repeats``: the next one repeats diffs."""
    anchor = entry.link or entry.rollup
    return Tip(
        collection_id=entry.collection_id,
        seqno=entry.seqno,
        written_ms=entry.diff.written_ms,
        settled=entry.rollup,
        anchor=anchor,
        recent=entry.diffs[max(0, anchor.seqno - entry.base) :] if repeats else (),
    )


def check_named(tip: Tip, rollups: Sequence[Rollup]) -> None:
    """Check that these may be the rollups that the state at ``tip`` names."""
    assert {tip.settled, tip.anchor} <= set(rollups), "a state names the rollups of its tip"


def _newest(diffs: Sequence[Diff]) -> tuple[Diff, ...]:
    """As many of the last diffs as an entry repeats."""
    left, begin = REPEATED_BYTES_MAX, len(diffs)
    while begin and (left := left - len(diffs[begin - 1].encoded)) >= 0:
        begin -= 1
    return tuple(diffs[begin:])
