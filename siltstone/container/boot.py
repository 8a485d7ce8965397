"""How the state of a container is found: the journal, then the index, then the tier-1 tail.

Owner and read-only opens share these steps; they differ in what they may write.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from siltstone.container.replica import Replica
from siltstone.container.settings import ContainerSettings
from siltstone.core.environment import Environment
from siltstone.core.errors import CorruptDataError, LogLostError
from siltstone.core.records.frame import Frame
from siltstone.core.records.piece import TablePiece, decode_pieces
from siltstone.core.records.table_record import TableRecord, decode_table_record, encoded_length
from siltstone.core.segment_storage import ChunkedSegmentStorage
from siltstone.core.threads import AsyncChunkStorage
from siltstone.core.words import MIB, TABLE_LOG_ID
from siltstone.journal.recovery import Recovered
from siltstone.metadata.checkpoint import INDEX_POOL, link_index, restore_index
from siltstone.metadata.index import Index
from siltstone.metadata.tables import Tables

logger = logging.getLogger(__name__)

READ_BYTES = 8 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Where a boot starts from.

    Attributes:
        lineage: 16 bytes.
        recovered: what the journal says; ``None`` for a new container.
        table_end: end of the table log on long-term storage.
    """

    lineage: bytes
    recovered: Recovered | None
    table_end: int

    @property
    def index_version(self) -> int:
        """Table version of the index files of the checkpoint."""
        return 0 if self.recovered is None else self.recovered.checkpoint.index_version

    @property
    def index_crc(self) -> int:
        """Running CRC32C of the table log at ``index_version``."""
        return 0 if self.recovered is None else self.recovered.checkpoint.index_crc


def found(lineage: bytes, recovered: Recovered | None) -> Found:
    """Take what a boot needs from what the journal says."""
    end = 0
    for system in recovered.layouts if recovered is not None else ():
        if system.layout.segment_id == TABLE_LOG_ID:
            end = system.layout.storage_length
    return Found(lineage=lineage, recovered=recovered, table_end=end)


def check_log(where: Found, first: int, end: int) -> None:
    """Refuse a log that is older than what long-term storage has seen.

    Raises:
        LogLostError: frames that something durable relies on are not there.
    """
    recovered = where.recovered
    if recovered is None:
        return
    if first > recovered.safe_index:
        raise LogLostError(
            "the log begins behind what is needed", first=first, needed=recovered.safe_index
        )
    if end <= recovered.newest_index:
        raise LogLostError(
            "the log ends before an index that was acknowledged",
            end=end,
            acknowledged=recovered.newest_index,
        )


async def build_replica(
    where: Found,
    frames: Sequence[Frame],
    system: ChunkedSegmentStorage,
    storage: AsyncChunkStorage,
    environment: Environment,
    settings: ContainerSettings,
    index_folder: Path,
    copies: Path | None = None,
) -> tuple[Replica, Index]:
    """Build the acknowledged state from the index, the table log and the frames of the tier-1 log.

    Args:
        where: what the journal says.
        frames: every frame that the log keeps.
        system: reads the table log.
        storage: holds the index files of the checkpoint.
        environment: gives threads.
        settings: knobs.
        index_folder: where the local index is, or will be.
        copies: a folder that may hold the checkpoint's index files already, on the same file
            system; they are linked instead of downloaded.

    Raises:
        CorruptDataError: something does not continue what is before it.
        ChunkError: long-term storage did not answer.
    """
    index = await _matching_index(where, frames, system, environment, settings, index_folder)
    if index is None:
        index = await _restored_index(where, storage, environment, settings, index_folder, copies)
    try:
        tables = Tables(index, where.lineage)
        async for record in _table_log(system, tables.applied_version, where.table_end):
            tables.replay(record)
        replica = Replica(tables, environment, idle_max=settings.segments_idle_max)
        replica.table_flushed = where.table_end
        replica.apply_all(frames)
    except BaseException:
        index.close()
        raise
    return replica, index


async def _matching_index(
    where: Found,
    frames: Sequence[Frame],
    system: ChunkedSegmentStorage,
    environment: Environment,
    settings: ContainerSettings,
    folder: Path,
) -> Index | None:
    """The local index if it is a prefix of this very table log, else ``None``."""
    if not await environment.run_blocking(INDEX_POOL, folder.exists):
        return None
    open_index = partial(Index.open, folder, cache_bytes=settings.index_cache_bytes)
    try:
        index = await environment.run_blocking(INDEX_POOL, open_index)
    except CorruptDataError as error:
        logger.warning("local index is damaged and is built anew: %s", error)
        return None
    position = index.position
    try:
        matches = (
            position is not None
            and position.lineage == where.lineage
            and position.version >= where.index_version
            and await _crc_at(position.version, where, frames, system) == position.running_crc
        )
    except BaseException:
        # The next try must find it free.
        index.close()
        raise
    if matches:
        return index
    index.close()
    return None


async def _crc_at(
    version: int, where: Found, frames: Sequence[Frame], system: ChunkedSegmentStorage
) -> int | None:
    """Running CRC32C of the table log at ``version``; ``None`` when no record ends there."""
    if version == where.index_version:
        return where.index_crc
    for record in _frame_records(frames):
        if record.table_version == version:
            return record.crc_after
        if record.table_version - record.length == version:
            return record.running_crc
    if version <= where.table_end:
        async for record in _table_log(system, where.index_version, where.table_end):
            if record.table_version == version:
                return record.crc_after
    return None


def _frame_records(frames: Iterable[Frame]) -> Iterable[TableRecord]:
    for frame in frames:
        where = f"frame {frame.index}"
        for piece in decode_pieces(frame.body, frame.count, where=where):
            if isinstance(piece, TablePiece):
                yield decode_table_record(piece.record, where=where)


async def _restored_index(
    where: Found,
    storage: AsyncChunkStorage,
    environment: Environment,
    settings: ContainerSettings,
    folder: Path,
    copies: Path | None,
) -> Index:
    files = () if where.recovered is None else where.recovered.checkpoint.index_files
    if not files:
        clear = partial(shutil.rmtree, folder, ignore_errors=True)
        await environment.run_blocking(INDEX_POOL, clear)
    elif copies is None or not await environment.run_blocking(
        INDEX_POOL, partial(link_index, files, copies, folder)
    ):
        await restore_index(files, storage, folder, environment)
    open_index = partial(Index.open, folder, cache_bytes=settings.index_cache_bytes)
    index = await environment.run_blocking(INDEX_POOL, open_index)
    position = index.position
    version, crc = (0, 0) if position is None else (position.version, position.running_crc)
    if (version, crc) != (where.index_version, where.index_crc) or (
        position is not None and position.lineage != where.lineage
    ):
        index.close()
        raise CorruptDataError(
            "index checkpoint is not what its checkpoint says",
            where=str(folder),
            version=version,
            expected=where.index_version,
        )
    return index


async def _table_log(
    system: ChunkedSegmentStorage, start: int, end: int
) -> AsyncIterator[TableRecord]:
    """Yield the records of the table log on long-term storage in ``[start, end)``."""
    kept = b""
    position = start
    while position < end:
        begin = position + len(kept)
        if begin >= end:
            raise CorruptDataError("table log ends inside a record", where=f"table log at {begin}")
        buffer = bytearray(min(READ_BYTES, end - begin))
        if await system.read_into(TABLE_LOG_ID, begin, memoryview(buffer)) != len(buffer):
            raise CorruptDataError("table log is cut", where=f"table log at {begin}")
        kept += buffer
        offset = 0
        while (length := encoded_length(kept, offset)) is not None:
            if offset + length > len(kept):
                break
            yield decode_table_record(kept, offset, where=f"table log at {position + offset}")
            offset += length
        position += offset
        kept = kept[offset:]
