"""Appends that say who made them, so that whatever is read can be told whole, or foreign.

A record is a head (magic, length, writer, sequence) and bytes that follow from these. No bytes but
those of records are ever appended.
"""

from __future__ import annotations

import hashlib
import struct
from typing import NamedTuple

_HEAD = struct.Struct("<4sIII")
_MAGIC = b"\xa5rec"


class Record(NamedTuple):
    """One append as it was found.

    Attributes:
        offset: where it begins in the segment.
        writer: who made it.
        sequence: the writer's number of it.
        length: bytes after its head.
    """

    offset: int
    writer: int
    sequence: int
    length: int


def record(writer: int, sequence: int, length: int) -> bytes:
    """A record with ``length`` bytes after its head."""
    head = _HEAD.pack(_MAGIC, length, writer, sequence)
    block = hashlib.blake2b(head, digest_size=64).digest()
    return head + (block * (length // 64 + 1))[:length]


def parse(data: bytes, offset: int) -> list[Record]:
    """The records that ``data``, which stands at ``offset`` of a segment, consists of."""
    found = []
    position = 0
    while position < len(data):
        where = f"at {offset + position} of [{offset}, {offset + len(data)})"
        assert position + _HEAD.size <= len(data), f"a cut head {where}"
        magic, length, writer, sequence = _HEAD.unpack_from(data, position)
        assert magic == _MAGIC, f"foreign bytes {where}"
        whole = record(writer, sequence, length)
        seen = data[position : position + len(whole)]
        assert len(seen) == len(whole), f"a cut record {where}"
        assert seen == whole, f"changed bytes in the record {where}"
        found.append(Record(offset + position, writer, sequence, length))
        position += len(whole)
    return found
