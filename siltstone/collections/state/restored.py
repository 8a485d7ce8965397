"""The state of a collection that continues from a copy, under another id."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from siltstone.core.records.collection_rows import TOKEN_BYTES
from siltstone.core.records.collection_state import CollectionState


def restored_state(state: CollectionState, collection_id: bytes) -> CollectionState:
    """Return the state before the first entry of a collection that has the rows of another one.

    It keeps rows, times, schemas, bookmarks, and the sequences of writers with names. What holds
    something for a process is gone, and bookmarks have other tokens, so no process continues by
    mistake where it was in the other collection.

    Args:
        state: of the other one, at any entry.
        collection_id: 16 bytes, never used before.
    """
    bookmarks = {
        name: replace(mark, token=_token(collection_id, mark.token))
        for name, mark in state.bookmarks.items()
    }
    writers = {
        name: replace(row, id=0, hold=0) for name, row in state.writers.items() if not row.lease_ms
    }
    return replace(
        state,
        id=collection_id,
        seqno=0,
        floor=0,
        collected=0,
        rollups={},
        readers={},
        writers=writers,
        bookmarks=bookmarks,
    )


def _token(collection_id: bytes, token: bytes) -> bytes:
    """The same in each try of a restore, and not known from the other collection."""
    text = collection_id + token
    return hashlib.blake2b(text, digest_size=TOKEN_BYTES, person=b"silt-bookmark").digest()
