"""The rows of a client's folder, in RocksDB: one column family for each partition.

Batches are atomic over all partitions. The write-ahead log is one sequence, so a batch that was
synced makes all batches before it durable too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TypeVar

import rocksdict

from siltstone.core.constants import MIB
from siltstone.core.errors import ClosedError, Outcome, SiltstoneError
from siltstone.metadata.index import bound_files
from siltstone.metadata.index_errors import translated
from siltstone.metadata.index_process import check_process, use_process
from siltstone.volumes.records.keys import LSN_MAX, page_key, read_page_key

T = TypeVar("T")


class VolumePartition(StrEnum):
    """Names of the column families."""

    VOLUMES = "volumes"
    PAGES = "pages"
    COMMITS = "commits"
    RECORDS = "records"
    GARBAGE = "garbage"


_CACHE_BYTES = 64 * MIB
_WRITE_BUFFER_BYTES = 32 * MIB

_WHAT = "client's folder"


class RowBatch:
    """Changes that take effect together. What adds one raises ``ClosedError`` after a close."""

    def __init__(self, partitions: Partitions) -> None:
        self._families = partitions.families
        self._batch = rocksdict.WriteBatch(raw_mode=True)

    def put(self, partition: VolumePartition, key: bytes, value: bytes) -> None:
        """Set a row."""
        self._batch.put(key, value, self._family(partition))

    def delete(self, partition: VolumePartition, key: bytes) -> None:
        """Remove a row, if it is there."""
        self._batch.delete(key, self._family(partition))

    def delete_below(self, partition: VolumePartition, prefix: bytes) -> None:
        """Remove all rows whose key starts with a prefix of whole ids."""
        end = (int.from_bytes(prefix, "big") + 1).to_bytes(len(prefix) + 1, "big")[1:]
        self._batch.delete_range(prefix, end, self._family(partition))

    @property
    def raw(self) -> rocksdict.WriteBatch:
        """What the library takes."""
        return self._batch

    def _family(self, partition: VolumePartition) -> rocksdict.ColumnFamily:
        family = self._families.get(partition)
        if family is None:
            raise ClosedError(f"{_WHAT} is closed")
        return family


class Partitions:
    """The partitions of one folder. Thread-safe.

    Args:
        folder: made when missing; only one process can have it open.

    Raises:
        StoreInUseError: another process, or this one, has it open.
        CorruptDataError: the folder is damaged.
        StoreError: this process was forked from one that had opened an index or a client.
    """

    def __init__(self, folder: Path) -> None:
        use_process()
        self._process = os.getpid()
        self._folder = folder
        self._database = self._translated(lambda: _open(folder))
        self.families = {
            name: self._database.get_column_family_handle(name.value) for name in VolumePartition
        }
        self._views = {
            name: self._database.get_column_family(name.value) for name in VolumePartition
        }
        self._synced = rocksdict.WriteOptions()
        self._synced.sync = True
        self._unsynced = rocksdict.WriteOptions()

    @property
    def folder(self) -> Path:
        """Where the rows are."""
        return self._folder

    @property
    def is_closed(self) -> bool:
        """Whether ``close`` was called."""
        return not self._views

    @property
    def is_forked(self) -> bool:
        """Whether this is a child of the process that opened it; all but ``close`` fail there."""
        return os.getpid() != self._process

    def get(self, partition: VolumePartition, key: bytes) -> bytes | None:
        """The value of a row, or ``None``."""
        view = self._view(partition)
        value: bytes | None
        try:
            value = view.get(key)
        except Exception:  # noqa: BLE001 - made once more where failures are told from one another
            value = self._translated(lambda: view.get(key))
        return value

    def scan(
        self, partition: VolumePartition, begin: bytes, prefix: bytes
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows from ``begin`` on whose key starts with ``prefix``, as they are now."""
        rows = self._translated(self._view(partition).iter)
        self._translated(lambda: rows.seek(begin))
        while self._translated(rows.valid):
            key = rows.key()
            if not key.startswith(prefix):
                return
            yield key, rows.value()
            self._translated(rows.next)

    def newest_page(self, volume: bytes, index: int, lsn: int) -> tuple[int, bytes] | None:
        """The newest version of a page at or below ``lsn``: its LSN and its row."""
        key = page_key(volume, index, lsn)
        view = self._view(VolumePartition.PAGES)
        try:
            return _first_of_page(view, key)
        except Exception:  # noqa: BLE001 - made once more where failures are told from one another
            return self._translated(lambda: _first_of_page(view, key))

    def page_keys_with(self, volume: bytes, indexes: Sequence[int], row: bytes) -> list[bytes]:
        """Keys of all versions of these pages whose row is this one."""
        view = self._view(VolumePartition.PAGES)
        return self._translated(lambda: _keys_with(view, volume, indexes, row))

    def indexes_above(self, volume: bytes, above: int, end: int) -> Iterator[int]:
        """Yield each index of ``(above, end]`` that has a row of any version, in order."""
        rows = self._translated(self._view(VolumePartition.PAGES).iter)
        index = above
        while index < end:
            # The last key of an index is that of LSN 0.
            begin = page_key(volume, index, 0) + b"\0"
            self._translated(partial(rows.seek, begin))
            if not rows.valid():
                return
            key = rows.key()
            if key[:16] != volume:
                return
            index = read_page_key(key)[0]
            if index <= end:
                yield index

    def batch(self) -> RowBatch:
        """An empty batch. Raises ``ClosedError``."""
        self._view(VolumePartition.VOLUMES)
        return RowBatch(self)

    def write(self, batch: RowBatch, *, synced: bool) -> None:
        """Let a batch take effect; durable on return if it is ``synced``.

        Raises:
            StoreError: it may have taken effect, wholly or not at all: the outcome is unknown.
        """
        check_process()
        options = self._synced if synced else self._unsynced
        try:
            self._translated(lambda: self._database.write(batch.raw, options))
        except SiltstoneError as error:
            error.outcome = Outcome.UNKNOWN
            raise

    def close(self) -> None:
        """Flush and close; later calls raise ``ClosedError``. Does nothing in a forked child."""
        if self.is_forked:
            return
        translated(self._folder, self._close, again=False, what=_WHAT)

    def _close(self) -> None:
        for view in self._views.values():
            view.close()
        # Whatever holds a handle keeps the folder locked.
        self._views.clear()
        self.families.clear()
        self._database.close()

    def _view(self, partition: VolumePartition) -> rocksdict.Rdict:
        check_process()
        view = self._views.get(partition)
        if view is None:
            raise ClosedError(f"{_WHAT} is closed", folder=self._folder)
        return view

    def _translated(self, call: Callable[[], T]) -> T:
        return translated(self._folder, call, what=_WHAT)


def _first_of_page(view: rocksdict.Rdict, key: bytes) -> tuple[int, bytes] | None:
    """LSN and row of the first key from ``key`` on, if it is of the same page."""
    rows = view.iter()
    rows.seek(key)
    if not rows.valid():
        return None
    found = rows.key()
    # Volume and index are the first 20 bytes.
    if found[:20] != key[:20]:
        return None
    return read_page_key(found)[1], rows.value()


def _keys_with(
    view: rocksdict.Rdict, volume: bytes, indexes: Sequence[int], row: bytes
) -> list[bytes]:
    rows = view.iter()
    found = []
    for index in indexes:
        begin = page_key(volume, index, LSN_MAX)
        page = begin[:20]
        rows.seek(begin)
        while rows.valid():
            key = rows.key()
            if key[:20] != page:
                break
            if rows.value() == row:
                found.append(key)
            rows.next()
    return found


def _open(folder: Path) -> rocksdict.Rdict:
    folder.mkdir(parents=True, exist_ok=True)
    options = _options()
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    bound_files(options)
    cache = rocksdict.Cache(_CACHE_BYTES)
    families = {}
    for name in VolumePartition:
        blocks = rocksdict.BlockBasedOptions()
        blocks.set_block_cache(cache)
        if name is not VolumePartition.PAGES:
            blocks.set_bloom_filter(10, block_based=False)
        families[name.value] = _options()
        families[name.value].set_block_based_table_factory(blocks)
    return rocksdict.Rdict(str(folder), options, column_families=families)


def _options() -> rocksdict.Options:
    options = rocksdict.Options(raw_mode=True)
    options.set_write_buffer_size(_WRITE_BUFFER_BYTES)
    return options
