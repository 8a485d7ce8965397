"""The checkpoint: everything that a boot needs, alone in a journal file.

The codec lives here; when one is written is decided by the container.

Body of a record of kind 2, version 1, little-endian::

    lineage: bytes[16]
    epoch: u64
    sequence: u64
    index_version: u64
    index_crc: u32
    replay_index: u64
    safe_index: u64
    newest_index: i64     -1 when there is none
    system: u32, and for each system segment:
        layout
        extents
        chunks
        sums
    index_files: u32, and for each file:
        file_name: text
        chunk_name: text
        length: u64
        crc: u32

Rows are those of ``siltstone.core.records.layout_rows``, envelopes of ``…envelope``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from siltstone.core.constants import LINEAGE_BYTES, Buffer
from siltstone.core.records.block_sums import BlockSumsPatch
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.envelope import RecordKind, open_only, seal
from siltstone.core.records.extent import Extent
from siltstone.core.records.fields import FieldReader, FieldWriter
from siltstone.core.records.layout import Layout
from siltstone.core.records.layout_rows import (
    put_chunk,
    put_extent,
    put_layout,
    put_rows,
    put_sums,
    take_chunk,
    take_extent,
    take_layout,
    take_rows,
    take_sums,
)

VERSION = 1

_LINEAGE = struct.Struct("16s")
_HEAD = struct.Struct("<QQQIQQq")
_FILE = struct.Struct("<QI")


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemLayout:
    """The whole layout of one system segment.

    Attributes:
        layout: its row.
        extents: in order.
        chunks: every chunk that an extent names.
        sums: every group of those chunks, with ``first_block`` 0.
    """

    layout: Layout
    extents: tuple[Extent, ...]
    chunks: tuple[Chunk, ...]
    sums: tuple[BlockSumsPatch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFile:
    """One file of an index checkpoint.

    Attributes:
        file_name: its name in the index's folder.
        chunk_name: where it lies on long-term storage.
        length: bytes.
        crc: CRC32C of all of it.
    """

    file_name: str
    chunk_name: str
    length: int
    crc: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The full state from which a boot starts.

    Attributes:
        lineage: 16 bytes.
        epoch: of the owner that wrote it.
        sequence: the journal sequence of the next batch.
        system: layouts of the system segments.
        index_files: the files of the index at ``index_version``; empty for an empty index.
        index_version: table version up to which the index files hold every update.
        index_crc: running CRC32C of the table log at ``index_version``.
        replay_index: the log is replayed from this index on.
        safe_index: the log below this index is not needed by anything that is durable.
        newest_index: the newest acknowledged log index at the time; -1 when there is none.
    """

    lineage: bytes
    epoch: int
    sequence: int
    system: tuple[SystemLayout, ...]
    index_files: tuple[IndexFile, ...]
    index_version: int
    index_crc: int
    replay_index: int
    safe_index: int
    newest_index: int


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Encode one checkpoint: the whole content of its journal file."""
    assert len(checkpoint.lineage) == LINEAGE_BYTES, "a lineage has 16 bytes"
    fields = FieldWriter()
    fields.put(_LINEAGE, checkpoint.lineage)
    fields.put(
        _HEAD,
        checkpoint.epoch,
        checkpoint.sequence,
        checkpoint.index_version,
        checkpoint.index_crc,
        checkpoint.replay_index,
        checkpoint.safe_index,
        checkpoint.newest_index,
    )
    put_rows(fields, checkpoint.system, _put_system)
    put_rows(fields, checkpoint.index_files, _put_index_file)
    return seal(RecordKind.CHECKPOINT, VERSION, fields.to_bytes())


def decode_checkpoint(data: Buffer, *, where: str) -> Checkpoint:
    """Decode the checkpoint that a journal file holds.

    Raises:
        CorruptDataError: the bytes are not exactly one whole valid record; ``where`` is named.
        FormatError: a whole record of another kind, or of a newer version.
    """
    fields = FieldReader(open_only(data, RecordKind.CHECKPOINT, VERSION, where=where), where=where)
    lineage = fields.take_bytes(LINEAGE_BYTES)
    epoch, sequence, index_version, index_crc, replay_index, safe_index, newest_index = fields.take(
        _HEAD
    )
    system = take_rows(fields, _take_system)
    index_files = take_rows(fields, _take_index_file)
    fields.finish()
    return Checkpoint(
        lineage=lineage,
        epoch=epoch,
        sequence=sequence,
        system=system,
        index_files=index_files,
        index_version=index_version,
        index_crc=index_crc,
        replay_index=replay_index,
        safe_index=safe_index,
        newest_index=newest_index,
    )


def _put_system(fields: FieldWriter, system: SystemLayout) -> None:
    put_layout(fields, system.layout)
    put_rows(fields, system.extents, put_extent)
    put_rows(fields, system.chunks, put_chunk)
    put_rows(fields, system.sums, put_sums)


def _take_system(fields: FieldReader) -> SystemLayout:
    return SystemLayout(
        layout=take_layout(fields),
        extents=take_rows(fields, take_extent),
        chunks=take_rows(fields, take_chunk),
        sums=take_rows(fields, take_sums),
    )


def _put_index_file(fields: FieldWriter, file: IndexFile) -> None:
    fields.put_text(file.file_name)
    fields.put_text(file.chunk_name)
    fields.put(_FILE, file.length, file.crc)


def _take_index_file(fields: FieldReader) -> IndexFile:
    file_name = fields.take_text()
    chunk_name = fields.take_text()
    length, crc = fields.take(_FILE)
    return IndexFile(file_name=file_name, chunk_name=chunk_name, length=length, crc=crc)
