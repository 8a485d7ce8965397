"""The state that long-term storage alone holds, and what of an older log continues it.

A frame is taken whole or not at all, and none after the first that does not fit: what was
acknowledged later relied on it.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from siltstone.container.boot.replay import build_replica
from siltstone.container.models.settings import ContainerSettings
from siltstone.container.state.boot_state import BootState
from siltstone.container.state.log_scan import LogScan
from siltstone.container.state.logged_frame import decode_logged_frame
from siltstone.container.state.replica import Replica
from siltstone.core.environment import Environment
from siltstone.core.errors import CorruptDataError
from siltstone.core.records.frame import Frame
from siltstone.core.records.piece import AppendHead, TablePiece
from siltstone.core.records.table_record import decode_table_record
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.metadata.checkpoint import INDEX_POOL
from siltstone.metadata.index import Index
from siltstone.segments.segment_storage import ChunkedSegmentStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredCut:
    """The state to continue from, in memory and in an index of its own.

    Attributes:
        replica: tables, and tails of what an older log had.
        index: its index; the receiver closes it.
        boot_state: what it was built from.
        frames_replayed: frames that were taken.
        frames_left: frames that were not.
        left_because: why the first of those was not.
        lengths: length of each segment with a tail, by id, before any frame.
        damage: why no newer state can be built; empty when this is the newest.
    """

    replica: Replica
    index: Index
    boot_state: BootState
    frames_replayed: int
    frames_left: int
    left_because: str
    lengths: dict[int, int]
    damage: str = ""


async def build_cut(
    boot_state: BootState,
    frames: Sequence[Frame],
    system: ChunkedSegmentStorage,
    storage: AsyncChunkStorage,
    environment: Environment,
    settings: ContainerSettings,
    folder: Path,
) -> RecoveredCut:
    """Build the state after the longest run of ``frames`` that continues the table log.

    Args:
        boot_state: what the journal says.
        frames: of an older log of the same lineage, without gaps; may be empty.
        system: reads the table log.
        storage: holds the index files.
        environment: gives threads.
        settings: those of the container.
        folder: for the index; what is there goes.

    Raises:
        CorruptDataError: long-term storage itself is damaged.
        ChunkError: it did not answer.
    """
    count, reason = -1, ""
    while True:
        await environment.run_blocking(
            INDEX_POOL, partial(shutil.rmtree, folder, ignore_errors=True)
        )
        replica, index, begun = await build_replica(
            boot_state,
            LogScan(boot_state, environment),
            system,
            storage,
            environment,
            settings,
            [folder],
            to_damage=True,
        )
        if count < 0:
            count, reason = tables_continue(frames, begun.table_end)
        try:
            lengths = _flushed(replica, frames[:count])
            gap = _apply(replica, frames[:count])
        except BaseException:
            index.close()
            raise
        if gap is None:
            return RecoveredCut(
                replica=replica,
                index=index,
                boot_state=begun,
                frames_replayed=count,
                frames_left=len(frames) - count,
                left_because=reason,
                lengths=lengths,
                damage=begun.warnings[-1] if _falls_short(replica, boot_state) else "",
            )
        # Without the frames after a gap their table updates do not count either.
        index.close()
        count, reason = gap


def _falls_short(replica: Replica, boot_state: BootState) -> bool:
    """Whether damage of the table log was not made up for by frames."""
    return replica.tables.applied_version < boot_state.table_end


def tables_continue(frames: Sequence[Frame], table_end: int) -> tuple[int, str]:
    """How many frames are whole beyond ``table_end``, and why the next one is not."""
    version = table_end
    for count, frame in enumerate(frames):
        where = f"frame {frame.index}"
        try:
            for piece in decode_logged_frame(frame).pieces:
                if not isinstance(piece, TablePiece):
                    continue
                record = decode_table_record(piece.record, where=where)
                begin = record.table_version - record.length
                if record.table_version > version and begin != version:
                    return count, f"{where}: its table update begins at {begin}, not at {version}"
                version = max(version, record.table_version)
        except CorruptDataError as error:
            return count, str(error)
    return len(frames), ""


def _flushed(replica: Replica, frames: Sequence[Frame]) -> dict[int, int]:
    ids = {
        piece.segment_id
        for frame in frames
        for piece in decode_logged_frame(frame).pieces
        if isinstance(piece, AppendHead)
    }
    return {segment_id: replica.flushed_length(segment_id) for segment_id in ids}


def _apply(replica: Replica, frames: Sequence[Frame]) -> tuple[int, str] | None:
    """Apply ``frames``; on a gap return how many come before it, and what it is."""
    try:
        replica.apply_all([decode_logged_frame(frame) for frame in frames])
    except CorruptDataError as error:
        count = next(
            count for count, frame in enumerate(frames) if error.where == f"frame {frame.index}"
        )
        return count, str(error)
    return None
