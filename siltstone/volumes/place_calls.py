"""Calls to a place as values: long operations say what they ask for, and something else asks.

A long operation is a generator: it yields a call, and is sent the answer, or thrown the error.
``run`` answers from a storage on the caller's thread; a test may stop, delay or drop each call.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from functools import partial
from typing import IO, Any, Final, Protocol, TypeVar

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import KIB, MIB
from siltstone.core.errors import ChunkNotFoundError, SiltstoneError
from siltstone.core.storage.optional_verbs import (
    PIECE_BYTES,
    WHOLE_CREATE_BYTES_MAX,
    create_from,
    create_whole,
)

T = TypeVar("T")

_FIRST_READ_BYTES: Final = 128 * KIB
"""Enough for nearly every record with its trail, so that it is one request."""

_NEXT_READ_BYTES: Final = 4 * MIB


class PlaceCall(Protocol):
    """One call of a long operation."""

    def perform(self, storage: ChunkStorage) -> Any:
        """Ask the storage; return the answer."""
        ...


Steps = Generator[PlaceCall, Any, T]
"""A long operation with a result of type T."""


def run(steps: Steps[T], storage: Callable[[], ChunkStorage]) -> T:
    """Run an operation to its end, on this thread.

    Args:
        steps: the operation.
        storage: returns the place; asked when the first call is to be made.
    """
    try:
        call = next(steps)
        while True:
            try:
                answer = call.perform(storage())
            except SiltstoneError as error:
                call = steps.throw(error)
            else:
                call = steps.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


@dataclass(frozen=True, slots=True)
class ReadObject:
    """Read all of an object; ``None`` if there is none."""

    name: str

    def perform(self, storage: ChunkStorage) -> bytes | None:
        """Ask for more than such objects have, so that it is one request."""
        parts: list[bytes] = []
        offset, size = 0, _FIRST_READ_BYTES
        while True:
            buffer = bytearray(size)
            try:
                count = storage.read_into(self.name, offset, buffer)
            except ChunkNotFoundError:
                if offset:
                    raise
                return None
            parts.append(bytes(memoryview(buffer)[:count]))
            if count < size:
                return b"".join(parts)
            offset, size = offset + count, _NEXT_READ_BYTES


@dataclass(frozen=True, slots=True)
class ReadRange:
    """Read a part of an object; fewer bytes only at its end."""

    name: str
    offset: int
    length: int

    def perform(self, storage: ChunkStorage) -> bytes:
        """One request."""
        buffer = bytearray(self.length)
        count = storage.read_into(self.name, self.offset, buffer)
        return bytes(memoryview(buffer)[:count])


@dataclass(frozen=True, slots=True)
class FirstName:
    """The first name below a prefix and above another one, ``None`` if there is none."""

    prefix: str
    start_after: str = ""

    def perform(self, storage: ChunkStorage) -> str | None:
        """One page of a listing."""
        for found in storage.list(self.prefix, self.start_after):
            return found.name
        return None


@dataclass(frozen=True, slots=True)
class CreateRecord:
    """Create an object that all see whole or not at all; the name decides who was first."""

    name: str
    data: bytes = field(repr=False)

    def perform(self, storage: ChunkStorage) -> None:
        """One request. Raises ``ChunkExistsError`` where another was first."""
        create_whole(storage, self.name, [self.data])


@dataclass(frozen=True, slots=True)
class CreateBundle:
    """Create an object of the bytes of a file; a large one is never in memory as a whole."""

    name: str
    file: IO[bytes] = field(repr=False)
    length: int

    def perform(self, storage: ChunkStorage) -> None:
        """One request if it is small."""
        self.file.seek(0)
        if self.length <= WHOLE_CREATE_BYTES_MAX:
            storage.create(self.name, [self.file.read()])
            return
        create_from(
            storage, self.name, self.length, iter(partial(self.file.read, PIECE_BYTES), b"")
        )
