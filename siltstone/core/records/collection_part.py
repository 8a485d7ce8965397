"""The part: some rows of a collection, in an object or right here.

Layout, little-endian::

    place: u8               0: an object; 1: inline
    writer: u64             inline this and the next three are 0
    born: u64
    number: u32
    nonce: u64
    length: u64
    footer_length: u32
    crc: u32
    footer_crc: u32
    rows: u64
    schema_id: u32
    flags: u8               1: has _time; 2: has _diff; 4: has negatives
    time: u64
    time_min: u64
    time_max: u64
    diff_sum: i64
    key_min_length: u8      32 at most, and so the next
    key_max_length: u8
    key_min: bytes[key_min_length]
    key_max: bytes[key_max_length]
    inline: bytes[length]   only inline

All numbers stand together, so that a state of many parts is read fast.

Parts have no version: what holds them has.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntFlag

from siltstone.core.constants import Buffer
from siltstone.core.records.collection_frontier import TIME_MAX
from siltstone.core.records.fields import FieldReader, FieldWriter

KEY_BOUND_BYTES_MAX = 32
"""Of the bounds of keys: enough to tell parts from one another, for keys as they are."""

INLINE_BYTES_MAX = 2**16
"""Of one part. Writers put less there: this only bounds what damage can ask for."""

_NUMBERS = struct.Struct("<BQQIQQIIIQIBQQQqBB")
_IN_OBJECT, _INLINE = 0, 1


class PartFlags(IntFlag):
    """What a part has. Numbers are persisted and never change."""

    HAS_TIME = 1
    """A column ``_time``: the times of its rows differ."""
    HAS_DIFF = 2
    """A column ``_diff``: not all its diffs are 1."""
    HAS_NEGATIVES = 4
    """Diffs below 0."""


_FLAGS = {number: PartFlags(number) for number in range(8)}
"""Made once: to make or to ask one takes as long as all other fields of a part."""
_HAS_TIME, _HAS_DIFF, _HAS_NEGATIVES = (int(flag) for flag in PartFlags)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionPart:
    """Rows of one schema, in the order of keys.

    Attributes:
        writer: id of the writer that uploaded it, u64. With ``born``, ``number`` and ``nonce`` it
            makes the name of the object; inline all four are 0.
        born: a seqno that the writer had seen before it began the upload.
        number: of the part among those of the same writer and ``born``, u32.
        nonce: a random u64.
        inline: the bytes themselves, 64 KiB at most; ``None`` where they are in an object.
        length: bytes of the object, or of ``inline``.
        footer_length: bytes of the footer at the end of the object; 0 inline.
        crc: CRC32C of all bytes.
        footer_crc: CRC32C of the footer; 0 inline.
        rows: how many, 1 at least.
        schema_id: of the schema that they have.
        flags: what it has.
        time: of all rows, where the part has no ``_time``; ``AT_COMMIT`` before it is appended,
            where the commit decides.
        time_min: the lowest time of its rows.
        time_max: the highest one.
        diff_sum: sum of the diffs, i64.
        key_min: not above its first key, as bytes in the order of keys, 32 at most; empty where
            that is not known.
        key_max: not below its last key, in the same way; empty where that is not known.
    """

    writer: int = 0
    born: int = 0
    number: int = 0
    nonce: int = 0
    inline: bytes | None = None
    length: int
    footer_length: int = 0
    crc: int
    footer_crc: int = 0
    rows: int
    schema_id: int
    flags: PartFlags
    time: int
    time_min: int
    time_max: int
    diff_sum: int
    key_min: bytes = b""
    key_max: bytes = b""

    @property
    def inline_bytes(self) -> int:
        """Bytes that it keeps in the state."""
        return 0 if self.inline is None else len(self.inline)


def encode_part(part: CollectionPart) -> bytes:
    """Encode one part that was appended."""
    fields = FieldWriter()
    put_part(fields, part)
    return fields.to_bytes()


def decode_part(data: Buffer, *, where: str) -> CollectionPart:
    """Decode one part. Raises ``CorruptDataError``; ``where`` is named."""
    fields = FieldReader(data, where=where)
    part = take_part(fields)
    fields.finish()
    return part


def put_part(fields: FieldWriter, part: CollectionPart) -> None:
    """Add a part that was appended."""
    problem = contradiction(part)
    assert not problem, problem
    fields.put(
        _NUMBERS,
        _IN_OBJECT if part.inline is None else _INLINE,
        part.writer,
        part.born,
        part.number,
        part.nonce,
        part.length,
        part.footer_length,
        part.crc,
        part.footer_crc,
        part.rows,
        part.schema_id,
        part.flags,
        part.time,
        part.time_min,
        part.time_max,
        part.diff_sum,
        len(part.key_min),
        len(part.key_max),
    )
    fields.put_bytes(part.key_min)
    fields.put_bytes(part.key_max)
    if part.inline is not None:
        fields.put_bytes(part.inline)


def take_part(fields: FieldReader) -> CollectionPart:
    """Take a part. Raises ``CorruptDataError``."""
    numbers = fields.take(_NUMBERS)
    place, flags, key_min_length = numbers[0], _FLAGS.get(numbers[11]), numbers[16]
    if flags is None or place > _INLINE:
        raise fields.damage("part has an impossible place or flag")
    keys = fields.take_bytes(key_min_length + numbers[17])
    part = CollectionPart(
        writer=numbers[1],
        born=numbers[2],
        number=numbers[3],
        nonce=numbers[4],
        inline=fields.take_bytes(numbers[5]) if place == _INLINE else None,
        length=numbers[5],
        footer_length=numbers[6],
        crc=numbers[7],
        footer_crc=numbers[8],
        rows=numbers[9],
        schema_id=numbers[10],
        flags=flags,
        time=numbers[12],
        time_min=numbers[13],
        time_max=numbers[14],
        diff_sum=numbers[15],
        key_min=keys[:key_min_length],
        key_max=keys[key_min_length:],
    )
    problem = contradiction(part)
    if problem:
        raise fields.damage(problem)
    return part


def contradiction(part: CollectionPart) -> str:
    """What no part that was appended can be; empty where nothing is wrong."""
    if part.inline is not None:
        if part.writer or part.born or part.number or part.nonce or part.footer_length:
            return "part is inline and in an object"
        if not part.length == len(part.inline) <= INLINE_BYTES_MAX:
            return "part is inline with another length"
    if part.rows < 1 or part.footer_length > part.length:
        return "part without rows, or shorter than its footer"
    if not 0 <= part.time_min <= part.time_max <= TIME_MAX:
        return "part with impossible times"
    flags = int(part.flags)  # To ask a flag for its value takes five times as long.
    if not flags & _HAS_TIME and not part.time_min == part.time == part.time_max:
        return "part of one time with several times"
    if not flags & _HAS_DIFF and (part.diff_sum != part.rows or flags & _HAS_NEGATIVES):
        return "part of diffs of 1 with another sum"
    if len(part.key_min) > KEY_BOUND_BYTES_MAX or len(part.key_max) > KEY_BOUND_BYTES_MAX:
        return "part with a bound of keys that is too long"
    return ""
