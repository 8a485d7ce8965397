"""What long-term storage may be able to do for whoever tidies it up, beside the contract.

All is optional: a binding that lacks it is used one chunk at a time, leaves nothing behind, has
one way to its service, and is read through it alone. Whoever wraps a storage passes all of it on,
by the functions here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

from siltstone.core.chunk_storage import Buffer, ChunkStat, ChunkStorage
from siltstone.core.errors import CapabilityError, ChunkError, ChunkNotFoundError


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
        """Remove what creates of names below ``prefix`` left behind at least ``age_s`` ago.

        What is removed was never acknowledged, and never will be: a create that is still on its
        way after so long fails. Returns the count.
        """
        ...


@runtime_checkable
class Overwrites(Protocol):
    """A storage whose capability ``overwrite`` is set."""

    def overwrite(self, name: str, offset: int, buffers: Sequence[Buffer]) -> None:
        """Let a chunk have these bytes from ``offset`` on, durably; it never gets shorter.

        For bytes that are what the chunk has there, or shall have, whoever writes them: so it may
        be repeated, and may take effect late. Nothing else in a store changes a byte in place.

        Raises:
            ChunkOffsetError: ``offset`` is beyond the physical end; nothing was written.
            ChunkNotFoundError: there is no such chunk.
            ChunkAccessDeniedError: the chunk was sealed.
            ValueError: no byte at all.
        """
        ...


@runtime_checkable
class Detours(Protocol):
    """A storage that has two ways to its service."""

    def is_on_detour(self) -> bool:
        """Whether it goes another way than was set up, for that one does not work in this process.

        What is acknowledged and read stays right; it may be slower.
        """
        ...


@runtime_checkable
class Addresses(Protocol):
    """A storage whose chunks other programs find by an address: those of Hadoop, such as Spark."""

    def uri_of(self, name: str) -> str | None:
        """Where Hadoop's file systems find the chunk; asks nobody.

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
    """See ``Leftovers``; 0 where the storage leaves nothing behind."""
    return storage.sweep_leftovers(prefix, age_s) if isinstance(storage, Leftovers) else 0


def overwrite(storage: ChunkStorage, name: str, offset: int, buffers: Sequence[Buffer]) -> None:
    """See ``Overwrites``. Raises ``CapabilityError`` where the storage has no such thing."""
    if not isinstance(storage, Overwrites):
        raise CapabilityError("this service writes nothing but at the end of a chunk", chunk=name)
    storage.overwrite(name, offset, buffers)


def list_every(storage: ChunkStorage, prefix: str, start_after: str = "") -> Iterator[ChunkStat]:
    """See ``WholeListings``; the chunks alone where the storage has no such thing."""
    if isinstance(storage, WholeListings):
        return storage.list_every(prefix, start_after)
    return storage.list(prefix, start_after)


def is_on_detour(storage: ChunkStorage) -> bool:
    """See ``Detours``; false where the storage has one way."""
    return isinstance(storage, Detours) and storage.is_on_detour()


def uri_of(storage: ChunkStorage, name: str) -> str | None:
    """See ``Addresses``; ``None`` where the storage has no such thing."""
    return storage.uri_of(name) if isinstance(storage, Addresses) else None


def place_of(storage: ChunkStorage) -> str | None:
    """The address of all chunks together, for people; ``None`` where there is none."""
    uri = uri_of(storage, "x")
    return uri and uri.removesuffix("x")
