"""Sums of a part's row groups, for reads of a range: they stand before the footer of Parquet.

Layout, little-endian::

    groups: u32
    columns: u16
    for each row group, in order:
        key_min: u8, and that many bytes, 32 at most
        crcs: u32 for each column chunk, in the order of columns

Page checksums of Parquet do not cover the headers of pages, where one flipped bit can change what
is read. These sums cover the whole column chunk. The block has no version, and no sum of its own:
the row of the part has the sum of everything from here to the end of the object.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from siltstone.core.constants import Buffer
from siltstone.core.records.collection_part import KEY_BOUND_BYTES_MAX
from siltstone.core.records.fields import FieldReader, FieldWriter

_HEAD = struct.Struct("<IH")
_U8 = struct.Struct("<B")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSums:
    """What is known of a row group beyond its footer.

    Attributes:
        key_min: the bound of its first key, 32 bytes at most.
        crcs: CRC32C of each column chunk, its page headers and dictionary included.
    """

    key_min: bytes
    crcs: tuple[int, ...]


def encode_part_sums(groups: Sequence[GroupSums]) -> bytes:
    """Encode the sums of all row groups, which have as many columns as the first."""
    fields = FieldWriter()
    fields.put(_HEAD, len(groups), len(groups[0].crcs) if groups else 0)
    for group in groups:
        fields.put(_U8, len(group.key_min))
        fields.put_bytes(group.key_min)
        fields.put(struct.Struct(f"<{len(group.crcs)}I"), *group.crcs)
    return fields.to_bytes()


def decode_part_sums(data: Buffer, *, where: str) -> tuple[GroupSums, ...]:
    """Decode what ``encode_part_sums`` made. Raises ``CorruptDataError``; ``where`` is named."""
    fields = FieldReader(data, where=where)
    count, columns = fields.take(_HEAD)
    crcs = struct.Struct(f"<{columns}I")
    groups = []
    for _ in range(count):
        (size,) = fields.take(_U8)
        if size > KEY_BOUND_BYTES_MAX:
            raise fields.damage("part with a bound of keys that is too long")
        groups.append(GroupSums(key_min=fields.take_bytes(size), crcs=fields.take(crcs)))
    fields.finish()
    return tuple(groups)
