"""What long-term storage may be able to do, in addition to the contract.

All of it is optional. A binding that lacks it is used one chunk at a time, leaves nothing to sweep,
and is read through its service alone. A wrapper of a storage passes all of it on, by the functions
here. There are verbs for callers that tidy the storage up, and these two:

Reads that need no waiting, of bytes that this machine has in memory. Handing a call to a thread and
back takes longer than copying a block, so a caller that runs an event loop asks here first, and so
does a caller on a thread of its own. A wrapper that adds nothing to reads passes the question on;
any other leaves it out, so that every read is a call that it sees.

Making a chunk of bytes that come piece by piece, without all of them in memory. What is read,
compared and written in small pieces stays near the processor on its way. Where a storage has no
such thing, the pieces are put together first.

Making a chunk that is seen as a whole or not at all. ``create`` may take the name before it has the
bytes, and a caller that dies between the two leaves a name that is burnt. Where names are numbers
that must follow one another, such a hole would never be filled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from threading import local
from typing import Final, Protocol, runtime_checkable

from siltstone.core.chunk_storage import WHOLE_CREATE_BYTES_MAX as WHOLE_CREATE_BYTES_MAX
from siltstone.core.chunk_storage import ChunkStat, ChunkStorage
from siltstone.core.constants import MIB, Buffer
from siltstone.core.errors import CapabilityError, ChunkError, ChunkNotFoundError

LEFTOVER_S: Final = 24 * 3600.0
"""No create that takes this long can still succeed."""


@runtime_checkable
class BulkDeletes(Protocol):
    """A storage whose capability ``bulk_delete_max`` is above 1."""

    def delete_many(self, names: Sequence[str]) -> Mapping[str, ChunkError]:
        """Remove chunks durably; return the error of each one that may still be there.

        A chunk that is not there counts as removed. More than ``bulk_delete_max`` names are several
        requests.

        Raises:
            ChunkError: a request failed as a whole; any of the chunks may still be there.
        """
        ...


@runtime_checkable
class Leftovers(Protocol):
    """A storage on which a create that failed may leave what is no chunk, and costs room."""

    def sweep_leftovers(self, prefix: str, age_s: float) -> int:
        """Remove what creates of names below ``prefix`` left there at least ``age_s`` ago.

        What is removed was never acknowledged, and never will be: a create that is still on its way
        after this time fails. Returns the count.
        """
        ...


@runtime_checkable
class Overwrites(Protocol):
    """A storage whose capability ``overwrite`` is set."""

    def overwrite(self, name: str, offset: int, buffers: Sequence[Buffer]) -> None:
        """Let a chunk have these bytes from ``offset`` on, durably; it never gets shorter.

        For bytes that are what the chunk has there, or shall have, whichever owner writes them: so
        it may be repeated, and may take effect late. Nothing else in a store changes a byte in
        place.

        Raises:
            ChunkOffsetError: ``offset`` is beyond the physical end; nothing was written.
            ChunkNotFoundError: there is no such chunk.
            ChunkAccessDeniedError: the chunk was sealed.
            ValueError: no byte at all.
        """
        ...


@runtime_checkable
class WholeCreates(Protocol):
    """A storage whose capability ``whole`` is set."""

    def create_whole(self, name: str, buffers: Sequence[Buffer]) -> None:
        """Make a chunk like ``create``; at every moment, all see it with all bytes or not at all.

        So it is for every client and every verb, also if the caller dies at any point. A create
        that failed does not burn the name: the same bytes may be created under it again, and while
        an outcome is unknown an earlier attempt may still take effect, as a whole.

        Raises:
            ChunkExistsError: the name is taken, whatever its content (``NOT_APPLIED``).
            ChunkStorageFullError: no room.
            ValueError: ``buffers`` hold no byte at all, or more than ``WHOLE_CREATE_BYTES_MAX`` or
                ``chunk_bytes_max``.
        """
        ...


@runtime_checkable
class Addresses(Protocol):
    """A storage whose chunks other programs find by an address: those of Hadoop, such as Spark."""

    def uri_of(self, name: str) -> str | None:
        """Where Hadoop's file systems find the chunk; makes no call.

        A scheme, an authority and a path, nothing percent-encoded, such as ``s3a://bucket/key``. It
        holds no credentials. ``None`` when there is no such address, as the settings are.
        """
        ...


@runtime_checkable
class WholeListings(Protocol):
    """A storage that may hold objects of others whose keys no chunk can have."""

    def list_every(self, prefix: str, start_after: str = "") -> Iterator[ChunkStat]:
        """Yield what ``ChunkStorage.list`` does, and those objects too, with their keys as names.

        In the order of ``list``. No other verb takes such a name.

        Raises:
            ChunkError: the service did not answer.
        """
        ...


def delete_many(storage: ChunkStorage, names: Sequence[str]) -> Mapping[str, ChunkError]:
    """See ``BulkDeletes``; one by one where the storage has no such thing."""
    if isinstance(storage, BulkDeletes):
        return storage.delete_many(names)
    failed: dict[str, ChunkError] = {}
    for name in names:
        try:
            storage.delete(name)
        except ChunkNotFoundError:
            continue
        except ChunkError as error:
            failed[name] = error
    return failed


def sweep_leftovers(storage: ChunkStorage, prefix: str, age_s: float) -> int:
    """See ``Leftovers``; 0 where the storage has no leftovers."""
    return storage.sweep_leftovers(prefix, age_s) if isinstance(storage, Leftovers) else 0


def overwrite(storage: ChunkStorage, name: str, offset: int, buffers: Sequence[Buffer]) -> None:
    """See ``Overwrites``. Raises ``CapabilityError`` where the storage has no such thing."""
    if not isinstance(storage, Overwrites):
        raise CapabilityError("this service writes nothing but at the end of a chunk", chunk=name)
    storage.overwrite(name, offset, buffers)


def create_whole(storage: ChunkStorage, name: str, buffers: Sequence[Buffer]) -> None:
    """See ``WholeCreates``. Raises ``CapabilityError`` where the storage has no such thing."""
    if not storage.capabilities.whole:
        raise CapabilityError(
            "long-term storage cannot create a chunk that is seen whole or not at all",
            chunk=name,
            storage=place_of(storage),
        )
    assert isinstance(storage, WholeCreates), "the capability says so"
    storage.create_whole(name, buffers)


def list_every(storage: ChunkStorage, prefix: str, start_after: str = "") -> Iterator[ChunkStat]:
    """See ``WholeListings``; the chunks alone where the storage has no such thing."""
    if isinstance(storage, WholeListings):
        return storage.list_every(prefix, start_after)
    return storage.list(prefix, start_after)


def uri_of(storage: ChunkStorage, name: str) -> str | None:
    """See ``Addresses``; ``None`` where the storage has no such thing."""
    return storage.uri_of(name) if isinstance(storage, Addresses) else None


def place_of(storage: ChunkStorage) -> str | None:
    """The address of all chunks together, for people; ``None`` where there is none."""
    uri = uri_of(storage, "x")
    return uri and uri.removesuffix("x")


ReadNow = Callable[[str, int, memoryview | bytearray], str | None]
"""Fills a whole buffer with bytes of a chunk from an offset on, if that takes no waiting.

Returns the version that the chunk had after the read; ``None`` when it would have to wait, or for
any other reason, and then ``read_into`` tells which. Never raises. Thread-safe, of any length.
"""


@runtime_checkable
class ImmediateReads(Protocol):
    """A storage that may have what is read in memory."""

    def immediate_reads(self) -> ReadNow | None:
        """What reads so; ``None`` where there is no such thing."""
        ...


def immediate_reads(storage: ChunkStorage) -> ReadNow | None:
    """``ImmediateReads.immediate_reads`` of any storage."""
    return storage.immediate_reads() if isinstance(storage, ImmediateReads) else None


PIECE_BYTES: Final = MIB
"""Large enough for a call, and small enough for the cache of one core: a multiple of a block."""


class PieceError(Exception):
    """A piece could not be had, which is no failure of the storage that should take it.

    Attributes:
        error: what the pieces raised.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


@runtime_checkable
class StreamedCreates(Protocol):
    """A storage whose capability ``streams`` is set."""

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
    """See ``StreamedCreates``; with the whole chunk in memory where the storage cannot do that."""
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
    """How many bytes of ``source`` are best read at a time to be moved on; at most ``most``.

    Few where this machine may have them in memory; many from a service across a network.
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
        """Let the room go: another thread may still use it."""
        self.view = memoryview(bytearray())


_WHOLE: Final = PieceRoom()
"""A chunk for each thread: 32 MiB of fresh memory take 20 ms, with the interpreter held."""


def checked_pieces(length: int, pieces: Iterable[Buffer]) -> Iterator[Buffer]:
    """Yield pieces as they come; whatever is wrong with them is a ``PieceError``."""
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


def is_there(storage: ChunkStorage, name: str) -> bool:
    """Whether a chunk is there: one ``stat``. Raises ``ChunkError`` if that cannot be seen."""
    try:
        storage.stat(name)
    except ChunkNotFoundError:
        return False
    return True
