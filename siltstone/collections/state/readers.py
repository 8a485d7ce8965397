"""Commands of readers: what they hold is there until their lease ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from siltstone.collections.state.limits import READERS_MAX
from siltstone.collections.state.refusals import (
    check_id,
    check_kept,
    check_lease,
    check_open,
    check_room,
    cut_who,
    name_of,
)
from siltstone.core.errors import LeaseExpiredError
from siltstone.core.records.collection_frontier import is_frontier
from siltstone.core.records.collection_rows import CollectionReader
from siltstone.core.records.collection_state import CollectionState


def register_reader(
    state: CollectionState, now_ms: int, *, reader_id: int, since: int, lease_ms: int, who: str
) -> tuple[CollectionState, CollectionReader]:
    """Begin to hold all parts from this commit on, and all times from ``since`` on.

    A repeat renews the row that is there.

    Args:
        state: the state.
        now_ms: milliseconds since 1970.
        reader_id: a random u64 above 0.
        since: what the reader will read from on, not what the collection has: otherwise readers
            that come one after the other would keep it from moving.
        lease_ms: how long it lives unless it is renewed.
        who: describes it, for people.

    Returns:
        The new state and the row.

    Raises:
        SinceError: ``since`` is below that of the collection.
        CollectionLimitError: there are 1,000 readers.
        CollectionDroppedError: it was dropped.
        CollectionMovedError: it continues elsewhere.
        ValueError: an argument is not as described.
    """
    check_open(state)
    check_lease(lease_ms)
    check_id(reader_id)
    row = state.readers.get(reader_id)
    if row is None:
        if not is_frontier(since):
            raise ValueError(f"not a frontier: {since}")
        check_kept(state, since)
        check_room(state, "readers", len(state.readers), READERS_MAX)
        row = CollectionReader(
            id=reader_id,
            hold=state.seqno + 1,
            since=since,
            lease_ms=lease_ms,
            renewed_ms=now_ms,
            who=cut_who(who),
        )
    return _with_reader(state, replace(row, renewed_ms=now_ms))


def renew_reader(
    state: CollectionState, now_ms: int, *, reader_id: int, since: int, hold: int
) -> tuple[CollectionState, CollectionReader]:
    """Live on, and hold less: both numbers move forward only. May be repeated.

    Args:
        state: the state.
        now_ms: milliseconds since 1970.
        reader_id: of the reader.
        since: the reader needs no times below it any more.
        hold: the reader needs no part any more that states from this seqno on do not name.

    Returns:
        The new state and the row.

    Raises:
        LeaseExpiredError: there is no such reader any more.
        CollectionDroppedError: it was dropped.
        CollectionMovedError: it continues elsewhere.
        ValueError: no frontier.
    """
    check_open(state)
    row = state.readers.get(reader_id)
    if row is None:
        raise LeaseExpiredError(
            "lease of the reader ended", collection=name_of(state), reader=f"{reader_id:016x}"
        )
    if not is_frontier(since):
        raise ValueError(f"not a frontier: {since}")
    renewed = replace(
        row,
        since=max(row.since, since),
        hold=max(row.hold, min(hold, state.seqno + 1)),
        renewed_ms=now_ms,
    )
    return _with_reader(state, renewed)


def leave_reader(
    state: CollectionState, now_ms: int, *, reader_id: int
) -> tuple[CollectionState, None]:
    """Hold nothing any more. May be repeated, and is never refused."""
    del now_ms
    if reader_id not in state.readers:
        return state, None
    readers = {key: row for key, row in state.readers.items() if key != reader_id}
    return replace(state, readers=readers), None


def _with_reader(
    state: CollectionState, row: CollectionReader
) -> tuple[CollectionState, CollectionReader]:
    readers: Mapping[int, CollectionReader] = {**state.readers, row.id: row}
    return replace(state, readers=readers), row
