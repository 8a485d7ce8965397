"""Blocks of chunks in one file on a local disk, beyond the life of the process.

The file is an array of slots, each a head and 256 KiB. No index is kept on disk, and nothing is
synced: at a start the heads are read, and every block is compared with its sum whenever it leaves
the cache. What a crash, a power cut or a failing disk made of a slot is therefore a miss.

A block never becomes stale: bytes of a chunk never change, and no name is used twice. Where a chunk
still grows, the block at its end holds fewer bytes than it may have by now; those are right, and
a reader that wants more asks the service.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from siltstone.core.checksums import crc32c
from siltstone.core.constants import BLOCK_BYTES
from siltstone.core.posix import FileCalls, SystemFileCalls, read_fully, write_fully
from siltstone.core.records.cached_block import (
    HEAD_BYTES,
    NAME_BYTES_MAX,
    CachedBlock,
    decode_cached_block,
    encode_cached_block,
)
from siltstone.core.storage.s3_fifo import FifoEviction

logger = logging.getLogger(__name__)

SLOT_BYTES: Final = HEAD_BYTES + BLOCK_BYTES
FILES_MAX: Final = 16
"""At most this many processes of one machine may each have a cache in one folder."""

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

Key = tuple[str, int]


@dataclass(slots=True, kw_only=True)
class BlockCacheCounts:
    """What the cache did since it was opened.

    Attributes:
        hits: blocks that reads found.
        misses: blocks that they did not.
        damaged: blocks that were there and did not match their sum.
        evicted: blocks that went for others.
        blocks: how many there are.
    """

    hits: int = 0
    misses: int = 0
    damaged: int = 0
    evicted: int = 0
    blocks: int = 0


class BlockCache:
    """A cache of blocks that several clients of one store share. Thread-safe, never raises.

    One process uses a file: the first that is not locked of ``blocks``, ``blocks-1`` and so on. A
    cache that cannot be opened, read or written turns itself off, with a warning, and misses all.

    Args:
        folder: made when it is missing.
        size_bytes: what the file takes at most; where that is less than a block, there is none.
        store: the store's id, 16 bytes.
        calls: the file calls, replaced in tests.
    """

    def __init__(
        self, folder: Path, size_bytes: int, store: bytes, calls: FileCalls | None = None
    ) -> None:
        self._calls = calls or SystemFileCalls()
        self._store = store
        self._room = max(1, size_bytes // SLOT_BYTES)
        self._lock = threading.Lock()
        self._slots: dict[Key, tuple[int, int]] = {}
        self._blocks: dict[str, set[int]] = {}
        self._writing: dict[Key, int] = {}
        self._eviction: FifoEviction[Key] = FifoEviction(self._room)
        self._free: list[int] = []
        self._fresh = 0
        self._fd = -1
        self._users = 0
        self._closing = False
        self._forgotten = 0
        self._counts = BlockCacheCounts()
        if size_bytes < SLOT_BYTES:
            logger.warning("no cache of blocks: one block needs more: size=%d", size_bytes)
            return
        try:
            self._open(folder)
        except OSError as error:
            self._turn_off(error)

    @property
    def counts(self) -> BlockCacheCounts:
        """What it did so far: a copy."""
        with self._lock:
            found = self._counts
            return BlockCacheCounts(
                hits=found.hits,
                misses=found.misses,
                damaged=found.damaged,
                evicted=found.evicted,
                blocks=len(self._slots),
            )

    @property
    def on(self) -> bool:
        """Whether it works."""
        return self._fd >= 0 and not self._closing

    def holds(self, name: str, first: int, end: int, last_length: int) -> bool:
        """Whether blocks ``[first, end)`` are there, ``last_length`` bytes of the last one."""
        with self._lock:
            return all(
                self._length(name, block) >= (last_length if block == end - 1 else BLOCK_BYTES)
                for block in range(first, end)
            )

    def get(self, name: str, block: int, least: int, target: memoryview) -> bool:
        """Put at least ``least`` bytes of a block into ``target``, which has room for a whole one.

        ``False`` when they are not there, or are not what was put in.
        """
        key = (name, block)
        with self._lock:
            slot, length = self._slots.get(key, (0, 0))
            if length < least or not self._enter():
                self._counts.misses += 1
                return False
        whole = False
        try:
            whole = self._read(slot, key, length, target)
        except OSError as error:
            self._turn_off(error)
        finally:
            with self._lock:
                self._leave()
                if whole:
                    self._counts.hits += 1
                    self._eviction.used(key)
                else:
                    self._counts.misses += 1
                    if self._slots.get(key) == (slot, length):
                        self._counts.damaged += 1
                        self._drop(key)
        return whole

    @property
    def forgotten(self) -> int:
        """How often a chunk was forgotten: ``put`` is told what this was before its bytes came."""
        return self._forgotten

    def put(self, name: str, block: int, data: memoryview, forgotten: int) -> None:
        """Keep the bytes from the beginning of a block on, unless as many are there.

        Nothing is kept when any chunk was forgotten since ``forgotten`` was asked for.
        """
        key, length = (name, block), len(data)
        if len(name.encode("utf-8")) > NAME_BYTES_MAX:
            return
        with self._lock:
            if forgotten != self._forgotten or key in self._writing:
                return
            if length <= self._length(name, block) or not self._enter():
                return
            if key in self._slots:
                self._drop(key)
            slot = self._take_slot(key)
            if slot is None:
                self._leave()
                return
        head = encode_cached_block(
            CachedBlock(store=self._store, name=name, block=block, length=length, sum=crc32c(data))
        )
        written = False
        try:
            write_fully(self._calls, self._fd, [head, data], slot * SLOT_BYTES)
            written = True
        except OSError as error:
            self._turn_off(error)
        finally:
            with self._lock:
                self._written(key, slot, length, whole=written)
                self._leave()

    def forget(self, name: str) -> None:
        """Drop all blocks of a chunk, also for a process that opens the file later."""
        with self._lock:
            self._forgotten += 1
            keys = [(name, block) for block in self._blocks.get(name, ())]
            slots = [slot for key in keys if (slot := self._remove(key)) is not None]
            if not slots or not self._enter():
                return
        try:
            for slot in slots:
                write_fully(self._calls, self._fd, [bytes(HEAD_BYTES)], slot * SLOT_BYTES)
        except OSError as error:
            self._turn_off(error)
        finally:
            with self._lock:
                self._free += slots
                self._leave()

    def close(self) -> None:
        """Free the file, which another process may take then. Idempotent."""
        with self._lock:
            self._closing = True
            self._close_if_unused()

    # --- the file -------------------------------------------------------------------------------

    def _open(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(FILES_MAX):
            path = folder / (f"blocks-{number}" if number else "blocks")
            fd = self._calls.open(str(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._fd = fd
            try:
                self._calls.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._fd = -1
                self._calls.close(fd)
                continue
            size = min(self._calls.fstat(fd).st_size, self._room * SLOT_BYTES)
            self._calls.ftruncate(fd, size)
            self._find(size)
            return
        logger.warning("no cache of blocks: all of its files are in use: folder=%s", folder)

    def _find(self, size: int) -> None:
        """Read the heads of all slots."""
        self._fresh = -(-size // SLOT_BYTES)
        head = bytearray(HEAD_BYTES)
        for slot in range(self._fresh):
            count = read_fully(self._calls, self._fd, head, slot * SLOT_BYTES)
            found = decode_cached_block(head) if count == HEAD_BYTES else None
            key = None if found is None else (found.name, found.block)
            if found is None or key is None or found.store != self._store or key in self._slots:
                self._free.append(slot)
                continue
            self._slots[key] = (slot, found.length)
            self._blocks.setdefault(found.name, set()).add(found.block)
            self._eviction.keep(key)

    def _read(self, slot: int, key: Key, length: int, target: memoryview) -> bool:
        head = bytearray(HEAD_BYTES)
        data = target[:length]
        views = [memoryview(head), data]
        if self._calls.preadv(self._fd, views, slot * SLOT_BYTES) != HEAD_BYTES + length:
            return False
        found = decode_cached_block(head)
        if found is None or (found.name, found.block, found.store) != (*key, self._store):
            return False
        return found.length == length and found.sum == crc32c(data)

    def _turn_off(self, error: OSError) -> None:
        with self._lock:
            if self._closing:
                return
            self._closing = True
            self._slots.clear()
            self._blocks.clear()
            self._writing.clear()
            if error.errno in FULL and self._fd >= 0:
                # Nothing on that disk is needed less than this.
                with suppress(OSError):
                    self._calls.ftruncate(self._fd, 0)
            self._close_if_unused()
        logger.warning("the cache of blocks is off: %s", error.strerror or error)

    # --- what lies where; under the lock --------------------------------------------------------

    def _length(self, name: str, block: int) -> int:
        return self._slots.get((name, block), (0, 0))[1]

    def _enter(self) -> bool:
        """Keep the file open for a call."""
        if not self.on:
            return False
        self._users += 1
        return True

    def _leave(self) -> None:
        self._users -= 1
        self._close_if_unused()

    def _close_if_unused(self) -> None:
        if self._closing and self._users == 0 and self._fd >= 0:
            fd, self._fd = self._fd, -1
            with suppress(OSError):
                self._calls.close(fd)

    def _take_slot(self, key: Key) -> int | None:
        """Reserve a slot for a new key; ``None`` while others are still being written to all."""
        victim = self._eviction.add(key)
        if victim is not None:
            self._counts.evicted += 1
            # What goes is remembered by name: coming back soon, it is worth more.
            freed = self._take_out(victim)
            if freed is not None:
                self._free.append(freed)
        if self._free:
            slot = self._free.pop()
        elif self._fresh < self._room:
            slot, self._fresh = self._fresh, self._fresh + 1
        else:
            self._eviction.remove(key)
            return None
        self._blocks.setdefault(key[0], set()).add(key[1])
        self._writing[key] = slot
        return slot

    def _written(self, key: Key, slot: int, length: int, *, whole: bool) -> None:
        """Show a block that was written, unless it was dropped meanwhile."""
        if self._writing.get(key) != slot:
            self._free.append(slot)
        elif whole:
            del self._writing[key]
            self._slots[key] = (slot, length)
        else:
            self._drop(key)
            self._free.append(slot)

    def _drop(self, key: Key) -> None:
        slot = self._remove(key)
        if slot is not None:
            self._free.append(slot)

    def _remove(self, key: Key) -> int | None:
        """Take a key out and forget it; see ``_take_out``."""
        self._eviction.remove(key)
        return self._take_out(key)

    def _take_out(self, key: Key) -> int | None:
        """Take a key out; return its slot, unless there is none or it is still being written."""
        self._writing.pop(key, None)
        blocks = self._blocks.get(key[0], set())
        blocks.discard(key[1])
        if not blocks:
            self._blocks.pop(key[0], None)
        return self._slots.pop(key, (None, 0))[0]
