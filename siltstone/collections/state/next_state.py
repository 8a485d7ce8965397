"""The state that a commit makes: the next seqno, its time, and rows whose lease ended gone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeVar

from siltstone.collections.state.limits import CLOCK_JUMP_MS, SCHEMAS_BYTES_MAX
from siltstone.core.records.collection_entry import COLLECTION_ID_BYTES
from siltstone.core.records.collection_frontier import HISTORY_ALL
from siltstone.core.records.collection_rows import (
    SCHEMA_BYTES_MAX,
    CollectionReader,
    CollectionSchema,
    CollectionWriter,
)
from siltstone.core.records.collection_state import FORMAT, CollectionState, Times
from siltstone.core.records.record_copy import copied

_Leased = TypeVar("_Leased", CollectionReader, CollectionWriter)
_Key = TypeVar("_Key", int, str)

assert SCHEMA_BYTES_MAX <= SCHEMAS_BYTES_MAX


def initial_state(
    collection_id: bytes,
    schema: CollectionSchema,
    *,
    times: Times,
    history: int,
    created_ms: int,
    format_number: int = FORMAT,
) -> CollectionState:
    """Return the state before the first entry, which depends on nothing but these arguments.

    Args:
        collection_id: 16 bytes.
        schema: the first one, with the id 0.
        times: what its times are.
        history: how far the since stays below the upper, 1 at least; ``HISTORY_ALL``: everything.
        created_ms: milliseconds since 1970; entries have later times.
        format_number: of the collection.

    Raises:
        ValueError: an argument is not as described.
    """
    if len(collection_id) != COLLECTION_ID_BYTES or schema.schema_id:
        raise ValueError("an id has 16 bytes, and the first schema the id 0")
    if not 1 <= history <= HISTORY_ALL:
        raise ValueError(f"a history is 1 at least: {history}")
    if len(schema.arrow) > SCHEMA_BYTES_MAX:
        raise ValueError(f"a schema has {SCHEMA_BYTES_MAX} bytes at most: {len(schema.arrow)}")
    return CollectionState(
        id=collection_id,
        format=format_number,
        written_ms=created_ms,
        times=times,
        history=history,
        schemas={0: schema},
    )


def next_state(
    before: CollectionState,
    after: CollectionState,
    now_ms: int,
    *,
    own_readers: Collection[int] = (),
    own_writers: Collection[str] = (),
) -> CollectionState:
    """Return what is to be committed after ``before``, where commands made ``after`` of it.

    Rows whose lease has ended are dropped, as they are in ``after``: a row that a command has just
    renewed stays. The since does not move by that.

    Args:
        before: the state that is known.
        after: what one command or several made of it, with the same seqno.
        now_ms: milliseconds since 1970.
        own_readers: ids of readers of this process, which stay.
        own_writers: names of writers of this process, which stay.
    """
    assert after.seqno == before.seqno, "commands leave the seqno to the commit"
    return copied(
        after,
        seqno=before.seqno + 1,
        written_ms=max(now_ms, before.written_ms + 1),
        readers=_living(after.readers, now_ms, own_readers),
        writers=_living(after.writers, now_ms, own_writers),
    )


def lease_ended(row: CollectionReader | CollectionWriter, now_ms: int) -> bool:
    """Whether the lease of a row has ended: by time, or because it was renewed in the far future.

    What depends on it is only how long rows stay. An end is a committed entry, so each process sees
    it at the same place in the order of entries.
    """
    if not row.lease_ms:
        return False
    return now_ms >= row.renewed_ms + row.lease_ms or now_ms < row.renewed_ms - CLOCK_JUMP_MS


def _living(
    rows: Mapping[_Key, _Leased], now_ms: int, own: Collection[_Key]
) -> Mapping[_Key, _Leased]:
    """Return the rows without those whose lease ended; the same mapping where none did."""
    ended = {key for key, row in rows.items() if lease_ended(row, now_ms) and key not in own}
    return {key: row for key, row in rows.items() if key not in ended} if ended else rows
