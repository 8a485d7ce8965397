"""Which consensus the collections of a store use: written once, and compared by each opener."""

from __future__ import annotations

from typing import Final

from siltstone.collections.consensus.object_names import CHOICE_NAME
from siltstone.collections.place import read_object
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import KIB
from siltstone.core.errors import ChunkExistsError, ChunkNotFoundError, CollectionError
from siltstone.core.records.collection_choice import decode_choice, encode_choice
from siltstone.core.storage.optional_verbs import create_whole

_READ_BYTES: Final = 4 * KIB
"""More than the record of any name: it comes with one read."""


def check_choice(storage: ChunkStorage, wanted: str) -> bool:
    """Compare what the store's collections use with ``wanted``; return whether they use it.

    ``False`` means that the store has no collections yet.

    Raises:
        CollectionError: they use another one: two of them would be two truths.
        CorruptDataError: the record is damaged.
        ChunkError: long-term storage did not answer.
    """
    found = chosen_consensus(storage)
    if found not in (None, wanted):
        raise CollectionError(
            "collections of this store use another consensus; let collections.consensus say so",
            uses=found,
            wanted=wanted,
        )
    return found is not None


def make_choice(storage: ChunkStorage, wanted: str) -> None:
    """Write what the store's collections use, unless that was done. May be repeated.

    Raises like ``check_choice``.
    """
    while not check_choice(storage, wanted):
        try:
            create_whole(storage, CHOICE_NAME, [encode_choice(wanted)])
        except ChunkExistsError:
            continue


def chosen_consensus(storage: ChunkStorage) -> str | None:
    """Return what the store's collections use; ``None`` where it has none yet.

    Raises:
        CorruptDataError: the record is damaged.
        ChunkError: long-term storage did not answer.
    """
    try:
        data = read_object(storage, CHOICE_NAME, 0, _READ_BYTES)
    except ChunkNotFoundError:
        return None
    return decode_choice(data, where=CHOICE_NAME)
