"""Making a chunk of bytes that come piece by piece, without all of them in memory.

What is read, compared and written in small pieces stays near the processor on its way. It is
optional: where a storage has no such thing, the pieces are put together first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from threading import local
from typing import Final, Protocol, runtime_checkable

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.immediate_reads import immediate_reads
from siltstone.core.words import MIB, Buffer

PIECE_BYTES: Final = MIB
"""Large enough for a call, and small enough for the cache of one core: a multiple of a block."""


class PieceError(Exception):
    """A piece could not be had, which is no failure of the storage that was to take it.

    Attributes:
        error: what the pieces raised.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


@runtime_checkable
class StreamedCreates(Protocol):
    """A storage whose capability ``streams`` is there."""

    def create_from(self, name: str, length: int, pieces: Iterable[Buffer]) -> None:
        """Make a chunk like ``create``, of pieces that the caller's thread is asked for in turn.

        A piece is done with before the next one is asked for, so all may come in one buffer.

        Args:
            name: of the chunk.
            length: bytes of all pieces, at least 1.
            pieces: gives them; asked for once the name is taken.

        Raises:
            PieceError: the pieces raised an error, or do not hold ``length`` bytes. What they gave
                may have the name then, as if the caller had died.
            ValueError: ``length`` is below 1 or above ``chunk_bytes_max``.
            ChunkError: see ``ChunkStorage.create``.
        """
        ...


def create_from(storage: ChunkStorage, name: str, length: int, pieces: Iterable[Buffer]) -> None:
    """See ``StreamedCreates``; with all of the chunk in memory where the storage has no such."""
    if storage.capabilities.streams:
        assert isinstance(storage, StreamedCreates), "the capability says so"
        storage.create_from(name, length, pieces)
        return
    view, end = _WHOLE.of(length), 0
    for piece in checked_pieces(length, pieces):
        view[end : end + len(piece)] = piece
        end += len(piece)
    try:
        storage.create(name, [view])
    except BaseException:
        # A call that was given up may still read what it was given.
        _WHOLE.forget()
        raise


def piece_bytes(source: ChunkStorage, most: int) -> int:
    """How many bytes of ``source`` are best read at a time by who moves them on, up to ``most``.

    Few where this machine may have them in memory; of a service at the other end of a network many.
    """
    return min(most, PIECE_BYTES) if immediate_reads(source) is not None else most


class PieceRoom(local):
    """One buffer for each thread: fresh memory costs as much as reading."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray())

    def of(self, length: int) -> memoryview:
        """Room for ``length`` bytes, until it is asked for again."""
        if len(self.view) < length:
            self.view = memoryview(bytearray(length))
        return self.view[:length]

    def forget(self) -> None:
        """Let the room go: somebody else may still use it."""
        self.view = memoryview(bytearray())


_WHOLE: Final = PieceRoom()
"""A chunk for each thread: 32 MiB of fresh memory take 20 ms, with the interpreter held."""


def checked_pieces(length: int, pieces: Iterable[Buffer]) -> Iterator[Buffer]:
    """The same pieces; whatever is wrong with them is a ``PieceError``."""
    left = length
    try:
        for piece in pieces:
            left -= len(piece)
            if left < 0:
                break
            yield piece
        if left:
            raise ValueError(f"the pieces do not hold {length} bytes")
    except GeneratorExit:
        raise
    except BaseException as error:
        raise PieceError(error) from error
