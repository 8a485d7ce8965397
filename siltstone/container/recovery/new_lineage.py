"""The beginning of a new lineage: the state of a cut, with all numbers out of the old one's reach.

What the old lineage acknowledged and lost may still lie somewhere under an id or a version that
was given then. So none of these is ever given again.

How a container begins again from a state: a checkpoint of a new lineage first, then its log.

So begins a recovery after a lost log, and a restore in a store that is new. The checkpoint alone
makes the state count; a try that died before it has changed nothing, and one that died after it has
only its log left to begin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from siltstone.container.boot.storage_layers import packing_storage
from siltstone.container.commit.back_pressure import Pressure
from siltstone.container.flush.segment_flusher import SegmentFlusher
from siltstone.container.flush.write_through_hooks import WriteThrough, forget_write_through
from siltstone.container.models.recovery_report import LostRange, SegmentRecovery
from siltstone.container.models.settings import ContainerSettings, FlushPolicy
from siltstone.container.recovery.lost_chunks import PutBack
from siltstone.container.recovery.recovered_state import RecoveredCut
from siltstone.container.state.live_segments import living_states
from siltstone.container.state.replica import Replica
from siltstone.core.chunk_names import recovery_file
from siltstone.core.constants import TABLE_LOG_ID
from siltstone.core.environment import Environment
from siltstone.core.errors import SiltstoneError
from siltstone.core.fenced_log import FencedLog
from siltstone.core.records.checkpoint import Checkpoint, SystemLayout
from siltstone.core.records.keys import CounterKind
from siltstone.core.records.layout import Layout
from siltstone.core.records.piece import ControlKind, control_piece, encode_checkpoint_record
from siltstone.core.records.recovery import Recovery, encode_recovery
from siltstone.core.records.segment_state import SegmentState
from siltstone.core.records.table_record import TableEntry
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.journal.journal import Journal
from siltstone.journal.journal_state import JournalState
from siltstone.metadata.changes import put_counter, put_state
from siltstone.metadata.checkpoint import upload_index
from siltstone.metadata.layout_store import TableLayoutStore
from siltstone.metadata.position import Position
from siltstone.segments.packing_segment_storage import PackingSegmentStorage

FAR = 2**40
"""How much higher the table version and the id counters of a new lineage are, at least."""

TABLES_FAR = 2**20
"""The same of ids of tables, which have four bytes: more than a log that is lost can have made."""

_TABLES_FAR_BELOW = 2**31
"""From this id on, after two thousand recoveries, ids of tables that were lost may come again."""

_IDS_BITS = 20
"""Ids that one try of a recovery may use up."""


class LoglessWriter:
    """A ``LogWriter`` without a log: an update is applied at once, and durable with the checkpoint.

    Attributes:
        replica: what is updated.
        failure: never set: there is nothing that could fail between.
    """

    def __init__(self, replica: Replica, epoch: int) -> None:
        self.replica = replica
        self.failure: SiltstoneError | None = None
        self._epoch = epoch

    @property
    def epoch(self) -> int:
        """The epoch of the recovery."""
        return self._epoch

    def pending(self, table_id: int, key: bytes) -> bytes | None:
        """See ``LogWriter.pending``."""
        entry = self.replica.tables.pending(table_id, key)
        return None if entry is None else entry.value

    async def settled(self) -> bool:
        """See ``FlushLog.settled``: an update is applied at once, so nothing waits."""
        return True

    async def update(self, entries: Sequence[TableEntry], *, relief: bool = True) -> int:
        """See ``LogWriter.update``."""
        update = self.replica.tables.assign(entries)
        self.replica.acknowledge([update], (), max(self.replica.newest_index, 0), 0)
        return update.table_version


async def make_base(
    cut: RecoveredCut,
    writer: LoglessWriter,
    segments: PackingSegmentStorage,
    environment: Environment,
    settings: ContainerSettings,
    policy: FlushPolicy,
    lineage: bytes,
    put_back: Sequence[PutBack] = (),
) -> Position:
    """Turn the index of ``cut`` into the first one of ``lineage``; return its position.

    Bytes that frames held are written to chunks, those of ``put_back`` in the place of chunks that
    lost them. Nothing of it counts before a checkpoint names it.

    Raises:
        ChunkError: long-term storage failed; what was written is garbage.
    """
    replica = cut.replica
    rows = replica.rows
    # Each try has another epoch, and so ids of its own.
    far = FAR + (writer.epoch << _IDS_BITS)
    await writer.update(
        [put_counter(kind, _number_after(kind, rows.counter(kind), far)) for kind in CounterKind]
    )
    for part in put_back:
        for begin in range(0, part.length, policy.chunk_bytes):
            end = min(begin + policy.chunk_bytes, part.length)
            await segments.put_back(part.segment_id, part.offset + begin, part.read(begin, end))
    flusher = SegmentFlusher(
        writer,
        segments,
        environment,
        settings,
        policy,
        Pressure(bound=settings.unflushed_bytes_max, deadline_s=settings.append_deadline_s),
        asyncio.Event(),
        lambda: False,
        WriteThrough(),
    )
    await flusher.flush_all()
    # What a layout that was written holds beyond these bytes is not known, so nothing goes there.
    await forget_write_through(replica.tables, writer)
    for state in living_states(replica):
        flushed = replica.flushed_length(state.segment_id)
        if state.start_offset > flushed:
            await segments.skip(state.segment_id, state.start_offset)
            flushed = state.start_offset
        if state.sealed_length is not None and state.sealed_length > flushed:
            await writer.update([put_state(replace(state, sealed_length=flushed))])
    tables = replica.tables
    position = Position(lineage, tables.applied_version + FAR, tables.applied_crc, 0)
    cut.index.apply([], position)
    return position


def _number_after(kind: CounterKind, number: int, far: int) -> int:
    """What a counter goes on with that was here in the older lineage, and may have been beyond."""
    if kind is CounterKind.TABLE_ID:
        return number + (TABLES_FAR if number < _TABLES_FAR_BELOW else 0)
    return number + far


def segment_reports(
    cut: RecoveredCut,
    lost: Mapping[int, Sequence[LostRange]],
    kept: Mapping[int, Sequence[LostRange]],
) -> tuple[SegmentRecovery, ...]:
    """What is left of each segment; the tails of ``cut`` count.

    Args:
        cut: the state.
        lost: what long-term storage lacks and nothing holds, by segment id.
        kept: what it lacks and frames hold.
    """
    return tuple(
        _report(cut, state, lost.get(state.segment_id, ()), kept.get(state.segment_id, ()))
        for state in living_states(cut.replica)
    )


def _report(
    cut: RecoveredCut, state: SegmentState, lost: Sequence[LostRange], kept: Sequence[LostRange]
) -> SegmentRecovery:
    segment = cut.replica.by_id.get(state.segment_id)
    flushed = cut.replica.flushed_length(state.segment_id)
    length = flushed if segment is None else segment.length
    before = cut.lengths.get(state.segment_id, flushed)
    sealed = state.sealed_length
    reached = max(length, state.start_offset)
    return SegmentRecovery(
        name=state.name,
        start_offset=state.start_offset,
        length=reached,
        replayed=max(0, length - max(before, state.start_offset)),
        sealed=sealed is not None,
        missing=0 if sealed is None else max(0, sealed - reached),
        lost=tuple(lost),
        kept=tuple(kept),
    )


async def write_beginning(
    container: int,
    cut: RecoveredCut,
    journal: Journal,
    storage: AsyncChunkStorage,
    environment: Environment,
    settings: ContainerSettings,
    scratch: Path,
    owner: str,
    put_back: Sequence[PutBack] = (),
) -> None:
    """Write the state of ``cut``, and the checkpoint that makes it count.

    Args:
        container: its index.
        cut: the state, its tails included; what they hold goes into chunks. Changed here.
        journal: of the new lineage, in an epoch that no owner has.
        storage: long-term storage, which has the chunks that the state names.
        environment: gives time, threads and randomness.
        settings: those of the container.
        scratch: a folder for a copy of the index.
        owner: what to say about who did it.
        put_back: bytes that chunks of the state have lost; they go into new ones.

    Raises:
        ChunkError: long-term storage failed; nothing of it counts.
    """
    previous = cut.boot_state.lineage
    writer = LoglessWriter(cut.replica, journal.epoch)
    layouts = TableLayoutStore(
        cut.replica.rows, writer, container, environment, settings.garbage_delay_s
    )
    segments = packing_storage(storage, layouts, environment, settings)
    policy = settings.resolved(storage.capabilities)
    position = await make_base(
        cut, writer, segments, environment, settings, policy, journal.lineage, put_back
    )
    uploaded = await upload_index(
        cut.index, storage, environment, container, journal.epoch, (), scratch / "copy", {}
    )
    record = Recovery(
        lineage=journal.lineage,
        previous_lineage=previous,
        epoch=journal.epoch,
        made_ms=int(environment.time() * 1000),
        cut_version=cut.boot_state.table_end,
        table_version=position.version,
        frames=cut.frames_replayed,
        owner=owner,
    )
    await storage.create(recovery_file(container, journal.epoch), [encode_recovery(record)])
    layout = Layout(
        segment_id=TABLE_LOG_ID,
        storage_start=position.version,
        storage_length=position.version,
    )
    await journal.write_first_checkpoint(
        lambda sequence: Checkpoint(
            lineage=journal.lineage,
            epoch=journal.epoch,
            sequence=sequence,
            system=(SystemLayout(layout=layout, extents=(), chunks=(), sums=()),),
            index_files=uploaded.files,
            index_version=position.version,
            index_crc=position.running_crc,
            replay_index=0,
            safe_index=0,
            newest_index=-1,
        )
    )


def begin_log(container: int, log: FencedLog, journal_state: JournalState, owner: str) -> None:
    """Begin the log of a lineage whose checkpoint is durable, on a handle not claimed. Blocking.

    Raises:
        LogLostError: the log holds something else; nothing was written.
        LogError: the log failed; the call may be repeated with another handle.
    """
    checkpoint, epoch = journal_state.checkpoint, journal_state.epoch
    log.claim(lineage=checkpoint.lineage, new=True, above=epoch, takeover=False, owner=owner)
    recovery = recovery_file(container, epoch)
    pieces = [
        control_piece(ControlKind.RECOVERY, recovery.encode()),
        control_piece(
            ControlKind.CHECKPOINT, encode_checkpoint_record(journal_state.checkpoint_file)
        ),
    ]
    log.append(pieces, count=len(pieces))
