"""From a state to a newer one, by what a consensus said; and how much one grew."""

from __future__ import annotations

from typing import Final

from siltstone.collections.state.diffs import apply
from siltstone.core.consensus import Followed, Opened, Progress, Tip
from siltstone.core.records.collection_state import CollectionState, decode_state

PART_ROW_BYTES: Final = 128
"""Of a part in an entry, about, without its rows."""


def advanced(
    state: CollectionState | None, progress: Progress, committed: CollectionState | None = None
) -> tuple[CollectionState, Tip]:
    """Return the state to which ``progress`` leads, and its tip.

    It may lead there from an older state than ``state``, which has some of its diffs then.

    Args:
        state: the newest that was known; ``None`` before the first.
        progress: what a consensus said.
        committed: the state that the caller's own diff makes, where that was committed.
    """
    if committed is not None and isinstance(progress, Followed) and len(progress.diffs) == 1:
        assert progress.diffs[0].seqno == committed.seqno, "a commit is one diff"
        return committed, progress.tip
    if isinstance(progress, Opened):
        where = f"rollup {progress.rollup.seqno} of {progress.tip.collection_id.hex()}"
        state = decode_state(progress.state, where=where)
    assert state is not None, "diffs follow a state"
    for diff in progress.diffs:
        if diff.seqno > state.seqno:
            state = apply(state, diff)
    return state, progress.tip


def grown_bytes(before: CollectionState, after: CollectionState) -> int:
    """How much the batches of a state grew, about."""
    old, new = before.batches, after.batches
    parts = new.part_count - old.part_count
    return new.inline_bytes - old.inline_bytes + PART_ROW_BYTES * parts
