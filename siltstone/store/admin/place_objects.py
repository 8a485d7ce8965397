"""Objects in a place of backups: made, removed, and named by numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from siltstone.core.chunk_storage import Buffer, ChunkStorage
from siltstone.core.errors import (
    ChunkError,
    ChunkExistsError,
    ChunkNotFoundError,
    ChunkStorageFullError,
    Outcome,
    StoreError,
)
from siltstone.store.manifest import MANIFEST_NAME

NUMBER: Final = re.compile(r"[0-9]{20}")
"""The names of a generation and of a turn; anything with another name there is not ours."""
_PUTS_MAX: Final = 3


def check_no_store(storage: ChunkStorage, path: str) -> None:
    """Refuse the long-term storage of a store as a place of backups. Raises ``StoreError``."""
    try:
        storage.stat(MANIFEST_NAME)
    except ChunkNotFoundError:
        return
    raise StoreError("this is the long-term storage of a store, choose another place", place=path)


def put(storage: ChunkStorage, name: str, buffers: Sequence[Buffer]) -> None:
    """Make an object with this content, in the place of whatever has its name.

    What is put here is the same in each try, so a create whose outcome is unknown may be repeated.
    """
    for tries_left in range(_PUTS_MAX - 1, -1, -1):
        try:
            storage.create(name, buffers)
        except ChunkExistsError:
            if not tries_left:
                raise
            delete(storage, name)
        except ChunkStorageFullError:
            raise  # it stays full, whatever became of the name
        except ChunkError as error:
            if not tries_left or error.outcome is not Outcome.UNKNOWN:
                raise
        else:
            return


def delete(storage: ChunkStorage, name: str) -> None:
    """Remove an object; one that is gone is fine."""
    try:
        storage.delete(name)
    except ChunkNotFoundError:
        return


def read_record(storage: ChunkStorage, name: str) -> bytearray:
    """Read an object whole. Raises ``ChunkError``."""
    buffer = bytearray(storage.stat(name).length)
    count = storage.read_into(name, 0, buffer)
    del buffer[count:]
    return buffer
