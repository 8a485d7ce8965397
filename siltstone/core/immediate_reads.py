"""Reads that need no waiting, beside the contract: of bytes that this machine has in memory.

They are optional. Handing a call to a thread and back takes longer than copying a block, so who
runs an event loop asks here first, and so does a caller on a thread of his own. A wrapper that adds
nothing to reads passes the question on; any other leaves it out, so that every read is a call that
it sees.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from siltstone.core.chunk_storage import ChunkStorage

ReadNow = Callable[[str, int, memoryview | bytearray], str | None]
"""Fills a buffer with bytes of a chunk from an offset on, all of it, if that takes no waiting.

Returns the version that the chunk had behind the read; ``None`` when it would have to wait, or for
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
