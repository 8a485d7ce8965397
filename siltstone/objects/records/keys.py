"""Keys of the rows of a ledger: bytes that order as their parts do.

Layout::

    01                                          space: what the keyspace is
    02                                          state: what the next batch begins with
    03 first_sqn:u64                            manifest: a value segment
    04 number:u32                               task: a value segment to delete
    05 status:u8, number:u64                    large value: how far it is
    08 expires_s:u32, tag, bucket, key, subkey  an object that expires
    09 hash:u64[, tag, bucket, key, subkey]     doubtful: an object that a rebuild cannot know
    10 tag, bucket, key, subkey                 head
    20 bucket, field, term, tag, key            index entry

Numbers are big-endian. A part ends with ``00 01``, and each ``00`` in it is ``00 ff``: so a part
that is the beginning of another comes before it, and parts are told apart.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from enum import IntEnum
from functools import lru_cache
from typing import Final, NamedTuple

from siltstone.core.errors import CorruptDataError

SPACE: Final = b"\x01"
STATE: Final = b"\x02"
MANIFEST: Final = b"\x03"
TASK: Final = b"\x04"
LARGE_VALUE: Final = b"\x05"
EXPIRY: Final = b"\x08"
DOUBTFUL: Final = b"\x09"
HEAD: Final = b"\x10"
INDEX: Final = b"\x20"

_END: Final = b"\0\x01"
_NUL: Final = b"\0\xff"
_NO_SUBKEY: Final = _END + _END

INDEX_KEY_BYTES: Final = len(INDEX) + 5 * len(_END)
"""Bytes of the key of an index row besides its five parts."""

_ENTRY: Final = struct.Struct("<BH")
_HEAD_PARTS: Final = 4
_plain_head = re.compile(re.escape(HEAD) + rb"([^\0]*)\0\x01" * _HEAD_PARTS).fullmatch
"""The parts of the key of a head that have no ``00``: nearly all."""
_new_tuple = tuple.__new__
_U32: Final = struct.Struct(">I")
_U64: Final = struct.Struct(">Q")


class ObjectKey(NamedTuple):
    """What an object is known by.

    Attributes:
        tag: of its kind, such as ``o``.
        bucket: of it.
        key: its name in the bucket.
        subkey: empty but for entries of keyspaces that have heads only.
    """

    tag: bytes
    bucket: bytes
    key: bytes
    subkey: bytes = b""


class IndexEntry(NamedTuple):
    """A term under which an object is found.

    Attributes:
        field: name of the index.
        term: what it is ordered by.
    """

    field: bytes
    term: bytes


Pair = tuple[bytes, bytes]
"""An ``IndexEntry``, or the plain tuple of its field and term.

Plain tuples of bytes are nothing that Python looks at twice when it looks for garbage.
"""


def encode_entries(entries: Iterable[Pair]) -> bytes:
    """Index entries as heads and headers of records have them."""
    parts: list[bytes] = []
    for field, term in entries:
        parts += (_ENTRY.pack(len(field), len(term)), field, term)
    return b"".join(parts)


def escaped(part: bytes) -> bytes:
    """A part of a key, with its end."""
    return (part.replace(b"\0", _NUL) if b"\0" in part else part) + _END


@lru_cache(maxsize=1_024)
def _leading(first: bytes, second: bytes) -> bytes:
    """Two escaped parts: those that many objects have in common."""
    return escaped(first) + escaped(second)


@lru_cache(maxsize=1_024)
def _index_leading(bucket: bytes, field: bytes) -> bytes:
    return INDEX + escaped(bucket) + escaped(field)


@lru_cache(maxsize=16)
def suffix(key: ObjectKey) -> bytes:
    """The parts of an object's key, as rows of all kinds have them.

    A change asks for it when it looks up the head, when it writes it, and for the hash of the key.
    """
    tag, bucket, name, subkey = key
    if subkey or b"\0" in name:
        return _leading(tag, bucket) + escaped(name) + escaped(subkey)
    return _leading(tag, bucket) + name + _NO_SUBKEY


def head_key(key: ObjectKey) -> bytes:
    """Key of an object's head."""
    return HEAD + suffix(key)


def lookup_key(key: ObjectKey) -> bytes:
    """``head_key`` for who only looks: the few suffixes in memory are those of changes."""
    tag, bucket, name, subkey = key
    return HEAD + _leading(tag, bucket) + escaped(name) + (escaped(subkey) if subkey else _END)


def index_keys(key: ObjectKey, entries: Iterable[Pair]) -> list[bytes]:
    """Keys of the rows by which an object is found under terms."""
    tag, bucket, name, _ = key
    end = escaped(tag) + escaped(name)
    keys = []
    for field, term in entries:
        part = escaped(term) if b"\0" in term else term + _END
        keys.append(_index_leading(bucket, field) + part + end)
    return keys


def expiry_key(key: ObjectKey, expires_s: int) -> bytes:
    """Key of the row by which an object is found when it expires, seconds since 1970."""
    return EXPIRY + _U32.pack(expires_s) + suffix(key)


def expired_until(now_s: int) -> bytes:
    """The key after all rows of what has expired at ``now_s``."""
    return EXPIRY + _U32.pack(min(now_s + 1, 2**32 - 1))


def manifest_key(first_sqn: int) -> bytes:
    """Key of the row of the value segment that begins with this SQN."""
    return MANIFEST + _U64.pack(first_sqn)


def first_sqn_of(row_key: bytes) -> int:
    """The SQN in a key that ``manifest_key`` made. Raises ``CorruptDataError``."""
    if len(row_key) != 1 + _U64.size or not row_key.startswith(MANIFEST):
        raise CorruptDataError("not the key of a manifest row", where=row_key.hex())
    number: int = _U64.unpack_from(row_key, 1)[0]
    return number


def task_key(number: int) -> bytes:
    """Key of the row that says that a value segment is to be deleted."""
    return TASK + _U32.pack(number)


def number_of_task(row_key: bytes) -> int:
    """The number in a key that ``task_key`` made. Raises ``CorruptDataError``."""
    if len(row_key) != 1 + _U32.size or not row_key.startswith(TASK):
        raise CorruptDataError("not the key of a task", where=row_key.hex())
    number: int = _U32.unpack_from(row_key, 1)[0]
    return number


def doubtful_key(hashed: int, key: ObjectKey | None = None) -> bytes:
    """Key of the row of a doubtful object, known by the hash of its key alone, or by both."""
    return DOUBTFUL + _U64.pack(hashed) + (b"" if key is None else suffix(key))


def decode_doubtful_key(row_key: bytes) -> tuple[int, ObjectKey | None]:
    """What a doubtful object is known by. Raises ``CorruptDataError``."""
    if len(row_key) < 1 + _U64.size or not row_key.startswith(DOUBTFUL):
        raise CorruptDataError("not the key of a doubtful object", where=row_key.hex())
    hashed: int = _U64.unpack_from(row_key, 1)[0]
    if len(row_key) == 1 + _U64.size:
        return hashed, None
    return hashed, ObjectKey(*_parts(row_key, DOUBTFUL, _U64.size, 4))


class LargeStatus(IntEnum):
    """How far a large value is. Numbers are persisted and never change."""

    UPLOADING = 1
    """Its segment takes bytes."""
    LIVE = 2
    """It is the value of an object."""
    DEAD = 3
    """Nothing but snapshots may need it."""


def large_key(status: LargeStatus, number: int) -> bytes:
    """Key of the row of a large value."""
    return large_prefix(status) + _U64.pack(number)


def large_prefix(status: LargeStatus) -> bytes:
    """What the keys of large values that are so far begin with."""
    return LARGE_VALUE + bytes((status,))


def decode_large_key(row_key: bytes) -> tuple[LargeStatus, int]:
    """How far a large value is, and its number. Raises ``CorruptDataError``."""
    if len(row_key) != 2 + _U64.size or not row_key.startswith(LARGE_VALUE):
        raise CorruptDataError("not the key of a large value", where=row_key.hex())
    if row_key[1] not in LargeStatus.__members__.values():
        raise CorruptDataError("large value in an unknown status", where=row_key.hex())
    return LargeStatus(row_key[1]), _U64.unpack_from(row_key, 2)[0]


def decode_head_key(row_key: bytes) -> ObjectKey:
    """The object that a head belongs to. Raises ``CorruptDataError``."""
    found = _plain_head(row_key)
    if found is None:
        return ObjectKey(*_parts(row_key, HEAD, 0, _HEAD_PARTS))
    return _new_tuple(ObjectKey, found.groups())


def check_head_key(row_key: bytes) -> None:
    """Raise what ``decode_head_key`` raises."""
    if _plain_head(row_key) is None:
        decode_head_key(row_key)


def decode_expiry_key(row_key: bytes) -> tuple[int, ObjectKey]:
    """When an object expires, seconds since 1970, and which one. Raises ``CorruptDataError``."""
    parts = _parts(row_key, EXPIRY, _U32.size, 4)
    return _U32.unpack_from(row_key, 1)[0], ObjectKey(*parts)


def decode_index_key(row_key: bytes) -> tuple[IndexEntry, ObjectKey]:
    """An entry of an index and the object that it finds. Raises ``CorruptDataError``."""
    bucket, field, term, tag, key = _parts(row_key, INDEX, 0, 5)
    return IndexEntry(field, term), ObjectKey(tag, bucket, key)


def _parts(row_key: bytes, kind: bytes, skipped: int, count: int) -> list[bytes]:
    """The parts of a key that begins with ``kind`` and ``skipped`` bytes of a number."""
    if not row_key.startswith(kind):
        raise CorruptDataError("key of a row of another kind", where=row_key.hex())
    *parts, rest = row_key[len(kind) + skipped :].split(_END)
    if len(parts) != count or rest:
        raise CorruptDataError("key of a row has another count of parts", where=row_key.hex())
    if row_key.count(b"\0", len(kind) + skipped) == count:
        return parts
    if any(part.count(b"\0") != part.count(_NUL) for part in parts):
        raise CorruptDataError("key of a row has an impossible part", where=row_key.hex())
    return [part.replace(_NUL, b"\0") for part in parts]


def heads_prefix(tag: bytes, bucket: bytes | None) -> bytes:
    """What the keys of the heads of a bucket, or of all buckets, begin with."""
    return HEAD + (escaped(tag) if bucket is None else _leading(tag, bucket))


def index_prefix(bucket: bytes, field: bytes) -> bytes:
    """What the keys of the entries of an index begin with."""
    return _index_leading(bucket, field)


def bounds(prefix: bytes, start: bytes | None, end: bytes | None) -> tuple[bytes, bytes]:
    """First key, and the one after the last, of those whose next part is in ``[start, end)``."""
    first = prefix if start is None else prefix + escaped(start)
    return first, after_prefix(prefix) if end is None else prefix + escaped(end)


def after_prefix(prefix: bytes) -> bytes:
    """The first key after all that begin with ``prefix``, whose last byte is below 255."""
    return prefix[:-1] + bytes((prefix[-1] + 1,))
