"""Making a chunk of ranges that are read one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.words import MIB
from siltstone.migration.fragment_copy import FragmentBuffer, is_put

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
) -> bool:
    """Make a chunk; false when its name is taken, also by a try of ours without an answer.

    Nothing is ever deleted here: a task may be repeated, and its first try may live longer than
    the job. When ``fill`` fails, or in a death, a part of a long chunk may stay.

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
        return is_put(storage, name, view)
    end = 0
    for index, (start, stop) in enumerate(ranges):
        view = room.of(stop - start)
        fill(index, view)
        if end:
            storage.write(name, end, [view[end - start :]])
        elif not is_put(storage, name, view):
            return False
        end = stop
    return True
