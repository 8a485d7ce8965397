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
        footer_end, as_of, kept: u64    footer_end is 0 where damage left none
        objects: u32, and for each one, one after the other up to footer_end, or length
            name: text        below the folder of the keyspace
            length: u64
            crc: u32          CRC32C of its bytes
    large: u32, and for each large value, in the order of their numbers
        segment_id, number, length: u64
        objects: as above, up to length
    missing: only if there are any: u32, and for each range of bytes that could not be read
        is_large: u8          1 of a large value, 0 of a value segment
        number, start, stop: u64
        reason: text

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
_MISSING: Final = struct.Struct("<BQQQ")

REASON_CHARS_MAX: Final = 1_000


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
class AbsentBytes:
    """Bytes of a keyspace that could not be read in its store when a backup was made.

    Attributes:
        is_large: whether they are of a large value; else they are of a value segment.
        number: of the large value, or of the value segment.
        start: offset of the first one in its segment.
        stop: offset after the last one.
        reason: what is wrong, for people.
    """

    is_large: bool
    number: int
    start: int
    stop: int
    reason: str

    @property
    def segment(self) -> str:
        """The end of the name of the segment, as it is below that of the keyspace."""
        return f"large/{self.number:016x}" if self.is_large else f"values/{self.number:08d}"

    def __str__(self) -> str:
        return f"{self.segment}: bytes {self.start} to {self.stop}: {self.reason}"


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
        missing: what could not be read; objects have these bytes as they are now, or zeros.
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
    missing: tuple[AbsentBytes, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all that it has."""
        return sum(bytes_of(each.row) for each in self.segments) + sum(
            each.length for each in self.large
        )

    @property
    def objects(self) -> list[BackupObject]:
        """All objects that it names."""
        every = [each.objects for each in self.segments] + [each.objects for each in self.large]
        return [part for parts in every for part in parts]

    def copies(self) -> dict[int, tuple[BackupObject, ...]]:
        """The objects of each segment that nothing is missing of, by its id in the store."""
        lacking = {(each.is_large, each.number) for each in self.missing}
        found = {
            each.segment_id: each.objects
            for each in self.segments
            if (False, each.row.number) not in lacking
        }
        return found | {
            each.segment_id: each.objects
            for each in self.large
            if (True, each.number) not in lacking
        }


def bytes_of(row: ManifestRow) -> int:
    """Bytes of a value segment in a backup: up to the end of its footer, if it has one."""
    return row.footer_end or row.length


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
    if backup.missing:
        fields.put(_U32, len(backup.missing))
    for lack in backup.missing:
        fields.put(_MISSING, lack.is_large, lack.number, lack.start, lack.stop)
        fields.put_text(lack.reason[:REASON_CHARS_MAX])
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
    missing = () if fields.is_at_end else _take_missing(fields)
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
        missing=missing,
    )


def _take_missing(fields: FieldReader) -> tuple[AbsentBytes, ...]:
    (count,) = fields.take(_U32)
    if not count:
        raise fields.damage("a backup says that it lacks nothing")
    found = []
    for _ in range(count):
        is_large, number, start, stop = fields.take(_MISSING)
        if is_large > 1 or start > stop:
            raise fields.damage("missing bytes of a backup contradict one another")
        found.append(
            AbsentBytes(
                is_large=is_large == 1,
                number=number,
                start=start,
                stop=stop,
                reason=fields.take_text(),
            )
        )
    return tuple(found)


def _take_segment(fields: FieldReader) -> CopiedSegment:
    numbers = fields.take(_SEGMENT)
    segment_id, number, first_sqn, last_sqn, length, records, footer_end, as_of, kept = numbers
    objects = _take_objects(fields, footer_end or length)
    row = ManifestRow(
        number=number,
        status=ValueStatus.SEALED if footer_end else ValueStatus.ROLLING,
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
