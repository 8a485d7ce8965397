"""Making a chunk of ranges that are read one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.words import MIB
from siltstone.migration.backup_place import delete, put
from siltstone.migration.fragment_copy import FragmentBuffer

WHOLE_BYTES_MAX: Final = 128 * MIB
"""A longer chunk is written range by range, where the service can append."""

Fill = Callable[[int, memoryview], None]
"""Fills the view with the range of this index, or raises."""


def put_chunk(
    storage: ChunkStorage,
    name: str,
    ranges: Sequence[tuple[int, int]],
    fill: Fill,
    room: FragmentBuffer,
) -> None:
    """Make a chunk in the place of whatever has its name.

    When ``fill`` fails, there is no chunk; a death in between leaves one that is shorter.

    Args:
        storage: where.
        name: of the chunk.
        ranges: start and end of each, in order; where two overlap they have the same bytes.
        fill: reads a range.
        room: takes the whole chunk, or a range of it.
    """
    length = ranges[-1][1]
    if length <= WHOLE_BYTES_MAX or not storage.capabilities.append:
        view = room.of(length)
        for index, (start, stop) in enumerate(ranges):
            fill(index, view[start:stop])
        put(storage, name, [view])
        return
    end = 0
    try:
        for index, (start, stop) in enumerate(ranges):
            view = room.of(stop - start)
            fill(index, view)
            if end:
                storage.write(name, end, [view[end - start :]])
            else:
                put(storage, name, [view])
            end = stop
    except BaseException:
        if end:
            delete(storage, name)
        raise
