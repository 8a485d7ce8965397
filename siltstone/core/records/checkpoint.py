"""The checkpoint: everything that a boot needs, alone in a journal file.

The codec lives here; when one is written is decided by the container.
"""

from __future__ import annotations

from dataclasses import dataclass

from siltstone.core.records.block_sums import BlockSumsPatch
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent
from siltstone.core.records.layout import Layout


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
