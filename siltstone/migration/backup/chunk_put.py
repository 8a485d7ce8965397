"""Making a chunk of pieces that are read one after the other, with any service."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from siltstone.core.chunk_storage import Buffer, ChunkStorage
from siltstone.core.constants import MIB
from siltstone.core.errors import ChunkError, ChunkStorageFullError, Outcome
from siltstone.core.storage.optional_verbs import checked_pieces, create_from, delete_many
from siltstone.migration.backup.fragment_copy import is_put

WHOLE_BYTES_MAX: Final = 128 * MIB
"""A longer chunk is never in memory as a whole, unless the service leaves no other way."""

PART_BYTES: Final = 64 * MIB
"""Bytes of a longer one in memory, except where a concat takes too few parts of this size."""

PARTS: Final = "import/parts/"
"""Parts of a chunk lie here until they are joined. No container ever gives a chunk such a name."""

_PARTS_TRIES_MAX: Final = 3


def put_chunk(
    storage: ChunkStorage, name: str, length: int, pieces: Callable[[], Iterable[Buffer]]
) -> bool:
    """Make a chunk; false when its name is taken, also by a try of ours without an answer.

    Where the service takes pieces as they come, a long chunk is made of them so; else by appends,
    else by a concat of parts. Only such parts, whose names nothing else has, are ever deleted here:
    a task may be repeated, and its first try may live longer than the job. When the pieces end in
    an error, or in a death, a part of the chunk may stay.

    Args:
        storage: where.
        name: of the chunk.
        length: its bytes, at least 1.
        pieces: reads it from its beginning; called again when a create got no answer.

    Raises:
        PieceError: the pieces ended in an error; see ``StreamedCreates``.
        ChunkError: the service failed.
    """
    able = storage.capabilities
    if able.streams or length <= WHOLE_BYTES_MAX or not (able.append or able.concat):
        return is_put(lambda: create_from(storage, name, length, pieces()))
    if able.append:
        return _is_appended(storage, name, _runs(checked_pieces(length, pieces()), PART_BYTES))
    least = max(PART_BYTES, -(-length // able.concat_parts_max), able.concat_part_bytes_min)
    runs = _runs(checked_pieces(length, pieces()), min(least, able.concat_part_bytes_max))
    made: list[str] = []
    try:
        parts = [(_put_part(storage, run, made), len(run)) for run in runs]
        return is_put(lambda: storage.concat(name, parts))
    finally:
        delete_many(storage, made)


def delete_parts(storage: ChunkStorage) -> None:
    """Delete the parts that deaths have left. Not while a task makes chunks here."""
    delete_many(storage, [found.name for found in storage.list(PARTS)])


def _put_part(storage: ChunkStorage, run: memoryview, made: list[str]) -> str:
    """Make a part, under another name for as long as outcomes are unknown."""
    for tries_left in range(_PARTS_TRIES_MAX - 1, -1, -1):
        made.append(f"{PARTS}{uuid.uuid4().hex}")
        try:
            storage.create(made[-1], [run])
        except ChunkStorageFullError:
            raise
        except ChunkError as error:
            if not tries_left or error.outcome is not Outcome.UNKNOWN:
                raise
        else:
            return made[-1]
    raise AssertionError("the last try returns or raises")


def _is_appended(storage: ChunkStorage, name: str, runs: Iterator[memoryview]) -> bool:
    first = next(runs)
    if not is_put(lambda: storage.create(name, [first])):
        return False
    end = len(first)
    for run in runs:
        storage.write(name, end, [run])
        end += len(run)
    return True


def _runs(pieces: Iterable[Buffer], run_bytes: int) -> Iterator[memoryview]:
    """Yield the bytes of pieces in runs of ``run_bytes``, the last one shorter, in one buffer."""
    room = memoryview(bytearray(run_bytes))
    end = 0
    for piece in pieces:
        view = memoryview(piece)
        while len(view):
            some = view[: run_bytes - end]
            room[end : end + len(some)] = some
            view, end = view[len(some) :], end + len(some)
            if end == run_bytes:
                yield room
                end = 0
    if end:
        yield room[:end]
