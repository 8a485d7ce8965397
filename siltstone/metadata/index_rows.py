"""Keys and values as the local index holds them, and walks along them. Pure but for reads."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import rocksdict

from siltstone.core.table_value import TableValue

T = TypeVar("T")

NO_LIMIT = sys.maxsize

_TABLE = struct.Struct(">I")
_VERSION = struct.Struct("<Q")
_VERSION_BYTES = _VERSION.size
_TABLE_BYTES = _TABLE.size
_pack_table = _TABLE.pack
_unpack_version = _VERSION.unpack_from
_new_tuple = tuple.__new__
"""Of a named tuple: a third of what its own name takes."""


@dataclass(frozen=True, slots=True)
class RangeEnd:
    """In place of a value: every key from the change's own up to, not with, ``key`` goes."""

    key: bytes


Change = tuple[bytes, bytes | RangeEnd | None]
"""What ``index_key`` and ``stored`` make; ``None`` removes the key."""


Entry = TableValue
"""Of any table, those of the metadata as well."""


def index_key(table_id: int, key: bytes) -> bytes:
    """Key in the index of a table's key."""
    return _pack_table(table_id) + key


def range_bounds(table_id: int, start: bytes, end: bytes) -> tuple[bytes, bytes]:
    """Index keys of a range's first key and of the one after it; empty ``end``: of the table."""
    table = _TABLE.pack(table_id)
    return table + start, table + end if end else _TABLE.pack(table_id + 1)


version_bytes: Callable[[int], bytes] = _VERSION.pack
"""The bytes before a value in the index: the version that wrote it."""


def stored(version: int, value: bytes) -> bytes:
    """What the index keeps for a value."""
    return version_bytes(version) + value


def stored_value(data: bytes) -> bytes:
    """The value that what the index keeps holds."""
    return data[_VERSION_BYTES:]


def entry_of(value: bytes) -> Entry:
    """The entry that a stored value holds."""
    return _new_tuple(Entry, (_unpack_version(value)[0], value[_VERSION_BYTES:]))


def scan_bounds(table_id: int, start: bytes, end: bytes | None) -> tuple[bytes, bytes]:
    """Index keys of the first key of a scan and of the one after it; no ``end``: of the table."""
    table = _TABLE.pack(table_id)
    return table + start, _TABLE.pack(table_id + 1) if end is None else table + end


def below(database: rocksdict.Rdict, high: bytes, walk: Callable[[rocksdict.RdictIter], T]) -> T:
    """Give ``walk`` an iterator that sees nothing from ``high`` on; return what it does.

    Else a step beyond the last row continues to the next one there is, past all that were removed
    and are in the index still: in an empty range, past all removed ones after it. A lower bound is
    not heeded by the library.
    """
    options = rocksdict.ReadOptions()
    options.set_iterate_upper_bound(high)
    # The library points into the options for as long as it walks: they stay until this returns.
    return walk(database.iter(options))


def walk_forward(
    rows: rocksdict.RdictIter, low: bytes, high: bytes, limit: int, bytes_max: int
) -> list[tuple[bytes, Entry]]:
    """Entries of ``[low, high)`` in order, until ``limit`` entries or ``bytes_max`` bytes."""
    rows.seek(low)
    return _walk(rows, rows.next, high.__gt__, limit, bytes_max)


def walk_backward(
    rows: rocksdict.RdictIter, low: bytes, high: bytes, limit: int, bytes_max: int
) -> list[tuple[bytes, Entry]]:
    """Entries of ``[low, high)`` from the last one on, until either limit is reached."""
    rows.seek_for_prev(high)
    if rows.valid() and rows.key() == high:
        rows.prev()
    return _walk(rows, rows.prev, low.__le__, limit, bytes_max)


def _walk(
    rows: rocksdict.RdictIter,
    step: Callable[[], None],
    inside: Callable[[bytes], bool],
    limit: int,
    bytes_max: int,
) -> list[tuple[bytes, Entry]]:
    found: list[tuple[bytes, Entry]] = []
    size = 0
    key_of, value_of, add = rows.key, rows.value, found.append
    left = limit
    while left > 0 and size < bytes_max:
        key = key_of()
        if key is None or not inside(key):
            break
        value = value_of()
        size += len(key) + len(value)
        version = _unpack_version(value)[0]
        add((key[_TABLE_BYTES:], _new_tuple(Entry, (version, value[_VERSION_BYTES:]))))
        left -= 1
        if left and size < bytes_max:  # a step beyond what was asked for may pass many removed rows
            step()
    rows.status()  # an iterator that met damage is merely not valid any more
    return found


def walk_values(
    rows: rocksdict.RdictIter, low: bytes, high: bytes, limit: int, bytes_max: int
) -> list[tuple[bytes, bytes]]:
    """What ``walk_forward`` finds, without versions: two thirds of its time."""
    found: list[tuple[bytes, bytes]] = []
    size = 0
    rows.seek(low)
    key_of, value_of, step, add = rows.key, rows.value, rows.next, found.append
    left = limit
    while left > 0 and size < bytes_max:
        key = key_of()
        if key is None or key >= high:
            break
        value = value_of()
        size += len(key) + len(value)
        add((key[_TABLE_BYTES:], value[_VERSION_BYTES:]))
        left -= 1
        if left and size < bytes_max:
            step()
    rows.status()
    return found


def keys_between(rows: rocksdict.RdictIter, low: bytes, high: bytes, limit: int) -> list[bytes]:
    """Keys of ``[low, high)`` in order, at most ``limit``."""
    found: list[bytes] = []
    rows.seek(low)
    while len(found) < limit and rows.valid() and (key := rows.key()) < high:
        found.append(key)
        rows.next()
    rows.status()
    return found
