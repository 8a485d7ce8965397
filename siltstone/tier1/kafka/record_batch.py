"""The bytes of one record as a producer of Kafka sends it: a batch of one, in format 2."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from siltstone.core.checksums import crc32c_of
from siltstone.core.constants import Buffer

_HEAD = struct.Struct(">qiib")
_SUM = struct.Struct(">I")
_BODY = struct.Struct(">hiqqqhii")
_LENGTH_FROM = 12
"""The length of a batch counts what follows its own field."""
_ATTRIBUTES = b"\0"
_DELTAS_AND_NO_KEY = b"\0\0\x01"
_NO_HEADERS = b"\0"


def encode_batch(
    buffers: Sequence[Buffer], *, producer: int, producer_epoch: int, sequence: int
) -> list[Buffer]:
    """Return the batch whose one record has ``buffers`` for its value, and no key; in parts.

    It has no time of its own: a broker may refuse one from a clock that is ahead.
    """
    length = sum(len(buffer) for buffer in buffers)
    value_length = _zigzag(length)
    size = len(_ATTRIBUTES) + len(_DELTAS_AND_NO_KEY) + len(value_length) + length + 1
    body = [
        _BODY.pack(0, 0, 0, 0, producer, producer_epoch, sequence, 1),
        _zigzag(size) + _ATTRIBUTES + _DELTAS_AND_NO_KEY + value_length,
        *buffers,
        _NO_HEADERS,
    ]
    total = _HEAD.size + _SUM.size + sum(len(part) for part in body)
    head = _HEAD.pack(0, total - _LENGTH_FROM, -1, 2)
    return [head, _SUM.pack(crc32c_of(body)), *body]


def varint(value: int) -> bytes:
    """A number that is not negative, in groups of 7 bits."""
    out = bytearray()
    while value > 0x7F:
        out.append(0x80 | (value & 0x7F))
        value >>= 7
    out.append(value)
    return bytes(out)


def _zigzag(value: int) -> bytes:
    return varint(value << 1)
