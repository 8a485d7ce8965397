"""Whether a store has collections, for verbs that look at whole stores. Needs no pyarrow."""

from __future__ import annotations

from contextlib import closing

from siltstone.collections.consensus.object_names import CHOICE_NAME, COLLECTIONS_PREFIX
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.store.worker_store import worker_store


def has_collections(storage: ChunkStorage) -> bool:
    """Return whether anything of a collection is there, such as what a dropped one leaves.

    One page of a listing. Blocking; raises ``ChunkError``.
    """
    return any(stat.name != CHOICE_NAME for stat in storage.list(COLLECTIONS_PREFIX))


def collections_are_installed() -> bool:
    """Return whether the package that collections need is here."""
    try:
        import siltstone.collections.rows  # noqa: F401 - looks for it
    except ImportError:
        return False
    return True


def store_has_collections(path: str, uuid: str) -> bool:
    """See ``has_collections``, for a store by its settings file. Raises like ``worker_store``."""
    with closing(worker_store(path, uuid)) as storage:
        return has_collections(storage)
