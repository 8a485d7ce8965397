"""Commands of writers that upload: their parts stay until they are appended, or the lease ends."""

from __future__ import annotations

from dataclasses import replace

from siltstone.collections.state.limits import WRITERS_MAX
from siltstone.collections.state.refusals import (
    check_id,
    check_lease,
    check_name,
    check_open,
    check_room,
    cut_who,
    name_of,
)
from siltstone.core.errors import BatchExpiredError
from siltstone.core.records.collection_rows import NO_SEQUENCE, CollectionWriter
from siltstone.core.records.collection_state import CollectionState


def register_writer(
    state: CollectionState, now_ms: int, *, name: str, writer_id: int, lease_ms: int, who: str
) -> tuple[CollectionState, CollectionWriter]:
    """Get the right to append parts that are uploaded from now on.

    Needed before the first upload, and not for rows that go inline. A repeat renews the row. Where
    the name has another id, its parts of that id can no longer be appended; its last sequence
    stays.

    Args:
        state: the state.
        now_ms: milliseconds since 1970.
        name: of the writer.
        writer_id: a random u64 above 0, for the names of its parts.
        lease_ms: how long it lives unless it is renewed, above 0: a writer that lives for ever
            would keep all garbage from its hold on.
        who: describes it, for people.

    Returns:
        The new state and the row. Parts get a ``born`` that is not below its hold.

    Raises:
        CollectionLimitError: there are 1,000 writers.
        CollectionDroppedError: it was dropped.
        CollectionMovedError: it continues elsewhere.
        ValueError: an argument is not as described.
    """
    check_open(state)
    check_lease(lease_ms)
    check_id(writer_id)
    row = state.writers.get(check_name(name))
    if row is None:
        check_room(state, "writers", len(state.writers), WRITERS_MAX)
        row = CollectionWriter(
            name=name,
            id=0,
            sequence=NO_SEQUENCE,
            upper=0,
            hold=0,
            lease_ms=lease_ms,
            renewed_ms=now_ms,
            who=cut_who(who),
        )
    if not row.lease_ms:
        raise ValueError("a writer that lives for ever uploads under another name")
    if row.id != writer_id:
        row = replace(row, id=writer_id, hold=state.seqno + 1, who=cut_who(who))
    row = replace(row, lease_ms=lease_ms, renewed_ms=now_ms)
    return with_writer(state, row), row


def renew_writer(
    state: CollectionState, now_ms: int, *, name: str, writer_id: int, hold: int
) -> tuple[CollectionState, CollectionWriter]:
    """Live on, and hold less: the hold moves forward only. May be repeated.

    Args:
        state: the state.
        now_ms: milliseconds since 1970.
        name: of the writer.
        writer_id: its id.
        hold: the lowest ``born`` of parts that it may still append.

    Returns:
        The new state and the row.

    Raises:
        BatchExpiredError: there is no such writer any more, or the name has another id.
        CollectionDroppedError: it was dropped.
        CollectionMovedError: it continues elsewhere.
    """
    check_open(state)
    row = state.writers.get(name)
    if row is None or row.id != writer_id:
        raise BatchExpiredError("writer was forgotten", collection=name_of(state), writer=name)
    moved = max(row.hold, min(hold, state.seqno + 1))
    row = replace(row, hold=moved, renewed_ms=now_ms)
    return with_writer(state, row), row


def leave_writer(state: CollectionState, now_ms: int, *, name: str) -> tuple[CollectionState, None]:
    """Forget a writer and its last sequence. May be repeated, and is never refused."""
    del now_ms
    if name not in state.writers:
        return state, None
    writers = {key: row for key, row in state.writers.items() if key != name}
    return replace(state, writers=writers), None


def with_writer(state: CollectionState, row: CollectionWriter) -> CollectionState:
    """Return the state with this row."""
    return replace(state, writers={**state.writers, row.name: row})
