"""Objects in a place of backups: made, removed, and named by numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from siltstone.core.checksums import crc32c
from siltstone.core.chunk_storage import Buffer, ChunkStorage
from siltstone.core.errors import (
    ChunkError,
    ChunkExistsError,
    ChunkNotFoundError,
    ChunkOffsetError,
    ChunkStorageFullError,
    CorruptDataError,
    Outcome,
    StoreError,
)
from siltstone.core.records.backup import BackupObject
from siltstone.core.storage.optional_verbs import delete_many
from siltstone.store.manifest import MANIFEST_NAME

NUMBER: Final = re.compile(r"[0-9]{20}")
"""The names of a generation and of a turn; anything with another name there is not ours."""
DELETES: Final = 1_000
"""This many objects are deleted before the next look whether it is still our turn."""

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


def delete_all(storage: ChunkStorage, names: Sequence[str], check_turn: Callable[[], None]) -> None:
    """Remove objects; ``check_turn`` raises when it is not our turn any more."""
    for begin in range(0, len(names), DELETES):
        check_turn()
        for error in delete_many(storage, names[begin : begin + DELETES]).values():
            raise error


def read_object(storage: ChunkStorage, folder: str, found: BackupObject) -> bytes:
    """Read an object below a folder, and compare it with its sum.

    Raises:
        CorruptDataError: it is damaged, or not there; ``where`` names it.
        ChunkError: the place did not answer.
    """
    where = folder + found.name
    buffer = bytearray(found.length)
    try:
        count = storage.read_into(where, 0, buffer)
    except (ChunkNotFoundError, ChunkOffsetError) as error:
        raise CorruptDataError("object of a backup is not there", where=where) from error
    if count != found.length or crc32c(buffer) != found.crc:
        raise CorruptDataError("object of a backup is damaged", where=where)
    return bytes(buffer)


def read_what_is_there(storage: ChunkStorage, folder: str, found: BackupObject) -> bytes:
    """Read an object below a folder, whatever became of it; what is gone of it is zeros.

    Raises:
        ChunkError: the place did not answer.
    """
    buffer = bytearray(found.length)
    try:
        count = storage.read_into(folder + found.name, 0, buffer)
    except (ChunkNotFoundError, ChunkOffsetError):
        count = 0
    return bytes(buffer[:count]).ljust(found.length, b"\0")


def read_record(storage: ChunkStorage, name: str) -> bytearray:
    """Read an object whole. Raises ``ChunkError``."""
    buffer = bytearray(storage.stat(name).length)
    count = storage.read_into(name, 0, buffer)
    del buffer[count:]
    return buffer
