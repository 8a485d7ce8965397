"""The local index: every table's rows at one table version, in RocksDB.

A cache of what the table log says: applied only after acknowledgement, never the only copy, never
opened by two processes. One column family without a write-ahead log, and the position in the same
write batch as the rows, so that after a crash rows and position agree, at some older version.

Stored, integers of keys big-endian, of values little-endian::

    table_id: u32, key: bytes  ->  version: u64, value: bytes
    0x00                       ->  the position; shorter than any key of a table
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import rocksdict

from siltstone.core.errors import (
    ClosedError,
    CorruptDataError,
    SiltstoneError,
    StoreError,
    StoreInUseError,
)
from siltstone.core.words import MIB, ROWS_PER_SLICE
from siltstone.metadata.position import Position, decode_position, encode_position

T = TypeVar("T")

CACHE_BYTES = 64 * MIB
"""Block cache by default: indexes and filters of the files are in it as well."""

_WRITE_BUFFER_BYTES = 16 * MIB
_FILE_BYTES = 16 * MIB
"""Files of a checkpoint are uploaded whole from memory, so they are small."""

_POSITION_KEY = b"\0"
_TABLE = struct.Struct(">I")
_VERSION = struct.Struct("<Q")
_VERSION_BYTES = _VERSION.size
_TABLE_BYTES = _TABLE.size

Change = tuple[bytes, bytes | None]
"""What ``index_key`` and ``stored`` make; ``None`` removes the key."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A value of a table and the table version that wrote it."""

    version: int
    value: bytes


def index_key(table_id: int, key: bytes) -> bytes:
    """Key in the index of a table's key."""
    return _TABLE.pack(table_id) + key


def stored(version: int, value: bytes) -> bytes:
    """What the index keeps for a value."""
    return _VERSION.pack(version) + value


class Index:
    """Rows of all tables of one container at one table version; made by ``open``.

    Thread-safe. Point reads and ``apply`` are quick enough for the event loop; long scans and
    ``checkpoint`` are not.
    """

    def __init__(self, database: rocksdict.Rdict, folder: Path, position: Position | None) -> None:
        self._database = database
        self._folder = folder
        self._position = position
        self._closed = False
        self._no_wal = rocksdict.WriteOptions()
        # The stubs call this attribute a method.
        self._no_wal.disable_wal = True  # type: ignore[method-assign, assignment]

    @classmethod
    def open(cls, folder: Path, *, cache_bytes: int = CACHE_BYTES) -> Index:
        """Open the index in ``folder``, or make an empty one.

        Args:
            folder: its own folder; made, with its parents, when missing.
            cache_bytes: size of the block cache.

        Raises:
            StoreInUseError: another process, or this one, has it open.
            CorruptDataError: the folder is damaged: remove it and restore a checkpoint.
        """
        folder.mkdir(parents=True, exist_ok=True)
        database = _translated(folder, lambda: _open_database(folder, cache_bytes))
        try:
            return cls(database, folder, _read_position(database, folder))
        except SiltstoneError:
            database.close()
            raise

    @property
    def folder(self) -> Path:
        """Where it lies."""
        return self._folder

    @property
    def position(self) -> Position | None:
        """Up to where the table log is applied; ``None`` in an empty index."""
        return self._position

    def get(self, table_id: int, key: bytes) -> Entry | None:
        """Return the entry of a key, or ``None``."""
        return self.get_stored(_TABLE.pack(table_id) + key)

    def get_stored(self, key: bytes) -> Entry | None:
        """Return the entry of an index key, or ``None``."""
        try:
            value = self._database.get(key)
        except Exception as error:  # the library has no class of its own
            raise _translation(error, self._folder) from error
        return None if value is None else _entry(value)

    def scan(
        self,
        table_id: int,
        start: bytes,
        end: bytes | None,
        *,
        reverse: bool = False,
        limit: int = ROWS_PER_SLICE,
    ) -> list[tuple[bytes, Entry]]:
        """Return at most ``limit`` entries of ``[start, end)`` in order, or from the end on.

        Args:
            table_id: the table.
            start: first key of the range.
            end: first key behind the range; ``None`` for the end of the table.
            reverse: begin with the last key.
            limit: most entries.
        """
        table = _TABLE.pack(table_id)
        low = table + start
        high = _TABLE.pack(table_id + 1) if end is None else table + end
        walk = _backward if reverse else _forward
        return _translated(self._folder, lambda: walk(self._database, low, high, limit))

    def apply(self, changes: Iterable[Change], position: Position) -> None:
        """Write all of ``changes`` and the new position in one batch; later changes win."""
        if self._closed:
            raise ClosedError("index is closed", folder=self._folder)
        batch = rocksdict.WriteBatch(raw_mode=True)
        put, delete = batch.put, batch.delete
        for key, value in changes:
            if value is None:
                delete(key)
            else:
                put(key, value)
        put(_POSITION_KEY, encode_position(position))
        try:
            self._database.write(batch, self._no_wal)
        except Exception as error:  # the library has no class of its own
            raise _translation(error, self._folder) from error
        self._position = position

    def checkpoint(self, folder: Path) -> Position | None:
        """Make a consistent copy in ``folder``, of hard links where possible, memory flushed first.

        ``apply`` may go on meanwhile in another thread: what it adds may or may not be in the copy.

        Args:
            folder: must not exist, on the same file system; its parent is made.

        Returns:
            The position of the copy; ``None`` when it is empty.
        """
        folder.parent.mkdir(parents=True, exist_ok=True)

        def make() -> None:
            self._database.flush(wait=True)
            rocksdict.Checkpoint(self._database).create_checkpoint(str(folder))

        _translated(self._folder, make)
        return checkpoint_position(folder)

    def close(self) -> None:
        """Flush and close. Idempotent; later calls raise ``ClosedError``."""
        if not self._closed:
            self._closed = True
            _translated(self._folder, self._database.close)


def checkpoint_position(folder: Path) -> Position | None:
    """Read the position of a checkpoint's folder and change nothing in it.

    Raises:
        CorruptDataError: the folder is damaged.
    """
    options = rocksdict.Options(raw_mode=True)
    access = rocksdict.AccessType.read_only()
    database = _translated(
        folder, lambda: rocksdict.Rdict(str(folder), options, access_type=access)
    )
    try:
        return _read_position(database, folder)
    finally:
        database.close()


def _open_database(folder: Path, cache_bytes: int) -> rocksdict.Rdict:
    blocks = rocksdict.BlockBasedOptions()
    blocks.set_block_cache(rocksdict.Cache(cache_bytes))
    blocks.set_bloom_filter(10, block_based=False)
    blocks.set_cache_index_and_filter_blocks(True)
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(True)
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(blocks)
    options.set_write_buffer_size(_WRITE_BUFFER_BYTES)
    options.set_max_write_buffer_number(4)
    options.set_target_file_size_base(_FILE_BYTES)
    # The event loop writes: it must not be slowed down before compaction is hopelessly behind.
    options.set_level_zero_slowdown_writes_trigger(40)
    options.set_level_zero_stop_writes_trigger(80)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(MIB)
    return rocksdict.Rdict(str(folder), options)


def _read_position(database: rocksdict.Rdict, folder: Path) -> Position | None:
    value = _translated(folder, lambda: database.get(_POSITION_KEY))
    return None if value is None else decode_position(value)


def _entry(value: bytes) -> Entry:
    return Entry(_VERSION.unpack_from(value)[0], value[_VERSION_BYTES:])


def _forward(
    database: rocksdict.Rdict, low: bytes, high: bytes, limit: int
) -> list[tuple[bytes, Entry]]:
    found: list[tuple[bytes, Entry]] = []
    rows = database.iter()
    rows.seek(low)
    while len(found) < limit and rows.valid():
        key = rows.key()
        if key >= high:
            break
        found.append((key[_TABLE_BYTES:], _entry(rows.value())))
        rows.next()
    rows.status()  # an iterator that met damage is merely not valid any more
    return found


def _backward(
    database: rocksdict.Rdict, low: bytes, high: bytes, limit: int
) -> list[tuple[bytes, Entry]]:
    found: list[tuple[bytes, Entry]] = []
    rows = database.iter()
    rows.seek_for_prev(high)
    if rows.valid() and rows.key() == high:
        rows.prev()
    while len(found) < limit and rows.valid():
        key = rows.key()
        if key < low:
            break
        found.append((key[_TABLE_BYTES:], _entry(rows.value())))
        rows.prev()
    rows.status()
    return found


def _translated(folder: Path, call: Callable[[], T]) -> T:
    try:
        return call()
    except Exception as error:  # the library has no class of its own
        raise _translation(error, folder) from error


def _translation(error: Exception, folder: Path) -> Exception:
    """Return the error of ours that says what the library's message means."""
    if isinstance(error, SiltstoneError | OSError):
        return error
    if isinstance(error, rocksdict.DbClosedError):
        return ClosedError("index is closed", folder=folder)
    message = str(error)
    if "/LOCK: " in message:
        return StoreInUseError("index is open elsewhere", owner="unknown", folder=folder)
    if message.startswith(("Corruption", "IO error: No such file", "Invalid argument")):
        return CorruptDataError("index is damaged", where=str(folder), reason=message)
    return StoreError("index failed", folder=folder, reason=message)
