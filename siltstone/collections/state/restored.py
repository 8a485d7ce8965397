"""The state of a collection that continues from a copy, or at another place. Pure functions."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from siltstone.core.records.collection_rows import TOKEN_BYTES, CollectionWriter
from siltstone.core.records.collection_state import CollectionState, Life


def restored_state(
    state: CollectionState, collection_id: bytes, *, bookmarks: bool = True
) -> CollectionState:
    """Return the state before the first entry of a collection that has the rows of another one.

    It keeps rows, times, schemas, and the sequences of writers with names. What holds something for
    a process is gone, and bookmarks have other tokens, so no process continues by mistake where it
    was in the other collection.

    Args:
        state: of the other one, at any entry.
        collection_id: 16 bytes, never used before.
        bookmarks: whether it keeps bookmarks. They hold history for ever, unless they move on.
    """
    marks = {
        name: replace(mark, token=_token(collection_id, mark.token))
        for name, mark in state.bookmarks.items()
    }
    return replace(
        state,
        id=collection_id,
        seqno=0,
        floor=0,
        collected=0,
        rollups={},
        readers={},
        writers=_sequences(state),
        bookmarks=marks if bookmarks else {},
    )


def arrived_state(state: CollectionState, seqno: int) -> CollectionState:
    """Return the state from which a collection that moved away continues at another place.

    It is the same collection, so bookmarks keep their tokens, and a dropped one stays dropped.
    Readers and writers that the old place knew have their parts there, so they are gone.

    Args:
        state: the last one at the old place.
        seqno: of the state at the new one; not below that of ``state``, and above all there.
    """
    assert seqno >= state.seqno, "parts are born below the seqno of each state that names them"
    return replace(
        state,
        life=Life.OPEN if state.life is Life.MOVED else state.life,
        seqno=seqno,
        floor=0,
        collected=seqno,
        rollups={},
        readers={},
        writers=_sequences(state),
    )


def _sequences(state: CollectionState) -> dict[str, CollectionWriter]:
    """The rows of writers with names, without what they hold."""
    return {
        name: replace(row, id=0, hold=0) for name, row in state.writers.items() if not row.lease_ms
    }


def _token(collection_id: bytes, token: bytes) -> bytes:
    """The same in each try of a restore, and not known from the other collection."""
    text = collection_id + token
    return hashlib.blake2b(text, digest_size=TOKEN_BYTES, person=b"silt-bookmark").digest()
