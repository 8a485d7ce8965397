"""Keys of the rows of a client's folder, one partition after the other.

Integers are big-endian, so keys sort as numbers do; ``~LSN`` is the complement, so that the newest
comes first::

    volumes   "name:" name (UTF-8)                    -> id of the volume
              volume: bytes[16] "/config" | "/status" | "/snapshot" | "/watermarks" | "/push"
    pages     volume, index: u32, ~LSN: u64           -> a page row
    commits   volume, LSN: u64                        -> a commit row
    records   log: bytes[16], remote LSN: u64         -> a commit record
    garbage   volume, LSN: u64, index: u32            -> LSN: u64 of the version that it hides
"""

from __future__ import annotations

import struct

ID_BYTES = 16
"""Length of the id of a volume, a log, a place, a client and a bundle."""

LSN_MAX = 2**64 - 1
INDEX_MAX = 2**32 - 1
"""The last page that a volume can have; the first is 1."""

NAME = b"name:"

_PAGE = struct.Struct(">16sIQ")
_COMMIT = struct.Struct(">16sQ")
_GARBAGE = struct.Struct(">16sQI")
_U64 = struct.Struct(">Q")


def name_key(name: str) -> bytes:
    """Key of the row that gives a name's volume."""
    return NAME + name.encode("utf-8")


def volume_key(volume: bytes, field: str) -> bytes:
    """Key of one of the rows that a volume has once."""
    return volume + b"/" + field.encode("ascii")


def page_key(volume: bytes, index: int, lsn: int) -> bytes:
    """Key of the row of a page that was committed at ``lsn``."""
    return _PAGE.pack(volume, index, LSN_MAX - lsn)


def read_page_key(key: bytes) -> tuple[int, int]:
    """Index and LSN of a page row."""
    _, index, inverted = _PAGE.unpack(key)
    return index, LSN_MAX - inverted


def commit_key(volume: bytes, lsn: int) -> bytes:
    """Key of a local commit, or of a record of a log."""
    return _COMMIT.pack(volume, lsn)


def garbage_key(volume: bytes, lsn: int, index: int) -> bytes:
    """Key of a row version that the commit of ``lsn`` hides."""
    return _GARBAGE.pack(volume, lsn, index)


def read_garbage_key(key: bytes) -> tuple[int, int]:
    """LSN of the commit that hides a version, and index of the page."""
    _, lsn, index = _GARBAGE.unpack(key)
    return lsn, index


def lsn_value(lsn: int) -> bytes:
    """The value of a garbage row."""
    return _U64.pack(lsn)


def read_lsn_value(value: bytes) -> int:
    """See ``lsn_value``."""
    return int(_U64.unpack(value)[0])
