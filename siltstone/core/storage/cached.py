"""A chunk storage that keeps blocks of chunks it has read on a local disk, for remote services.

What is kept is right for ever, as long as no name is used twice; see ``block_cache``. What the
service says of a chunk, such as its length, is always asked for there. So a chunk that another
client deleted may still be read here: its bytes are those that it had.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final

from siltstone.core.chunk_storage import Buffer, ChunkStorage
from siltstone.core.constants import BLOCK_BYTES, MIB
from siltstone.core.errors import ChunkError, ChunkNotFoundError, ChunkOffsetError
from siltstone.core.storage.block_cache import BlockCache
from siltstone.core.storage.wrapper import WrappedChunkStorage

WIDEN_BYTES_MAX: Final = MIB
"""A read of parts of blocks that together have at most this many bytes fetches and keeps these
blocks, as far as what they hold cannot change any more. Of more bytes, whole blocks are kept, read
where the caller wants them."""

ASKED_MAX: Final = 16_384
"""Blocks of which it is known that less than a block of them was wanted: 4 GiB of chunks."""


class CachedChunkStorage(WrappedChunkStorage):
    """Delegates everything to ``inner``; reads look into the cache first.

    Args:
        inner: closed by ``close``.
        cache: shared with other clients of the same store, and not closed here.
        wanted: tells by its name whether a chunk is worth keeping.

    Attributes:
        hits: blocks that reads found in the cache.
        misses: blocks that they did not.
    """

    def __init__(
        self, inner: ChunkStorage, cache: BlockCache, wanted: Callable[[str], bool]
    ) -> None:
        super().__init__(inner)
        self.hits = 0
        self.misses = 0
        self._cache = cache
        self._wanted = wanted
        self._closed = False
        self._asked: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._asking = threading.Lock()
        # Where chunks are appended to, the bytes after those that the caller knows of may belong to
        # an append that is under way, and change.
        self._grows = inner.capabilities.append

    def create(self, name: str, buffers: Sequence[Buffer]) -> None:
        """``ChunkStorage.create``; nothing is kept of what was not read."""
        super().create(name, buffers)
        self._cache.forget(name)

    def create_from(self, name: str, length: int, pieces: Iterable[Buffer]) -> None:
        """``create_from`` of ``optional_verbs``; the same."""
        super().create_from(name, length, pieces)
        self._cache.forget(name)

    def create_whole(self, name: str, buffers: Sequence[Buffer]) -> None:
        """``create_whole`` of ``optional_verbs``; the same."""
        super().create_whole(name, buffers)
        self._cache.forget(name)

    def read_into(self, name: str, offset: int, buffer: memoryview | bytearray) -> int:
        """``ChunkStorage.read_into``: each run of blocks that are not kept is one read."""
        if self._closed or offset < 0 or not _is_plain(name, buffer) or not self._cache.on:
            return self.inner.read_into(name, offset, buffer)
        view = memoryview(buffer)
        if not len(view) or not _can_be_filled(view) or not self._wanted(name):
            return self.inner.read_into(name, offset, buffer)
        try:
            return self._read(name, offset, view.cast("B"))
        except ChunkNotFoundError:
            self._cache.forget(name)
            raise

    def delete(self, name: str) -> None:
        """``ChunkStorage.delete``; what is kept of the chunk goes, whatever the outcome."""
        try:
            super().delete(name)
        finally:
            self.forget(name)

    def delete_many(self, names: Sequence[str]) -> Mapping[str, ChunkError]:
        """``delete_many`` of ``optional_verbs``."""
        try:
            return super().delete_many(names)
        finally:
            for name in names:
                self.forget(name)

    def concat(self, target: str, sources: Sequence[tuple[str, int]]) -> None:
        """``ChunkStorage.concat``."""
        super().concat(target, sources)
        self._cache.forget(target)

    def close(self) -> None:
        """``ChunkStorage.close``; the cache stays open."""
        self._closed = True
        super().close()

    def holds(self, name: str, offset: int, end: int) -> bool:
        """Whether ``[offset, end)`` of a chunk, not empty, can be read without the service."""
        if not self._cache.on or not self._wanted(name):
            return False
        first, last = offset // BLOCK_BYTES, (end - 1) // BLOCK_BYTES
        return self._cache.holds(name, first, last + 1, end - last * BLOCK_BYTES)

    def wants_blocks(self, name: str, offset: int, end: int) -> bool:
        """Whether who needs ``[offset, end)`` of a chunk, not empty, should read whole blocks.

        So it is when they are kept, and when they were asked about before: what is wanted once only
        is not worth the rest of its block.
        """
        if self._closed or not self._cache.on or not self._wanted(name):
            return False
        if self.holds(name, offset, end):
            return True
        keys = [(name, at) for at in range(offset // BLOCK_BYTES, -(-end // BLOCK_BYTES))]
        with self._asking:
            again = all(key in self._asked for key in keys)
            for key in keys:
                self._asked[key] = None
                self._asked.move_to_end(key)
            while len(self._asked) > ASKED_MAX:
                self._asked.popitem(last=False)
        if not again:
            self.misses += len(keys)
        return again

    def forget(self, name: str) -> None:
        """Drop what is kept of a chunk: it is not what it should be."""
        if _is_plain(name, b""):
            self._cache.forget(name)

    def _read(self, name: str, offset: int, view: memoryview) -> int:
        end = offset + len(view)
        first, last = offset // BLOCK_BYTES, (end - 1) // BLOCK_BYTES
        room = memoryview(bytearray(BLOCK_BYTES))
        missing = [
            block
            for block in range(first, last + 1)
            if not self._copied(name, block, offset, view, room)
        ]
        self.hits += last + 1 - first - len(missing)
        self.misses += len(missing)
        for _, run in groupby(enumerate(missing), lambda pair: pair[1] - pair[0]):
            blocks = [block for _, block in run]
            begin = max(offset, blocks[0] * BLOCK_BYTES)
            stop = min(end, (blocks[-1] + 1) * BLOCK_BYTES)
            count = self._fetch(name, begin, view[begin - offset : stop - offset])
            if begin + count < stop:
                return begin + count - offset
        return len(view)

    def _copied(
        self, name: str, block: int, offset: int, view: memoryview, room: memoryview
    ) -> bool:
        """Copy what ``view`` wants of a block out of the cache, if it is there."""
        start = block * BLOCK_BYTES
        begin = max(0, offset - start)
        stop = min(BLOCK_BYTES, offset + len(view) - start)
        at = start + begin - offset
        if stop - begin == BLOCK_BYTES:
            return self._cache.get(name, block, stop, view[at : at + BLOCK_BYTES])
        if not self._cache.get(name, block, stop, room):
            return False
        view[at : at + stop - begin] = room[begin:stop]
        return True

    def _fetch(self, name: str, offset: int, view: memoryview) -> int:
        """Read a range whose blocks are not kept, and keep those that were read from their start.

        Returns:
            The count of bytes; fewer than wanted at the chunk's end only.
        """
        forgotten = self._cache.forgotten
        end = offset + len(view)
        start = offset // BLOCK_BYTES * BLOCK_BYTES
        stop = end if self._grows else -(-end // BLOCK_BYTES) * BLOCK_BYTES
        if stop - start > WIDEN_BYTES_MAX or (start, stop) == (offset, end):
            count = self.inner.read_into(name, offset, view)
            skip = -offset % BLOCK_BYTES
            # The last block may be cut off by the caller and not by the chunk's end: it is kept
            # as far as it was read.
            self._keep(name, offset + skip, view[skip:count], forgotten)
            return count
        wide = memoryview(bytearray(stop - start))
        try:
            count = self.inner.read_into(name, start, wide)
        except ChunkOffsetError as error:
            raise _beyond_end(name, error.expected, offset) from error
        self._keep(name, start, wide[:count], forgotten)
        if start + count < offset:
            raise _beyond_end(name, start + count, offset)
        part = wide[offset - start : min(count, end - start)]
        view[: len(part)] = part
        return len(part)

    def _keep(self, name: str, start: int, data: memoryview, forgotten: int) -> None:
        for begin in range(0, len(data), BLOCK_BYTES):
            block = (start + begin) // BLOCK_BYTES
            self._cache.put(name, block, data[begin : begin + BLOCK_BYTES], forgotten)


def _beyond_end(name: str, end: int, offset: int) -> ChunkOffsetError:
    """The error of a read that begins beyond a chunk's end, wherever its block begins."""
    return ChunkOffsetError(chunk=name, operation="read_into", expected=end, actual=offset)


def _can_be_filled(view: memoryview) -> bool:
    return not view.readonly and view.itemsize == 1 and view.c_contiguous


def _is_plain(name: object, buffer: object) -> bool:
    """Whether these are what the contract asks for; what is not, the service refuses."""
    return isinstance(name, str) and isinstance(buffer, bytes | bytearray | memoryview)


def uncached(storage: ChunkStorage) -> ChunkStorage:
    """The storage below the cache, for callers that have to know what the service holds."""
    return storage.inner if isinstance(storage, CachedChunkStorage) else storage


def is_cached(storage: ChunkStorage, name: str, offset: int, end: int) -> bool:
    """Whether ``[offset, end)`` of a chunk, not empty, can be read without the service."""
    return isinstance(storage, CachedChunkStorage) and storage.holds(name, offset, end)


def wants_blocks(storage: ChunkStorage, name: str, offset: int, end: int) -> bool:
    """See ``CachedChunkStorage.wants_blocks``; never without a cache."""
    return isinstance(storage, CachedChunkStorage) and storage.wants_blocks(name, offset, end)


def forget_cached(storage: ChunkStorage, name: str) -> None:
    """Drop what a cache keeps of a chunk, so that the next read asks the service."""
    if isinstance(storage, CachedChunkStorage):
        storage.forget(name)


def cache_counts(storage: ChunkStorage) -> tuple[int, int]:
    """Hits and misses so far, in blocks; 0 without a cache."""
    return (storage.hits, storage.misses) if isinstance(storage, CachedChunkStorage) else (0, 0)
