"""The file manifest: which bytes of which chunks make the files of a job.

The object ``system/files/<container>-<nonce>.silt``. Little-endian. A head of 60 bytes::

    magic: bytes[4] = "SLTS"
    version: u16 = 1
    flags: u16, bit 0: readers compare blocks with their sums
    container: u32
    expires_ms: u64
    made_ms: u64
    store_id: bytes[16]
    body_length: u64
    body_crc: u32
    head_crc: u32, CRC32C of the head before it

and the body, of ``body_length`` bytes::

    pin_count: u32, then for each: container: u32, lineage: bytes[16], version: u64, name: text
    chunk_count: u32, then for each: uri: text, length: u64
    file_count: u32, then for each: path: text, segment: text, offset: u64, length: u64,
        run_count: u32, then for each: length: u64, chunk: u32, chunk_offset: u64,
            sum_count: u32, sums: u32[sum_count]

It has no envelope of a record: a program in another language reads it, and a sweep reads the head
alone.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from siltstone.core.checksums import crc32c
from siltstone.core.constants import BLOCK_BYTES, LINEAGE_BYTES, Buffer
from siltstone.core.errors import CorruptDataError, FormatError
from siltstone.core.records.fields import FieldReader, FieldWriter

MAGIC = b"SLTS"
VERSION = 1
HEAD_BYTES = 60
VERIFY = 1

_HEAD = struct.Struct("<4sHHIQQ16sQI")
_CRC = struct.Struct("<I")
_COUNT = struct.Struct("<I")
_LINEAGE = struct.Struct("16s")
_PIN = struct.Struct("<I")
_LENGTH = struct.Struct("<Q")
_PLACE = struct.Struct("<QQ")
_RUN = struct.Struct("<QIQ")


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestHead:
    """The beginning of a manifest.

    Attributes:
        container: whose sweep removes it.
        expires_ms: milliseconds since 1970, by the clock of its maker; no read begins later.
        made_ms: milliseconds since 1970.
        store_id: the raw bytes of the store's uuid.
        verify: readers compare every block with its sum.
    """

    container: int
    expires_ms: int
    made_ms: int
    store_id: bytes
    verify: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestPin:
    """A pin that keeps the chunks, and the moment that the files show.

    Attributes:
        container: index of the container.
        lineage: of its table log.
        version: the table version that was pinned; what the files show is that one or a later one.
        name: key of the pin.
    """

    container: int
    lineage: bytes
    version: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestChunk:
    """A chunk.

    Attributes:
        uri: where Hadoop finds it; nothing in it is percent-encoded.
        length: committed bytes; it may have more.
    """

    uri: str
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestRun:
    """Bytes of a file that lie one after another in a chunk.

    Attributes:
        length: bytes, at least 1.
        chunk: index of the chunk.
        chunk_offset: where they begin in it.
        sums: CRC32C of each block of the chunk that they touch, the last one as far as committed.
    """

    length: int
    chunk: int
    chunk_offset: int
    sums: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """A segment as a file.

    Attributes:
        path: below the manifest; unique, and no folder of another's.
        segment: name of the segment.
        offset: in the segment, of the file's first byte.
        length: bytes; all runs together.
        runs: in order and without a gap.
    """

    path: str
    segment: str
    offset: int
    length: int
    runs: tuple[ManifestRun, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileManifest:
    """All of it; runs name chunks by their index."""

    head: ManifestHead
    pins: tuple[ManifestPin, ...]
    chunks: tuple[ManifestChunk, ...]
    files: tuple[ManifestFile, ...]


def encode_file_manifest(manifest: FileManifest) -> bytes:
    """Encode the content of a file manifest. Raises ``ValueError`` for a URI over 65,535 bytes."""
    body = FieldWriter()
    body.put(_COUNT, len(manifest.pins))
    for pin in manifest.pins:
        assert len(pin.lineage) == LINEAGE_BYTES, "a lineage has 16 bytes"
        body.put(_PIN, pin.container)
        body.put(_LINEAGE, pin.lineage)
        body.put(_LENGTH, pin.version)
        body.put_text(pin.name)
    body.put(_COUNT, len(manifest.chunks))
    for chunk in manifest.chunks:
        body.put_text(chunk.uri)
        body.put(_LENGTH, chunk.length)
    body.put(_COUNT, len(manifest.files))
    for file in manifest.files:
        body.put_text(file.path)
        body.put_text(file.segment)
        body.put(_PLACE, file.offset, file.length)
        body.put(_COUNT, len(file.runs))
        for run in file.runs:
            body.put(_RUN, run.length, run.chunk, run.chunk_offset)
            body.put(_COUNT, len(run.sums))
            body.put(_sums(len(run.sums)), *run.sums)
    raw = body.to_bytes()
    head = manifest.head
    begin = _HEAD.pack(
        MAGIC,
        VERSION,
        VERIFY if head.verify else 0,
        head.container,
        head.expires_ms,
        head.made_ms,
        head.store_id,
        len(raw),
        crc32c(raw),
    )
    return begin + _CRC.pack(crc32c(begin)) + raw


def decode_manifest_head(data: Buffer, *, where: str) -> ManifestHead:
    """Decode the head; what follows it may be missing.

    Raises:
        CorruptDataError: damaged; ``where`` is named.
        FormatError: a newer version.
    """
    return _head(data, where)[0]


def decode_file_manifest(data: Buffer, *, where: str) -> FileManifest:
    """Decode the content of a file manifest.

    Raises:
        CorruptDataError: damaged, or it contradicts itself; ``where`` is named.
        FormatError: a newer version.
    """
    head, length, crc = _head(data, where)
    raw = memoryview(data)[HEAD_BYTES:]
    if len(raw) != length or crc32c(raw) != crc:
        raise CorruptDataError("file manifest does not match its length or sum", where=where)
    fields = FieldReader(raw, where=where)
    pins = tuple(_pin(fields) for _ in range(fields.take(_COUNT)[0]))
    chunks = tuple(
        ManifestChunk(uri=fields.take_text(), length=fields.take(_LENGTH)[0])
        for _ in range(fields.take(_COUNT)[0])
    )
    files = tuple(_file(fields, chunks) for _ in range(fields.take(_COUNT)[0]))
    fields.finish()
    return FileManifest(head=head, pins=pins, chunks=chunks, files=files)


def _head(data: Buffer, where: str) -> tuple[ManifestHead, int, int]:
    begin = bytes(memoryview(data)[:HEAD_BYTES])
    if len(begin) < HEAD_BYTES or begin[:4] != MAGIC:
        raise CorruptDataError("not a file manifest", where=where)
    if _CRC.unpack(begin[-_CRC.size :])[0] != crc32c(begin[: -_CRC.size]):
        raise CorruptDataError("head of a file manifest does not match its sum", where=where)
    _, version, flags, container, expires_ms, made_ms, store_id, length, crc = _HEAD.unpack(
        begin[: -_CRC.size]
    )
    if version != VERSION or flags & ~VERIFY:
        raise FormatError.of_version("file manifest", version, VERSION, where=where, flags=flags)
    head = ManifestHead(
        container=container,
        expires_ms=expires_ms,
        made_ms=made_ms,
        store_id=store_id,
        verify=bool(flags & VERIFY),
    )
    return head, length, crc


def _pin(fields: FieldReader) -> ManifestPin:
    (container,) = fields.take(_PIN)
    lineage = fields.take_bytes(LINEAGE_BYTES)
    (version,) = fields.take(_LENGTH)
    return ManifestPin(
        container=container, lineage=lineage, version=version, name=fields.take_text()
    )


def _file(fields: FieldReader, chunks: tuple[ManifestChunk, ...]) -> ManifestFile:
    path, segment = fields.take_text(), fields.take_text()
    offset, length = fields.take(_PLACE)
    runs = tuple(_run(fields, chunks) for _ in range(fields.take(_COUNT)[0]))
    if sum(run.length for run in runs) != length:
        raise fields.damage("file whose runs are not its length")
    return ManifestFile(path=path, segment=segment, offset=offset, length=length, runs=runs)


def _run(fields: FieldReader, chunks: tuple[ManifestChunk, ...]) -> ManifestRun:
    length, chunk, chunk_offset = fields.take(_RUN)
    sums = fields.take(_sums(fields.take(_COUNT)[0]))
    end = chunk_offset + length
    touched = -(-end // BLOCK_BYTES) - chunk_offset // BLOCK_BYTES
    if not length or chunk >= len(chunks) or end > chunks[chunk].length or len(sums) != touched:
        raise fields.damage("run that does not lie in its chunk")
    return ManifestRun(length=length, chunk=chunk, chunk_offset=chunk_offset, sums=sums)


def _sums(count: int) -> struct.Struct:
    return struct.Struct(f"<{count}I")
