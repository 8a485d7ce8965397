"""The verbs of chunk storages in buckets, up to the requests that each service has for them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence

from siltstone.core.chunk_arguments import (
    can_begin_names,
    check_buffers,
    check_chunk_length,
    check_concat,
    check_listing,
    check_offset,
    check_target,
    check_whole,
    require,
)
from siltstone.core.chunk_storage import Buffer, Capabilities, ChunkStat
from siltstone.core.errors import ChunkExistsError, ChunkNotFoundError
from siltstone.core.remote.ranges import RangeRead
from siltstone.core.remote.remote_chunk_storage import RemoteChunkStorage
from siltstone.core.remote.remote_client import RemoteClient
from siltstone.core.remote.target import Target


class BucketChunkStorage(RemoteChunkStorage):
    """A ``ChunkStorage`` whose chunks are the objects below one prefix of a bucket.

    A key is the prefix and the chunk's name, exactly. One client serves all threads of a process;
    it is of no use in a process that was forked, and cannot be pickled. Each verb checks its
    arguments here, and then sends its requests by a method of the service's own.

    Args:
        client: of the bucket; closed by ``close``.
        capabilities: what the service can do.
        looks_first: whether a look stands for the condition of a create, on a service without one.
    """

    def __init__(
        self, client: RemoteClient, capabilities: Capabilities, *, looks_first: bool = False
    ) -> None:
        super().__init__(client, capabilities)
        self._looks_first = looks_first

    def create(self, name: str, buffers: Sequence[Buffer]) -> None:
        """See ``ChunkStorage.create``."""
        key = self._client.key(name, "create")
        length = check_buffers(buffers)
        check_chunk_length(length, self._capabilities)
        self._put(self._target(name, key, "create", length), buffers, length)

    def create_whole(self, name: str, buffers: Sequence[Buffer]) -> None:
        """See ``WholeCreates``: one request, on the condition that there is no such key."""
        key = self._client.key(name, "create")
        require("whole", able=self._capabilities.whole)
        length = check_whole(buffers, self._capabilities)
        self._put_whole(self._target(name, key, "create", length), buffers, length)

    def write(self, name: str, offset: int, buffers: Sequence[Buffer]) -> None:
        """See ``ChunkStorage.write``."""
        key = self._client.key(name, "write")
        require("append", able=self._capabilities.append)
        check_offset(offset)
        length = check_buffers(buffers)
        check_chunk_length(offset + length, self._capabilities)
        self._append(self._target(name, key, "write", length), offset, buffers, length)

    def read_into(self, name: str, offset: int, buffer: memoryview | bytearray) -> int:
        """See ``ChunkStorage.read_into``."""
        key = self._client.key(name, "read_into")
        check_offset(offset)
        check_target(buffer)
        view = memoryview(buffer).cast("B") if len(buffer) else memoryview(b"")
        asked = RangeRead(
            name=name,
            key=key,
            operation="read_into",
            offset=offset,
            length=len(view),
            deadline=self._client.deadline(len(view)),
        )
        return self._read(asked, view)

    def stat(self, name: str) -> ChunkStat:
        """See ``ChunkStorage.stat``."""
        return self._stat(name, self._client.key(name, "stat"), "stat")

    def list(self, prefix: str = "", start_after: str = "") -> Iterator[ChunkStat]:
        """See ``ChunkStorage.list``."""
        return self._listed(prefix, start_after, every=False)

    def list_every(self, prefix: str, start_after: str = "") -> Iterator[ChunkStat]:
        """See ``WholeListings``; requests as for ``list``."""
        return self._listed(prefix, start_after, every=True)

    def concat(self, target: str, sources: Sequence[tuple[str, int]]) -> None:
        """See ``ChunkStorage.concat``."""
        key = self._client.key(target, "concat")
        length = check_concat(target, sources, self._capabilities)
        self._join(self._target(target, key, "concat", length), sources)

    def seal(self, name: str) -> None:
        """Not supported: a chunk that is written once needs none."""
        self._client.check_open()
        require("seal", able=self._capabilities.seal)

    @abstractmethod
    def _prove(self) -> None:
        """Make sure, once in a process, that the service changes things as it should."""

    @abstractmethod
    def _put(self, target: Target, buffers: Sequence[Buffer], length: int) -> None:
        """Make an object, if there is no such key."""

    @abstractmethod
    def _put_whole(self, target: Target, buffers: Sequence[Buffer], length: int) -> None:
        """Make an object by one request, if there is no such key."""

    def _append(self, target: Target, offset: int, buffers: Sequence[Buffer], length: int) -> None:
        """Write at the end of an object, on a service with the capability ``append``."""
        require("append", able=False)

    @abstractmethod
    def _read(self, asked: RangeRead, buffer: memoryview) -> int:
        """Fill the buffer, as long as the range; return how many bytes, fewer only at the end."""

    @abstractmethod
    def _stat(self, name: str, key: str, operation: str) -> ChunkStat:
        """Look at one object."""

    @abstractmethod
    def _list(self, prefix: str, start_after: str, *, every: bool) -> Iterator[ChunkStat]:
        """Yield the chunks below ``prefix`` and after ``start_after``, in order.

        What can be no chunk's name is another program's, and is left out; with ``every`` it is
        yielded too.
        """

    @abstractmethod
    def _join(self, target: Target, sources: Sequence[tuple[str, int]]) -> None:
        """Make an object of the beginnings of others, on the service."""

    def _listed(self, prefix: str, start_after: str, *, every: bool) -> Iterator[ChunkStat]:
        self._client.check_open()
        check_listing(prefix, start_after)
        if every or can_begin_names(prefix):
            return self._while_open(self._list(prefix, start_after, every=every))
        return iter(())

    def _while_open(self, listing: Iterator[ChunkStat]) -> Iterator[ChunkStat]:
        for found in listing:
            yield found
            self._client.check_open()

    def _target(self, name: str, key: str, operation: str, length: int) -> Target:
        """What is to be made, once it is sure that the service makes it as it should."""
        self._prove()
        target = Target(
            name=name, key=key, operation=operation, deadline=self._client.deadline(length)
        )
        if self._looks_first and operation != "write":
            self._refuse_taken(target)
        return target

    def _refuse_taken(self, target: Target) -> None:
        """Without the service's help, look first; two that look at the same time may both write."""
        try:
            self._stat(target.name, target.key, target.operation)
        except ChunkNotFoundError:
            return
        raise target.error(ChunkExistsError, "chunk exists")
