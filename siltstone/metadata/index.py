"""The local index: every table's rows at one table version, in RocksDB.

A cache of what the table log says: applied only after acknowledgement, never the only copy, never
opened by two processes. One column family without a write-ahead log, and the position in the same
write batch as the rows, so that after a crash rows and position agree, at some older version.

Stored, integers of keys big-endian, of values little-endian::

    table_id: u32, key: bytes  ->  version: u64, value: bytes
    0x00                       ->  the position; shorter than any key of a table
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from weakref import WeakSet

import rocksdict

from siltstone.core.constants import MIB, ROWS_PER_SLICE
from siltstone.core.errors import ClosedError, SiltstoneError
from siltstone.core.open_files import files_max
from siltstone.metadata.index_errors import translated, translation
from siltstone.metadata.index_process import use_process
from siltstone.metadata.index_rows import (
    NO_LIMIT,
    Change,
    Entry,
    RangeEnd,
    below,
    entry_of,
    index_key,
    keys_between,
    scan_bounds,
    walk_backward,
    walk_forward,
)
from siltstone.metadata.index_snapshot import IndexSnapshot
from siltstone.metadata.index_watch import CacheCounts, IndexWatch, cache_counts
from siltstone.metadata.position import Position, decode_position, encode_position

CACHE_BYTES = 64 * MIB
"""Block cache by default: indexes and filters of the files are in it as well."""

WRITE_BUFFER_BYTES = 16 * MIB
"""Rows that were applied and are in no file yet, before they become one."""

_FILE_BYTES = 16 * MIB
"""Files of a checkpoint are uploaded whole from memory, so they are small."""

_OPEN_FILES_SHARE = 8
"""Of the files that this process may have open, an index has an eighth at most.

Otherwise it has all of its files open for as long as it is open, and the library fails where there
is no descriptor for one. What is above the bound, 16 MiB each, is opened again when it is read.
"""

_POSITION_KEY = b"\0"

RANGE_POINTS_MAX = 256
"""A range with more keys is removed as one; see ``_remove_range``."""

RANGE_EARLIER_MAX = 1_000


class Index:
    """Rows of all tables of one container at one table version; made by ``open``.

    Thread-safe. Point reads and ``apply`` are quick enough for the event loop; long scans and
    ``checkpoint`` are not.

    Attributes:
        watch: told of each look-up; ``None`` without metrics.
    """

    def __init__(
        self,
        database: rocksdict.Rdict,
        folder: Path,
        position: Position | None,
        watch: IndexWatch | None,
    ) -> None:
        self.watch = watch
        self._database = database
        self._folder = folder
        self._position = position
        self._closed = False
        self._snapshots: WeakSet[IndexSnapshot] = WeakSet()
        self._no_wal = rocksdict.WriteOptions()
        # The stubs call this attribute a method.
        self._no_wal.disable_wal = True  # type: ignore[method-assign, assignment]

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        cache_bytes: int = CACHE_BYTES,
        write_buffer_bytes: int = WRITE_BUFFER_BYTES,
        watch: IndexWatch | None = None,
    ) -> Index:
        """Open the index in ``folder``, or make an empty one.

        Args:
            folder: its own folder; made, with its parents, when missing.
            cache_bytes: size of the block cache.
            write_buffer_bytes: memory of rows that are in no file yet; up to four times as much
                while files are being written.
            watch: told of each look-up. With one, what the cache has is counted for
                ``cache_counts``, and look-ups get a quarter slower.

        Raises:
            StoreInUseError: another process, or this one, has it open.
            CorruptDataError: the folder is damaged: remove it and restore a checkpoint.
            StoreError: this process was forked from one that had opened an index.
        """
        use_process()
        folder.mkdir(parents=True, exist_ok=True)
        database = translated(
            folder,
            lambda: _open_database(
                folder, cache_bytes, write_buffer_bytes, counted=watch is not None
            ),
        )
        try:
            return cls(database, folder, _read_position(database, folder), watch)
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
        value = self.get_raw(index_key(table_id, key))
        return None if value is None else entry_of(value)

    def get_raw(self, key: bytes) -> bytes | None:
        """Return what the index keeps for an index key, version and value, or ``None``."""
        watch = self.watch
        begun = 0.0 if watch is None else watch.clock()
        try:
            value = self._database.get(key)
        except Exception as error:  # the library has no class of its own
            raise translation(error, self._folder) from error
        if watch is not None:
            watch.ended("get", begun)
        return value

    def scan(
        self,
        table_id: int,
        start: bytes,
        end: bytes | None,
        *,
        reverse: bool = False,
        limit: int = ROWS_PER_SLICE,
        bytes_max: int = NO_LIMIT,
    ) -> list[tuple[bytes, Entry]]:
        """Return at most ``limit`` entries of ``[start, end)`` in order, or from the end on.

        Args:
            table_id: the table.
            start: first key of the range.
            end: first key after the range; ``None`` for the end of the table.
            reverse: begin with the last key.
            limit: most entries.
            bytes_max: end with the entry that reaches this many bytes; at least one is returned.
        """
        walk = walk_backward if reverse else walk_forward
        low, high = scan_bounds(table_id, start, end)
        watch = self.watch
        begun = 0.0 if watch is None else watch.clock()
        found = translated(
            self._folder,
            lambda: below(
                self._database, high, lambda rows: walk(rows, low, high, limit, bytes_max)
            ),
        )
        if watch is not None:
            watch.ended("scan", begun)
        return found

    def snapshot(self) -> IndexSnapshot:
        """Hold on to the entries as they are now; closed with the index at the latest."""
        if self._closed:
            raise ClosedError("index is closed", folder=self._folder)
        taken = IndexSnapshot(self._database.iter(), self._folder)
        self._snapshots.add(taken)
        return taken

    def apply(self, changes: Sequence[Change], position: Position) -> None:
        """Write all of ``changes`` and the new position in one batch; later changes win."""
        if self._closed:
            raise ClosedError("index is closed", folder=self._folder)
        batch = rocksdict.WriteBatch(raw_mode=True)
        self._add_in_order(batch, changes)
        self._write(batch, position)

    def apply_rows(self, rows: Mapping[bytes, bytes | RangeEnd | None], position: Position) -> None:
        """``apply`` of changes by their keys, none of which is of a range."""
        if self._closed:
            raise ClosedError("index is closed", folder=self._folder)
        batch = rocksdict.WriteBatch(raw_mode=True)
        put, delete = batch.put, batch.delete
        for key, value in rows.items():
            if value is None:
                delete(key)
            else:
                put(key, value)
        self._write(batch, position)

    def _write(self, batch: rocksdict.WriteBatch, position: Position) -> None:
        batch.put(_POSITION_KEY, encode_position(position))
        try:
            self._database.write(batch, self._no_wal)
        except Exception as error:  # the library has no class of its own
            raise translation(error, self._folder) from error
        self._position = position

    def _add_in_order(self, batch: rocksdict.WriteBatch, changes: Sequence[Change]) -> None:
        for number, (key, value) in enumerate(changes):
            if value is None:
                batch.delete(key)
            elif isinstance(value, RangeEnd):
                self._remove_range(batch, changes[:number], key, value.key)
            else:
                batch.put(key, value)

    def _remove_range(
        self, batch: rocksdict.WriteBatch, earlier: Sequence[Change], low: bytes, high: bytes
    ) -> None:
        """Remove ``[low, high)`` by its keys if they are few, else as a range.

        Every read looks at all ranges that were removed since memory was last flushed, so there may
        be many of them only if many more keys were put.
        """
        found = translated(
            self._folder,
            lambda: below(
                self._database,
                high,
                lambda rows: keys_between(rows, low, high, RANGE_POINTS_MAX + 1),
            ),
        )
        if len(found) > RANGE_POINTS_MAX or len(earlier) > RANGE_EARLIER_MAX:
            batch.delete_range(low, high)
            return
        for key in found:
            batch.delete(key)
        for key, _ in earlier:
            if low <= key < high:
                batch.delete(key)

    def checkpoint(self, folder: Path) -> Position | None:
        """Make a consistent copy in ``folder``, of hard links where possible, memory flushed first.

        ``apply`` may run in another thread meanwhile: what it adds may or may not be in the copy.

        Args:
            folder: must not exist, on the same file system; its parent is made.

        Returns:
            The position of the copy; ``None`` when it is empty.
        """
        folder.parent.mkdir(parents=True, exist_ok=True)

        def make() -> None:
            self._database.flush(wait=True)
            rocksdict.Checkpoint(self._database).create_checkpoint(str(folder))

        translated(self._folder, make)
        return checkpoint_position(folder)

    def cache_counts(self) -> CacheCounts:
        """Blocks found in the cache, and read from files, since it was opened; 0 if unwatched."""
        text = self._database.property_value("rocksdb.options-statistics")
        return cache_counts(text or "")

    def file_bytes(self) -> int:
        """Bytes of its files."""
        return self._database.property_int_value("rocksdb.total-sst-files-size") or 0

    def close(self) -> None:
        """Flush and close. Idempotent; later calls raise ``ClosedError``."""
        if not self._closed:
            self._closed = True
            for taken in list(self._snapshots):
                taken.close()
            translated(self._folder, self._database.close, again=False)


def checkpoint_position(folder: Path) -> Position | None:
    """Read the position of a checkpoint's folder and change nothing in it.

    Raises:
        CorruptDataError: the folder is damaged.
    """
    options = rocksdict.Options(raw_mode=True)
    access = rocksdict.AccessType.read_only()
    database = translated(folder, lambda: rocksdict.Rdict(str(folder), options, access_type=access))
    try:
        return _read_position(database, folder)
    finally:
        database.close()


def bound_files(options: rocksdict.Options) -> None:
    """Bound the files that a database has open, and the log that the library keeps of itself."""
    limit = files_max()
    options.set_max_open_files(-1 if limit is None else limit // _OPEN_FILES_SHARE)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(MIB)


def _open_database(
    folder: Path, cache_bytes: int, write_buffer_bytes: int, *, counted: bool
) -> rocksdict.Rdict:
    blocks = rocksdict.BlockBasedOptions()
    blocks.set_block_cache(rocksdict.Cache(cache_bytes))
    blocks.set_bloom_filter(10, block_based=False)
    blocks.set_cache_index_and_filter_blocks(True)
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(True)
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    if counted:
        options.enable_statistics()
    options.set_block_based_table_factory(blocks)
    options.set_write_buffer_size(write_buffer_bytes)
    options.set_max_write_buffer_number(4)
    bound_files(options)
    options.set_target_file_size_base(_FILE_BYTES)
    # The event loop writes: it must not be slowed down before compaction is hopelessly late.
    options.set_level_zero_slowdown_writes_trigger(40)
    options.set_level_zero_stop_writes_trigger(80)
    # A checkpoint copies and uploads it whole, and it grows with every file that comes or goes.
    options.set_max_manifest_file_size(MIB)
    return rocksdict.Rdict(str(folder), options)


def _read_position(database: rocksdict.Rdict, folder: Path) -> Position | None:
    value = translated(folder, lambda: database.get(_POSITION_KEY))
    return None if value is None else decode_position(value)
