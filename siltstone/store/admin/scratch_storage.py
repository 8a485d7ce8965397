"""A part of long-term storage as if it were all of it: below a prefix, counted, and bounded."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TypeVar

from siltstone.core.chunk_arguments import check_chunk_name, check_listing
from siltstone.core.chunk_storage import Buffer, Capabilities, ChunkStat, ChunkStorage
from siltstone.core.errors import ChunkError, ChunkNotFoundError, SiltstoneError
from siltstone.core.storage.optional_verbs import (
    ReadNow,
    create_from,
    create_whole,
    delete_many,
    immediate_reads,
    is_there,
    overwrite,
    sweep_leftovers,
)

T = TypeVar("T")


class SpentError(SiltstoneError):
    """All that was allowed is spent, or the run is stopped; the call was not sent."""


@dataclass(slots=True)
class Spending:
    """What a service was asked for, by all clients together.

    Attributes:
        calls_max: no more calls than this are sent.
        bytes_max: when this many bytes were sent, nothing more is.
        calls: calls of the contract; one may be several requests.
        sent: bytes of creates and writes.
        received: bytes of reads.
        is_stopped: the run was asked to end, so nothing more is sent.
    """

    calls_max: int
    bytes_max: int
    calls: int = 0
    sent: int = 0
    received: int = 0
    is_stopped: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, sent: int = 0) -> None:
        """Count a call ahead of it. Raises ``SpentError``."""
        with self._lock:
            if self.is_stopped:
                raise SpentError("the run is stopped", calls=self.calls, bytes=self.sent)
            if self.is_spent(sent):
                raise SpentError("all that was allowed is spent", calls=self.calls, bytes=self.sent)
            self.calls += 1
            self.sent += sent

    def got(self, received: int) -> None:
        """Count what a read brought."""
        with self._lock:
            self.received += received

    def __reduce__(self) -> tuple[Callable[..., Spending], tuple[int, ...]]:
        """A copy of a client counts for itself."""
        return _spending, (self.calls_max, self.bytes_max, self.calls, self.sent, self.received)

    def is_spent(self, more: int = 0) -> bool:
        """Whether one more call, with this many bytes, would be too much."""
        return self.calls >= self.calls_max or self.sent + more > self.bytes_max


class ScratchStorage:
    """A ``ChunkStorage`` of what lies below ``prefix`` in ``inner``.

    Args:
        inner: closed by ``close``.
        prefix: ends with a slash.
        spending: counts and bounds.
        made: gets the names of the chunks that are made, and loses those that are deleted.
    """

    def __init__(
        self, inner: ChunkStorage, prefix: str, spending: Spending, made: set[str]
    ) -> None:
        self._inner = inner
        self._prefix = prefix
        self._spending = spending
        self._made = made

    @property
    def capabilities(self) -> Capabilities:
        """Those of ``inner``."""
        return self._inner.capabilities

    def create(self, name: str, buffers: Sequence[Buffer]) -> None:
        """``ChunkStorage.create``."""
        with self._called(name, "create", _length(buffers)) as key:
            self._inner.create(key, buffers)
            self._made.add(name)

    def create_from(self, name: str, length: int, pieces: Iterable[Buffer]) -> None:
        """``create_from`` of ``optional_verbs``."""
        with self._called(name, "create", length) as key:
            create_from(self._inner, key, length, pieces)
            self._made.add(name)

    def create_whole(self, name: str, buffers: Sequence[Buffer]) -> None:
        """``create_whole`` of ``optional_verbs``."""
        with self._called(name, "create", _length(buffers)) as key:
            create_whole(self._inner, key, buffers)
            self._made.add(name)

    def write(self, name: str, offset: int, buffers: Sequence[Buffer]) -> None:
        """``ChunkStorage.write``."""
        with self._called(name, "write", _length(buffers)) as key:
            self._inner.write(key, offset, buffers)

    def read_into(self, name: str, offset: int, buffer: memoryview | bytearray) -> int:
        """``ChunkStorage.read_into``."""
        with self._called(name, "read_into") as key:
            count = self._inner.read_into(key, offset, buffer)
        self._spending.got(count)
        return count

    def stat(self, name: str) -> ChunkStat:
        """``ChunkStorage.stat``."""
        with self._called(name, "stat") as key:
            return self._outside(self._inner.stat(key))

    def list(self, prefix: str = "", start_after: str = "") -> Iterator[ChunkStat]:
        """``ChunkStorage.list``."""
        check_listing(prefix, start_after)
        self._spending.begin()
        start = self._prefix + start_after if start_after else ""
        return self._listed(self._inner.list(self._prefix + prefix, start))

    def delete(self, name: str) -> None:
        """``ChunkStorage.delete``."""
        with self._called(name, "delete") as key:
            self._inner.delete(key)
            self._made.discard(name)

    def delete_many(self, names: Sequence[str]) -> Mapping[str, ChunkError]:
        """``delete_many`` of ``optional_verbs``."""
        self._spending.begin()
        failed = delete_many(self._inner, [self._prefix + name for name in names])
        left = {key[len(self._prefix) :]: error for key, error in failed.items()}
        self._made.difference_update(set(names) - set(left))
        return left

    def sweep_leftovers(self, prefix: str, age_s: float) -> int:
        """``sweep_leftovers`` of ``optional_verbs``."""
        self._spending.begin()
        return sweep_leftovers(self._inner, self._prefix + prefix, age_s)

    def overwrite(self, name: str, offset: int, buffers: Sequence[Buffer]) -> None:
        """``overwrite`` of ``optional_verbs``."""
        with self._called(name, "overwrite", _length(buffers)) as key:
            overwrite(self._inner, key, offset, buffers)

    def immediate_reads(self) -> ReadNow | None:
        """``immediate_reads`` of the module of that name; they send no call, count nothing."""
        read_now = immediate_reads(self._inner)
        if read_now is None:
            return None
        return lambda name, offset, buffer: read_now(self._prefix + name, offset, buffer)

    def concat(self, target: str, sources: Sequence[tuple[str, int]]) -> None:
        """``ChunkStorage.concat``."""
        with self._called(target, "concat") as key:
            self._inner.concat(key, [(self._key(name, "concat"), size) for name, size in sources])
            self._made.add(target)

    def seal(self, name: str) -> None:
        """``ChunkStorage.seal``."""
        with self._called(name, "seal") as key:
            self._inner.seal(key)

    def used_space(self) -> int:
        """``ChunkStorage.used_space``, of all that ``inner`` holds."""
        self._spending.begin()
        return self._inner.used_space()

    def free_space(self) -> int:
        """``ChunkStorage.free_space``."""
        self._spending.begin()
        return self._inner.free_space()

    def close(self) -> None:
        """``ChunkStorage.close``."""
        self._inner.close()

    def _key(self, name: str, operation: str) -> str:
        check_chunk_name(name, operation)
        return self._prefix + name

    @contextmanager
    def _called(self, name: str, operation: str, sent: int = 0) -> Iterator[str]:
        key = self._key(name, operation)
        self._spending.begin(sent)
        try:
            yield key
        except ChunkError as error:
            error.chunk = error.chunk.removeprefix(self._prefix)
            raise

    def _outside(self, found: ChunkStat) -> ChunkStat:
        return replace(found, name=found.name[len(self._prefix) :])

    def _listed(self, listing: Iterator[ChunkStat]) -> Iterator[ChunkStat]:
        for found in listing:
            yield self._outside(found)


class ScratchService:
    """What one check works on: clients of a prefix that nothing else uses.

    Only its binding knows the service, so there is no second way to look at it, and ``outside`` is
    another client. It does not trust its own listing alone: names that were made are looked up.

    Args:
        open_client: returns another client of the service.
        outside: a client that stays open.
        prefix: ends with a slash.
        spending: counts and bounds.

    Attributes:
        made: names of chunks that were made, and not deleted since.
    """

    def __init__(
        self,
        open_client: Callable[[], ChunkStorage],
        outside: ChunkStorage,
        prefix: str,
        spending: Spending,
    ) -> None:
        self._open_client = open_client
        self._outside = outside
        self._prefix = prefix
        self._spending = spending
        self.made: set[str] = set()

    def open(self) -> ChunkStorage:
        """Return another client."""
        return ScratchStorage(self._open_client(), self._prefix, self._spending, self.made)

    def outside_read(self, name: str) -> bytes | None:
        """Return what the other client reads, or ``None``."""
        storage = self._looking()
        try:
            buffer = bytearray(storage.stat(name).length)
            return bytes(buffer[: storage.read_into(name, 0, buffer)])
        except ChunkNotFoundError:
            return None

    def outside_names(self) -> list[str]:
        """Return what the other client lists, and what it finds of all else that was made."""
        storage = self._looking()
        listed = [chunk.name for chunk in storage.list()]
        return listed + [name for name in self.made - set(listed) if is_there(storage, name)]

    def outside_write(self, name: str, content: bytes) -> None:
        """Make or replace a chunk with the other client."""
        storage = self._looking()
        if name in self.made:
            with suppress(ChunkNotFoundError):
                storage.delete(name)
        storage.create(name, [content])

    def _looking(self) -> ScratchStorage:
        return ScratchStorage(self._outside, self._prefix, self._spending, self.made)


def emptied(storage: ChunkStorage, prefix: str, made: Iterable[str] = ()) -> int:
    """Delete all chunks below ``prefix``; return how many are left because that failed.

    ``made`` are names below the prefix which may be there, listed or not.
    """
    names = dict.fromkeys(found.name for found in storage.list(prefix))
    names.update(dict.fromkeys(prefix + name for name in made))
    left = 0
    for name in names:
        try:
            storage.delete(name)
        except ChunkNotFoundError:
            continue
        except SiltstoneError:
            left += 1
    return left


def _spending(calls_max: int, bytes_max: int, calls: int, sent: int, received: int) -> Spending:
    return Spending(
        calls_max=calls_max, bytes_max=bytes_max, calls=calls, sent=sent, received=received
    )


def _length(buffers: object) -> int:
    """Bytes of what may be no sequence of buffers; then the binding says so."""
    if not isinstance(buffers, list | tuple):
        return 0
    return sum(len(one) for one in buffers if isinstance(one, bytes | bytearray | memoryview))
