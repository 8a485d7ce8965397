"""Reading blocks of a chunk and comparing them with their sums: what a read does on its thread.

Blocking functions over a ``ChunkStorage``. They know one chunk and one range, nothing of segments.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from siltstone.core.checksums import crc32c
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import BLOCK_BYTES
from siltstone.core.errors import ChunkOffsetError, CorruptDataError, LostDataError
from siltstone.core.storage.cached import forget_cached, is_cached
from siltstone.core.storage.optional_verbs import ReadNow

NOW_BYTES_MAX: Final = 2 * BLOCK_BYTES
"""To verify more holds up the other work of the same thread."""
_SCRATCH_KEPT = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockRange:
    """Some bytes of a chunk with the sums of the blocks they lie in.

    Attributes:
        name: the chunk.
        chunk_length: its committed length; nothing beyond it is ever read.
        offset: the first byte wanted, in the chunk.
        length: how many; the range ends at the committed length at the latest.
        sums: sums of all blocks that the range touches, in order.
    """

    name: str
    chunk_length: int
    offset: int
    length: int
    sums: tuple[int, ...]

    @property
    def first_block(self) -> int:
        """Index of the first block."""
        return self.offset // BLOCK_BYTES

    @property
    def start(self) -> int:
        """Where the first block begins."""
        return self.first_block * BLOCK_BYTES

    @property
    def end(self) -> int:
        """Where the last block ends: at the chunk's committed length, if that comes first."""
        return min(self.start + len(self.sums) * BLOCK_BYTES, self.chunk_length)

    def match(self, view: memoryview) -> bool:
        """Whether the bytes of all its blocks, which ``view`` begins with, match their sums."""
        begin = 0
        for wanted in self.sums:
            if crc32c(view[begin : begin + BLOCK_BYTES]) != wanted:
                return False
            begin += BLOCK_BYTES
        return True


def chunk_parts(
    name: str, length: int, sums: tuple[int, ...], part_bytes: int
) -> Iterator[BlockRange]:
    """Yield a whole chunk in parts, in their order.

    Args:
        name: the chunk.
        length: its committed length.
        sums: of all its blocks.
        part_bytes: of each part but the last, a multiple of ``BLOCK_BYTES``.
    """
    blocks = part_bytes // BLOCK_BYTES
    for start in range(0, length, part_bytes):
        first = start // BLOCK_BYTES
        yield BlockRange(
            name=name,
            chunk_length=length,
            offset=start,
            length=min(part_bytes, length - start),
            sums=sums[first : first + blocks],
        )


class Scratch:
    """Buffers used again: fresh memory costs as much as reading a block. Thread-safe."""

    def __init__(self) -> None:
        self._free: deque[bytearray] = deque(maxlen=_SCRATCH_KEPT)

    def take(self, length: int) -> bytearray:
        """Return a buffer of at least ``length`` bytes."""
        try:
            buffer = self._free.pop()
        except IndexError:
            return bytearray(length)
        return buffer if len(buffer) >= length else bytearray(length)

    def give_back(self, buffer: bytearray) -> None:
        """Take back what ``take`` returned; nothing uses it any more."""
        self._free.append(buffer)


SCRATCH: Final = Scratch()
"""One for the process: many containers of a store together hold no more memory than one."""


def read_exactly(storage: ChunkStorage, name: str, offset: int, view: memoryview) -> None:
    """Fill ``view`` from ``offset`` on. Raises ``LostDataError`` when the chunk ends before."""
    try:
        count = storage.read_into(name, offset, view)
    except ChunkOffsetError as error:
        raise _too_short(name, offset + len(view), error.expected) from error
    if count != len(view):
        raise _too_short(name, offset + len(view), offset + count)


def read_blocks(storage: ChunkStorage, blocks: BlockRange, view: memoryview) -> None:
    """Fill ``view`` with the whole blocks of ``blocks``, in one read, and verify each.

    A block that does not match is read again on its own.

    Args:
        storage: where the chunk lies.
        blocks: which; ``view`` covers ``[blocks.start, blocks.end)``.
        view: gets the bytes.

    Raises:
        CorruptDataError: a block did not match its sum, twice.
        LostDataError: the chunk is shorter than its committed length.
    """
    try:
        read_exactly(storage, blocks.name, blocks.start, view)
    except LostDataError:
        # A client may have been told an old length once; asked again, it asks the service.
        read_exactly(storage, blocks.name, blocks.start, view)
    for index, wanted in enumerate(blocks.sums):
        begin = index * BLOCK_BYTES
        block = view[begin : begin + BLOCK_BYTES]
        if crc32c(block) == wanted:
            continue
        forget_cached(storage, blocks.name)
        read_exactly(storage, blocks.name, blocks.start + begin, block)
        found = crc32c(block)
        if found != wanted:
            raise CorruptDataError(
                "block does not match its sum",
                where=blocks.name,
                block=blocks.first_block + index,
                expected=f"{wanted:08x}",
                found=f"{found:08x}",
            )


def read_part(
    storage: ChunkStorage,
    blocks: BlockRange,
    view: memoryview,
    scratch: Scratch,
    *,
    known: str | None,
    learn: bool,
) -> str | None:
    """Fill ``view`` with the range of ``blocks``, of which it covers some only in part.

    Args:
        storage: where the chunk lies.
        blocks: the range; ``view`` is as long as it.
        view: gets the bytes.
        scratch: gives room for whole blocks.
        known: the version in which all these blocks were verified before, if they were.
        learn: whether to find out in which version they are verified now.

    Returns:
        A version that the chunk had before its blocks were verified by this call; ``None`` when
        that was not asked for, or ``known`` still holds.
    """
    if is_cached(storage, blocks.name, blocks.start, blocks.end):
        # They are read and compared as a whole, which asks the service nothing.
        known, learn = None, False
    if known is not None:
        # The version is asked for after the read: if it is still the old one, so are the bytes.
        try:
            read_exactly(storage, blocks.name, blocks.offset, view)
            if storage.stat(blocks.name).version == known:
                return None
        except LostDataError:
            pass  # the chunk has changed: the checked read below says what is wrong
    version = storage.stat(blocks.name).version if learn else None
    length = blocks.end - blocks.start
    buffer = scratch.take(length)
    try:
        room = memoryview(buffer)[:length]
        read_blocks(storage, blocks, room)
        begin = blocks.offset - blocks.start
        view[:] = room[begin : begin + blocks.length]
    finally:
        scratch.give_back(buffer)
    return version


def read_part_now(
    read_now: ReadNow,
    blocks: BlockRange,
    view: memoryview,
    scratch: Scratch,
    *,
    known: str | None,
    most: int = NOW_BYTES_MAX,
) -> str | None:
    """Fill ``view`` as ``read_part`` does, if no waiting is needed and nothing is wrong.

    At most ``most`` bytes are verified.

    Returns:
        ``known``, if it still holds; else a version that the chunk had before its blocks were
        verified by this call; ``None`` when the view was not filled.
    """
    if known is not None and read_now(blocks.name, blocks.offset, view) == known:
        return known
    length = blocks.end - blocks.start
    version = None if length > most else read_now(blocks.name, blocks.start, bytearray())
    if version is None:
        return None
    buffer = scratch.take(length)
    try:
        room = memoryview(buffer)[:length]
        if read_now(blocks.name, blocks.start, room) is None or not blocks.match(room):
            return None
        begin = blocks.offset - blocks.start
        view[:] = room[begin : begin + blocks.length]
    finally:
        scratch.give_back(buffer)
    return version


def _too_short(name: str, wanted: int, found: int) -> LostDataError:
    return LostDataError(
        "chunk is shorter than its committed length", where=name, needed=wanted, found=found
    )
