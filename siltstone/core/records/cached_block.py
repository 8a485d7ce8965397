"""The head of a cached block: whose bytes they are, and their sum. Pure.

A head has 4,096 bytes, little-endian, and is before the block's bytes::

    magic: "SLTK"
    kind: u8 (1)
    version: u8 (1)
    name_length: u16
    store: bytes[16]
    block: u64
    length: u32
    sum: u32, CRC32C of the bytes
    name: UTF-8
    padding: zeros
    crc: u32, CRC32C of everything before
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from siltstone.core.checksums import crc32c
from siltstone.core.constants import BLOCK_BYTES, LINEAGE_BYTES, Buffer

HEAD_BYTES: Final = 4_096
MAGIC: Final = b"SLTK"
KIND: Final = 1
VERSION: Final = 1

_HEAD = struct.Struct("<4sBBH16sQII")
_CRC = struct.Struct("<I")
NAME_BYTES_MAX: Final = HEAD_BYTES - _HEAD.size - _CRC.size


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedBlock:
    """Whose bytes a slot of the cache holds.

    Attributes:
        store: the store's id, 16 bytes: other stores have chunks of the same names.
        name: the chunk.
        block: index of the block in it; a block has 256 KiB.
        length: how many bytes from the beginning of the block on; fewer than a block where the
            chunk ended when they were read.
        sum: their CRC32C.
    """

    store: bytes
    name: str
    block: int
    length: int
    sum: int


def encode_cached_block(block: CachedBlock) -> bytes:
    """Encode a head. The name has at most 4,052 bytes of UTF-8."""
    name = block.name.encode("utf-8")
    assert len(name) <= NAME_BYTES_MAX and len(block.store) == LINEAGE_BYTES  # noqa: PT018
    fixed = (MAGIC, KIND, VERSION, len(name), block.store, block.block, block.length, block.sum)
    head = (_HEAD.pack(*fixed) + name).ljust(HEAD_BYTES - _CRC.size, b"\0")
    return head + _CRC.pack(crc32c(head))


def decode_cached_block(data: Buffer) -> CachedBlock | None:
    """Decode a head; ``None`` when it is none, is damaged, or is of another version.

    A cache is never needed, so nothing more is told of what is wrong.
    """
    view = memoryview(data)
    if len(view) < HEAD_BYTES or bytes(view[: len(MAGIC)]) != MAGIC:
        return None
    body = view[: HEAD_BYTES - _CRC.size]
    if _CRC.unpack_from(view, len(body)) != (crc32c(body),):
        return None
    _, kind, version, name_length, store, block, length, value = _HEAD.unpack_from(body)
    if (kind, version) != (KIND, VERSION) or not 0 < length <= BLOCK_BYTES:
        return None
    name = bytes(body[_HEAD.size : _HEAD.size + name_length]).decode("utf-8", "replace")
    return CachedBlock(store=store, name=name, block=block, length=length, sum=value)
