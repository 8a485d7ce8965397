"""What the memory service keeps: chunks by key, in order, apart from the clients that use them."""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from dataclasses import dataclass


@dataclass(slots=True)
class StoredChunk:
    """One chunk.

    Attributes:
        content: the bytes.
        version: a number that no other state of any chunk has.
        modified_s: seconds since 1970 of the last change.
        writes: how many writes made it, the create included.
        is_sealed: whether further writes are refused.
    """

    content: bytearray
    version: int
    modified_s: float
    writes: int = 1
    is_sealed: bool = False


class Bucket:
    """The service: outlives its clients. A thread holds ``lock`` to touch ``chunks`` or ``keys``.

    Attributes:
        lock: guards all else.
        chunks: by key, the UTF-8 bytes of the name.
        keys: the same keys in order.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.chunks: dict[bytes, StoredChunk] = {}
        self.keys: list[bytes] = []
        self._version = 0

    def next_version(self) -> int:
        """A version that was never given."""
        self._version += 1
        return self._version

    def insert(self, key: bytes, chunk: StoredChunk) -> None:
        """Add a chunk under a free key, or replace one."""
        if key not in self.chunks:
            insort(self.keys, key)
        self.chunks[key] = chunk

    def remove(self, key: bytes) -> None:
        """Take a chunk out."""
        del self.chunks[key]
        del self.keys[bisect_left(self.keys, key)]

    def page(self, start: bytes, count: int) -> list[bytes]:
        """Up to ``count`` keys in order, from the first that is at or above ``start``."""
        index = bisect_left(self.keys, start)
        return self.keys[index : index + count]

    def used_bytes(self) -> int:
        """The lengths of all chunks, added up."""
        return sum(len(chunk.content) for chunk in self.chunks.values())


_shared: dict[str, Bucket] = {}
_shared_lock = threading.Lock()


def shared_bucket(name: str) -> Bucket:
    """The bucket that all clients of this process find under ``name``."""
    with _shared_lock:
        return _shared.setdefault(name, Bucket())


def forget_bucket(name: str) -> None:
    """Let the next ``shared_bucket`` of this name begin empty."""
    with _shared_lock:
        _shared.pop(name, None)
