"""The record of a backup: what one generation is made of, and the list of its chunks.

Body of a record of kind 7, version 1, little-endian::

    store_id: bytes[16]
    generation: u64
    begun_ms: u64
    container_count: u32      of the store
    owner: text               who made it
    containers: u32, and for each one
        container: u32
        lineage: bytes[16]
        epoch: u64
        table_version: u64
        table_crc: u32
        segments: u64
        chunks: u64           count of those in the list
        chunk_bytes: u64      their committed bytes
        missing: u64          count of those whose bytes are not there
        list: object
        tail: object
        index_files: u32, and for each one file_name: text, object

    object: name: text, length: u64, crc: u32; without a name when there is none

Version 2, of a backup with collections, ends with::

    collections: object, whose layout ``backup_collections`` has
    collection_count: u32
    parts: u64                objects of rows
    part_bytes: u64

Version 3, of a backup that lacks collections of the store, ends like version 2, without a name of
an object if it has none of them.

The list is an object without an envelope, whose layout is that of the record that names it::

    chunks: each name: text, mark: text, length: u64, fragment_count: u32, and for each fragment
        start: u64, stop: u64, crc: u32

The envelope is that of ``siltstone.core.records.envelope``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from siltstone.core.constants import LINEAGE_BYTES, Buffer
from siltstone.core.records.envelope import RecordKind, open_envelope, open_only, seal
from siltstone.core.records.fields import FieldReader, FieldWriter

VERSION = 1
COLLECTIONS_VERSION = 2
"""Of a record with collections; one without is written as older releases read it."""
LEFT_VERSION = 3
"""Of a record that lacks collections of the store."""

_ID = struct.Struct("16s")
_U32 = struct.Struct("<I")
_HEAD = struct.Struct("<QQI")
_CONTAINER = struct.Struct("<QQIQQQQ")
_OBJECT = struct.Struct("<QI")
_CHUNK = struct.Struct("<QI")
_FRAGMENT = struct.Struct("<QQI")
_COLLECTIONS = struct.Struct("<IQQ")


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupObject:
    """An object in the place of backups.

    Attributes:
        name: below the folder of the store; empty when there is no such object.
        length: its bytes.
        crc: CRC32C of them.
    """

    name: str = ""
    length: int = 0
    crc: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupIndexFile:
    """A file of an index, and the object that holds it."""

    file_name: str
    content: BackupObject


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupFragment:
    """Bytes of a chunk that are one object.

    Attributes:
        start: offset in the chunk of its first byte.
        stop: its end.
        crc: CRC32C of its bytes.
    """

    start: int
    stop: int
    crc: int

    @property
    def length(self) -> int:
        """How many bytes it has."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupChunk:
    """A chunk in a backup.

    Attributes:
        name: of the chunk on long-term storage.
        mark: tells it from other chunks that had its name before; empty where there are none.
        length: committed bytes.
        fragments: in order; each begins where the one before ends, or before, and the last ends
            with ``length``. None at all when the bytes are missing.
    """

    name: str
    mark: str = ""
    length: int
    fragments: tuple[BackupFragment, ...]

    @property
    def stem(self) -> str:
        """What the names of its objects begin with."""
        return self.name + self.mark

    @property
    def missing(self) -> bool:
        """Whether the source could not give the bytes when the backup was made."""
        return not self.fragments


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupContainer:
    """A container in a backup.

    Attributes:
        container: its index in the store.
        lineage: 16 bytes.
        epoch: the highest that was known; what is restored continues above it.
        table_version: that the index files hold, exactly.
        table_crc: running CRC32C of the table log there.
        segments: how many there are.
        chunks: how many the list has.
        chunk_bytes: their committed bytes.
        missing: how many of them have no bytes here.
        list: the list of chunks.
        tail: frames with bytes that lay in no chunk.
        index_files: what the index is made of.
    """

    container: int
    lineage: bytes
    epoch: int
    table_version: int
    table_crc: int
    segments: int
    chunks: int
    chunk_bytes: int
    missing: int
    list: BackupObject
    tail: BackupObject
    index_files: tuple[BackupIndexFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupCollections:
    """The collections in a backup.

    Attributes:
        content: the object that says what they are.
        count: how many there are.
        parts: how many objects of rows they have.
        part_bytes: bytes of these.
    """

    content: BackupObject
    count: int
    parts: int
    part_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """One generation of a store in the place of its backups.

    Attributes:
        store_id: of the store, 16 bytes.
        generation: its number; later ones are higher.
        begun_ms: when the work on it began, milliseconds since 1970: what was acknowledged before
            is in it.
        container_count: of the store.
        owner: who made it.
        containers: those that are in it, in the order of their indexes.
        collections: those that are in it; ``None`` without.
        has_left_collections: the store had collections that are not in it.
    """

    store_id: bytes
    generation: int
    begun_ms: int
    container_count: int
    owner: str
    containers: tuple[BackupContainer, ...]
    collections: BackupCollections | None = None
    has_left_collections: bool = False


def encode_backup(backup: Backup) -> bytes:
    """Encode the record of a generation."""
    fields = FieldWriter()
    fields.put(_ID, backup.store_id)
    fields.put(_HEAD, backup.generation, backup.begun_ms, backup.container_count)
    fields.put_text(backup.owner)
    fields.put(_U32, len(backup.containers))
    for one in backup.containers:
        fields.put(_U32, one.container)
        fields.put(_ID, one.lineage)
        fields.put(
            _CONTAINER,
            one.epoch,
            one.table_version,
            one.table_crc,
            one.segments,
            one.chunks,
            one.chunk_bytes,
            one.missing,
        )
        _put_object(fields, one.list)
        _put_object(fields, one.tail)
        fields.put(_U32, len(one.index_files))
        for file in one.index_files:
            fields.put_text(file.file_name)
            _put_object(fields, file.content)
    found, has_left = backup.collections, backup.has_left_collections
    if found is None and not has_left:
        return seal(RecordKind.BACKUP, VERSION, fields.to_bytes())
    found = found or BackupCollections(content=BackupObject(), count=0, parts=0, part_bytes=0)
    _put_object(fields, found.content)
    fields.put(_COLLECTIONS, found.count, found.parts, found.part_bytes)
    version = LEFT_VERSION if has_left else COLLECTIONS_VERSION
    return seal(RecordKind.BACKUP, version, fields.to_bytes())


def decode_backup(data: Buffer, *, where: str) -> Backup:
    """Decode the record of a generation.

    Raises:
        CorruptDataError: damaged; ``where`` is named.
        FormatError: a newer version.
    """
    claimed = open_envelope(data, where=where).version
    version = claimed if claimed in (VERSION, COLLECTIONS_VERSION) else LEFT_VERSION
    fields = FieldReader(open_only(data, RecordKind.BACKUP, version, where=where), where=where)
    store_id = fields.take_bytes(LINEAGE_BYTES)
    generation, begun_ms, container_count = fields.take(_HEAD)
    owner = fields.take_text()
    (count,) = fields.take(_U32)
    containers = tuple(_take_container(fields) for _ in range(count))
    collections = None if version == VERSION else _take_collections(fields)
    if version == LEFT_VERSION and collections is not None and not collections.content.name:
        collections = None
    fields.finish()
    return Backup(
        store_id=store_id,
        generation=generation,
        begun_ms=begun_ms,
        container_count=container_count,
        owner=owner,
        containers=containers,
        collections=collections,
        has_left_collections=version == LEFT_VERSION,
    )


def encode_chunk_list(chunks: Iterable[BackupChunk]) -> bytes:
    """Encode the list of a container's chunks."""
    fields = FieldWriter()
    for chunk in chunks:
        fields.put_text(chunk.name)
        fields.put_text(chunk.mark)
        fields.put(_CHUNK, chunk.length, len(chunk.fragments))
        for fragment in chunk.fragments:
            fields.put(_FRAGMENT, fragment.start, fragment.stop, fragment.crc)
    return fields.to_bytes()


def decode_chunk_list(data: Buffer, count: int, *, where: str) -> tuple[BackupChunk, ...]:
    """Decode the list of a container's ``count`` chunks, whose sum was compared.

    Raises:
        CorruptDataError: fragments do not make their chunk, or the list has another length.
    """
    fields = FieldReader(data, where=where)
    chunks = []
    for _ in range(count):
        name, mark = fields.take_text(), fields.take_text()
        length, number = fields.take(_CHUNK)
        fragments = tuple(_take_fragment(fields) for _ in range(number))
        chunk = BackupChunk(name=name, mark=mark, length=length, fragments=fragments)
        if chunk.fragments and not _makes(chunk.fragments, length):
            raise fields.damage("fragments do not make their chunk")
        chunks.append(chunk)
    fields.finish()
    return tuple(chunks)


def _put_object(fields: FieldWriter, found: BackupObject) -> None:
    fields.put_text(found.name)
    fields.put(_OBJECT, found.length, found.crc)


def _take_object(fields: FieldReader) -> BackupObject:
    name = fields.take_text()
    length, crc = fields.take(_OBJECT)
    return BackupObject(name=name, length=length, crc=crc)


def _take_collections(fields: FieldReader) -> BackupCollections:
    content = _take_object(fields)
    count, parts, part_bytes = fields.take(_COLLECTIONS)
    return BackupCollections(content=content, count=count, parts=parts, part_bytes=part_bytes)


def _take_container(fields: FieldReader) -> BackupContainer:
    (container,) = fields.take(_U32)
    lineage = fields.take_bytes(LINEAGE_BYTES)
    epoch, version, crc, segments, chunks, chunk_bytes, missing = fields.take(_CONTAINER)
    chunk_list = _take_object(fields)
    tail = _take_object(fields)
    (count,) = fields.take(_U32)
    files = tuple(
        BackupIndexFile(file_name=fields.take_text(), content=_take_object(fields))
        for _ in range(count)
    )
    return BackupContainer(
        container=container,
        lineage=lineage,
        epoch=epoch,
        table_version=version,
        table_crc=crc,
        segments=segments,
        chunks=chunks,
        chunk_bytes=chunk_bytes,
        missing=missing,
        list=chunk_list,
        tail=tail,
        index_files=files,
    )


def _take_fragment(fields: FieldReader) -> BackupFragment:
    start, stop, crc = fields.take(_FRAGMENT)
    return BackupFragment(start=start, stop=stop, crc=crc)


def _makes(fragments: Sequence[BackupFragment], length: int) -> bool:
    end = 0
    for fragment in fragments:
        if fragment.start > end or fragment.stop <= max(end, fragment.start):
            return False
        end = fragment.stop
    return end == length
