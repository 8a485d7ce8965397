"""Entries and rollups as objects: read and verified, listed, deleted. Nothing is decided here."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from typing import Final

from siltstone.collections.consensus.object_names import (
    COLLECTIONS_PREFIX,
    after_collection,
    entries_prefix,
    entry_name,
    id_of,
    is_entry,
    rollup_key,
    rollup_name,
    rollups_prefix,
    seqno_of,
)
from siltstone.core.checksums import crc32c
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import KIB
from siltstone.core.errors import ChunkNotFoundError, CorruptDataError
from siltstone.core.records.collection_entry import Entry, Rollup, decode_entry
from siltstone.core.records.collection_rollup import decode_rollup
from siltstone.core.storage.optional_verbs import delete_many

READ_BYTES: Final = 128 * KIB
"""More than an entry repeats: nearly every one comes with one read."""


class ObjectFiles:
    """Thread-safe. What is gone is ``None``; what is damaged at two reads is an error.

    Args:
        storage: holds the objects; not closed here.
    """

    def __init__(self, storage: ChunkStorage) -> None:
        self._storage = storage

    def entry(self, collection_id: bytes, seqno: int) -> Entry | None:
        """Read an entry. Raises ``CorruptDataError``."""
        name = entry_name(collection_id, seqno)
        try:
            return self._entry(name, collection_id, seqno)
        except CorruptDataError:
            return self._entry(name, collection_id, seqno)

    def state(self, collection_id: bytes, rollup: Rollup) -> bytes | None:
        """Read the state that a rollup holds. Raises ``CorruptDataError``."""
        try:
            return self._state(collection_id, rollup)
        except CorruptDataError:
            return self._state(collection_id, rollup)

    def has_rollup(self, collection_id: bytes, rollup: Rollup) -> bool:
        """Return whether a rollup is there."""
        try:
            self._storage.stat(rollup_name(collection_id, rollup))
        except ChunkNotFoundError:
            return False
        return True

    def newest(self, collection_id: bytes) -> int | None:
        """Return the highest seqno that a listing shows; ``None`` if it shows none."""
        with closing(self.seqnos(collection_id)) as seqnos:
            return next(seqnos, None)

    def seqnos(self, collection_id: bytes, below: int | None = None) -> Generator[int]:
        """Yield the seqnos of the entries, the highest first; only those under ``below``."""
        after = "" if below is None else entry_name(collection_id, below)
        with closing(self._names(entries_prefix(collection_id), after)) as names:
            yield from map(seqno_of, names)

    def rollup_keys(self, collection_id: bytes) -> Iterator[tuple[int, int]]:
        """Yield seqno and nonce of each rollup, the oldest first."""
        with closing(self._names(rollups_prefix(collection_id), "")) as names:
            yield from map(rollup_key, names)

    def collections(self) -> Iterator[bytes]:
        """Yield the ids of the collections that have an entry, with a listing for each."""
        after = ""
        while True:
            with closing(self._names(COLLECTIONS_PREFIX, after)) as names:
                name = next(names, None)
            if name is None:
                return
            collection_id = id_of(name)
            if collection_id is None:
                after = name
                continue
            if is_entry(collection_id, name):
                yield collection_id
            after = after_collection(collection_id)

    def delete(self, names: Sequence[str]) -> None:
        """Delete objects, each of which may be gone; on return all are.

        Raises:
            ChunkError: any of them may still be there.
        """
        for error in delete_many(self._storage, names).values():
            raise error

    def _entry(self, name: str, collection_id: bytes, seqno: int) -> Entry | None:
        data = self._read(name, READ_BYTES)
        if data is None:
            return None
        entry = decode_entry(data, where=name)
        if (entry.collection_id, entry.seqno) != (collection_id, seqno):
            raise CorruptDataError("entry does not fit its name", where=name)
        return entry

    def _state(self, collection_id: bytes, rollup: Rollup) -> bytes | None:
        name = rollup_name(collection_id, rollup)
        data = self._read(name, rollup.length + 1)
        if data is None:
            return None
        if len(data) != rollup.length or crc32c(data) != rollup.crc:
            raise CorruptDataError("rollup is not the one that was linked", where=name)
        rolled = decode_rollup(data, where=name)
        if (rolled.collection_id, rolled.seqno) != (collection_id, rollup.seqno):
            raise CorruptDataError("rollup does not fit its name", where=name)
        return rolled.state

    def _read(self, name: str, expected: int) -> bytes | None:
        """Read a whole object, in one call if it is shorter than ``expected``."""
        parts: list[bytes] = []
        offset = 0
        try:
            while True:
                buffer = bytearray(expected)
                got = self._storage.read_into(name, offset, buffer)
                parts.append(bytes(memoryview(buffer)[:got]))
                if got < expected:
                    return b"".join(parts)
                offset += got
        except ChunkNotFoundError:
            return None

    def _names(self, prefix: str, after: str) -> Generator[str]:
        for chunk in self._storage.list(prefix, after):
            yield chunk.name
