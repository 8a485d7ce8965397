"""A collection that comes to long-term storage from another place, where its entries have ended.

It begins with a rollup of its last state, and an entry directly after that. The place may be where
it was before: then it has entries, and processes that know them. For these it looks as if all was
truncated up to the new rollup, by the rules of ``objects``: all older rollups are deleted, and that
is confirmed, before the new entry is made. So no anchor is left by which a process could believe
what it finds; each one opens the collection again, and nothing that it had begun can count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from siltstone.collections.consensus.entry_plan import FIRST_SEQNO
from siltstone.collections.consensus.object_files import ObjectFiles
from siltstone.collections.consensus.object_names import (
    collection_prefix,
    entry_name,
    rollup_name,
    rollups_prefix,
)
from siltstone.collections.consensus.objects import ObjectConsensus
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.environment import Environment
from siltstone.core.errors import ChunkExistsError, ChunkUnavailableError, LostDataError
from siltstone.core.records.collection_entry import Diff, Entry, Rollup, encode_entry
from siltstone.core.storage.optional_verbs import create_whole

_TRIES: Final = 100
"""Each one after the first means that a process of before made something here just now."""


def first_entry_of(storage: ChunkStorage, collection_id: bytes) -> Entry:
    """Read the first entry of a collection, which every place of it keeps. Blocking.

    Raises:
        LostDataError: it is gone.
        CorruptDataError, ChunkError: it cannot be read.
    """
    entry = ObjectFiles(storage).entry(collection_id, FIRST_SEQNO)
    if entry is None:
        where = entry_name(collection_id, FIRST_SEQNO)
        raise LostDataError("the first entry of a collection is gone", where=where)
    return entry


def arrive(
    storage: ChunkStorage,
    environment: Environment,
    first: Entry,
    least: int,
    state_at: Callable[[int], bytes],
    diff_after: Callable[[int, Rollup], Diff],
) -> bool:
    """Let a collection continue here; return whether entries are left of a time that it was here.

    Blocking; may be repeated until it was opened here.

    Args:
        storage: of the place.
        environment: gives randomness.
        first: the first entry of the collection. It is never deleted, so no process begins it.
        least: the seqno that it had at the other place.
        state_at: its encoded state, of a seqno that is ``least`` or more.
        diff_after: the diff after that state, by its seqno and its rollup.

    Raises:
        ChunkError: long-term storage did not answer.
    """
    files = ObjectFiles(storage)
    consensus = ObjectConsensus(storage, environment)
    collection_id = first.collection_id
    for _ in range(_TRIES):
        _delete_rollups(files, collection_id)
        newest = files.newest(collection_id)
        seqno = max(least, newest or FIRST_SEQNO)
        rollup = consensus.put_rollup(collection_id, seqno, state_at(seqno))
        entry = Entry(
            collection_id=collection_id,
            seqno=seqno + 1,
            base=seqno,
            rollup=rollup,
            link=None,
            diffs=(diff_after(seqno, rollup),),
        )
        _keep(storage, first)
        try:
            create_whole(storage, entry_name(collection_id, entry.seqno), [encode_entry(entry)])
        except ChunkExistsError:
            # Of a process that was here before, or of a try of ours: its rollup goes first.
            continue
        return newest is not None
    raise ChunkUnavailableError(
        "other processes make entries of a collection that is not here",
        chunk=collection_prefix(collection_id),
        operation="create",
    )


def _delete_rollups(files: ObjectFiles, collection_id: bytes) -> None:
    """Delete rollups until a listing shows none: while one was deleted, a newer may be linked."""
    prefix = rollups_prefix(collection_id)
    for _ in range(_TRIES):
        keys = list(files.rollup_keys(collection_id))
        if not keys:
            return
        rows = [Rollup(seqno=seqno, nonce=nonce, length=0, crc=0) for seqno, nonce in keys]
        files.delete([rollup_name(collection_id, row) for row in rows])
    raise ChunkUnavailableError(
        "other processes make rollups of a collection that is not here",
        chunk=prefix,
        operation="delete",
    )


def _keep(storage: ChunkStorage, first: Entry) -> None:
    """Let the first entry be there."""
    name = entry_name(first.collection_id, FIRST_SEQNO)
    try:
        create_whole(storage, name, [encode_entry(first)])
    except ChunkExistsError:
        return
