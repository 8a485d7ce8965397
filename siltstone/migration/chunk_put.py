"""Making a chunk of parts that come one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.words import MIB
from siltstone.migration.backup_place import delete, put
from siltstone.migration.fragment_copy import FragmentBuffer

WHOLE_BYTES_MAX: Final = 128 * MIB
"""A longer chunk is written part by part, where the service can append."""


def put_chunk(
    storage: ChunkStorage,
    name: str,
    length: int,
    parts: Iterator[memoryview],
    room: FragmentBuffer,
) -> None:
    """Make a chunk in the place of whatever has its name.

    When ``parts`` fail, there is no chunk; a death in between leaves one that is shorter.

    Args:
        storage: where.
        name: of the chunk.
        length: of all parts together, at least 1.
        parts: in order; each may be overwritten when the next one is asked for.
        room: takes the whole chunk, if it is not written part by part.
    """
    if length <= WHOLE_BYTES_MAX or not storage.capabilities.append:
        view = room.of(length)
        end = 0
        for part in parts:
            view[end : end + len(part)] = part
            end += len(part)
        put(storage, name, [view])
        return
    end = 0
    try:
        for part in parts:
            if end:
                storage.write(name, end, [part])
            else:
                put(storage, name, [part])
            end += len(part)
    except BaseException:
        if end:
            delete(storage, name)
        raise
