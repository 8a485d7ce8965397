"""The record of a backup of a keyspace: its value segments, and the objects that have their bytes.

Body of a record of kind 9, version 1, little-endian::

    store_id: bytes[16]       of the store that the keyspace was in
    generation: u64
    made_ms: u64              milliseconds since 1970
    owner: text               who made it
    keyspace: text            its name
    next_sqn: u64             every change below it is in the backup
    tags: u32, and for each one, in order
        name: text
        strategy: u8          as in the row of the keyspace
    segments: u32, and for each one, in the order of their SQNs
        segment_id: u64       of the segment in its store
        number: u32
        first_sqn, last_sqn, length: u64
        records: u32
        footer_end, as_of, kept: u64
        objects: u32, and for each one, one after the other up to footer_end
            name: text        below the folder of the keyspace
            length: u64
            crc: u32          CRC32C of its bytes
    large: u32, and for each large value, in the order of their numbers
        segment_id, number, length: u64
        objects: as above, up to length

The envelope is that of ``siltstone.core.records.envelope``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from siltstone.core.constants import LINEAGE_BYTES, Buffer
from siltstone.core.errors import FormatError
from siltstone.core.records.backup import BackupObject
from siltstone.core.records.envelope import RecordKind, open_only, seal
from siltstone.core.records.fields import FieldReader, FieldWriter
from siltstone.objects.records.space_rows import ManifestRow, Strategy, ValueStatus

VERSION: Final = 1

_ID: Final = struct.Struct("16s")
_HEAD: Final = struct.Struct("<QQ")
_U8: Final = struct.Struct("<B")
_U32: Final = struct.Struct("<I")
_U64: Final = struct.Struct("<Q")
_SEGMENT: Final = struct.Struct("<QIQQQIQQQ")
_LARGE: Final = struct.Struct("<QQQ")
_OBJECT: Final = struct.Struct("<QI")


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedSegment:
    """A value segment in a backup.

    Attributes:
        segment_id: of the segment in its store, which gives it to no other.
        row: what the manifest says of it.
        objects: its bytes, in order.
    """

    segment_id: int
    row: ManifestRow
    objects: tuple[BackupObject, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeCopy:
    """A large value in a backup.

    Attributes:
        segment_id: of its segment in its store, which gives it to no other.
        number: of the value.
        length: bytes of the segment, the sums included.
        objects: its bytes, in order.
    """

    segment_id: int
    number: int
    length: int
    objects: tuple[BackupObject, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceBackup:
    """One generation of a keyspace in a place of backups.

    Attributes:
        store_id: of the store that the keyspace was in, 16 bytes.
        generation: its number; later ones are higher.
        made_ms: when it was begun, milliseconds since 1970.
        owner: who made it.
        keyspace: its name.
        next_sqn: every change below it is in the backup.
        tags: strategy of each tag.
        segments: in the order of their SQNs.
        large: large values, in the order of their numbers.
    """

    store_id: bytes
    generation: int
    made_ms: int
    owner: str
    keyspace: str
    next_sqn: int
    tags: dict[str, Strategy]
    segments: tuple[CopiedSegment, ...]
    large: tuple[LargeCopy, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all that it has."""
        return sum(each.row.footer_end for each in self.segments) + sum(
            each.length for each in self.large
        )

    @property
    def objects(self) -> list[BackupObject]:
        """All objects that it names."""
        every = [each.objects for each in self.segments] + [each.objects for each in self.large]
        return [part for parts in every for part in parts]

    def copies(self) -> dict[int, tuple[BackupObject, ...]]:
        """The objects of each segment, by its id in the store."""
        found = {each.segment_id: each.objects for each in self.segments}
        return found | {each.segment_id: each.objects for each in self.large}


def encode_space_backup(backup: SpaceBackup) -> bytes:
    """Encode the record of a generation."""
    fields = FieldWriter()
    fields.put(_ID, backup.store_id)
    fields.put(_HEAD, backup.generation, backup.made_ms)
    fields.put_text(backup.owner)
    fields.put_text(backup.keyspace)
    fields.put(_U64, backup.next_sqn)
    fields.put(_U32, len(backup.tags))
    for tag, strategy in sorted(backup.tags.items()):
        fields.put_text(tag)
        fields.put(_U8, strategy)
    fields.put(_U32, len(backup.segments))
    for each in backup.segments:
        row = each.row
        fields.put(
            _SEGMENT,
            each.segment_id,
            row.number,
            row.first_sqn,
            row.last_sqn,
            row.length,
            row.records,
            row.footer_end,
            row.as_of,
            row.kept,
        )
        _put_objects(fields, each.objects)
    fields.put(_U32, len(backup.large))
    for large in backup.large:
        fields.put(_LARGE, large.segment_id, large.number, large.length)
        _put_objects(fields, large.objects)
    return seal(RecordKind.KEYSPACE_BACKUP, VERSION, fields.to_bytes())


def _put_objects(fields: FieldWriter, objects: tuple[BackupObject, ...]) -> None:
    fields.put(_U32, len(objects))
    for found in objects:
        fields.put_text(found.name)
        fields.put(_OBJECT, found.length, found.crc)


def decode_space_backup(data: Buffer, *, where: str) -> SpaceBackup:
    """Decode the record of a generation.

    Raises:
        CorruptDataError: damaged; ``where`` is named.
        FormatError: of a newer version.
    """
    body = open_only(data, RecordKind.KEYSPACE_BACKUP, VERSION, where=where)
    fields = FieldReader(body, where=where)
    store_id = fields.take_bytes(LINEAGE_BYTES)
    generation, made_ms = fields.take(_HEAD)
    owner, keyspace = fields.take_text(), fields.take_text()
    (next_sqn,) = fields.take(_U64)
    (count,) = fields.take(_U32)
    tags: dict[str, Strategy] = {}
    for _ in range(count):
        tag = fields.take_text()
        (strategy,) = fields.take(_U8)
        if strategy not in Strategy.__members__.values():
            raise FormatError("unknown strategy of a tag", where=where, strategy=strategy)
        tags[tag] = Strategy(strategy)
    (count,) = fields.take(_U32)
    segments = []
    last = 0
    for _ in range(count):
        segments.append(_take_segment(fields))
        row = segments[-1].row
        if not last < row.first_sqn <= row.last_sqn < next_sqn:
            raise fields.damage("value segments of a backup contradict one another")
        last = row.last_sqn
    (count,) = fields.take(_U32)
    large = []
    for _ in range(count):
        segment_id, number, length = fields.take(_LARGE)
        objects = _take_objects(fields, length)
        large.append(
            LargeCopy(segment_id=segment_id, number=number, length=length, objects=objects)
        )
    fields.finish()
    return SpaceBackup(
        store_id=store_id,
        generation=generation,
        made_ms=made_ms,
        owner=owner,
        keyspace=keyspace,
        next_sqn=next_sqn,
        tags=tags,
        segments=tuple(segments),
        large=tuple(large),
    )


def _take_segment(fields: FieldReader) -> CopiedSegment:
    numbers = fields.take(_SEGMENT)
    segment_id, number, first_sqn, last_sqn, length, records, footer_end, as_of, kept = numbers
    objects = _take_objects(fields, footer_end)
    row = ManifestRow(
        number=number,
        status=ValueStatus.SEALED,
        first_sqn=first_sqn,
        last_sqn=last_sqn,
        length=length,
        records=records,
        footer_end=footer_end,
        as_of=as_of,
        kept=kept,
    )
    return CopiedSegment(segment_id=segment_id, row=row, objects=objects)


def _take_objects(fields: FieldReader, length: int) -> tuple[BackupObject, ...]:
    """The objects that are a segment of ``length`` bytes."""
    (count,) = fields.take(_U32)
    objects = []
    for _ in range(count):
        name = fields.take_text()
        size, crc = fields.take(_OBJECT)
        objects.append(BackupObject(name=name, length=size, crc=crc))
    if sum(each.length for each in objects) != length:
        raise fields.damage("objects of a backup do not make their segment")
    return tuple(objects)
