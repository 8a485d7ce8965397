"""The beginning of a new lineage: the state of a cut, with all numbers out of the old one's reach.

What the old lineage acknowledged and lost may still lie somewhere under an id or a version that
was given then. So none of these is ever given again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from siltstone.container.living_states import living_states
from siltstone.container.lost_chunks import PutBack
from siltstone.container.pipeline import Pipeline
from siltstone.container.pressure import Pressure
from siltstone.container.recovery_cut import Cut
from siltstone.container.recovery_report import LostRange, SegmentRecovery
from siltstone.container.replica import Replica
from siltstone.container.settings import ContainerSettings, FlushPolicy
from siltstone.container.storage_writer import StorageWriter
from siltstone.core.environment import Environment
from siltstone.core.errors import SiltstoneError
from siltstone.core.packing_storage import PackingSegmentStorage
from siltstone.core.records.keys import CounterKind
from siltstone.core.records.segment_state import SegmentState
from siltstone.core.records.table_record import TableEntry
from siltstone.metadata.changes import put_counter, put_state
from siltstone.metadata.legacy_rows import legacy_pages, remove_legacy
from siltstone.metadata.position import Position

FAR = 2**40
"""How much higher the table version and every id counter of a new lineage are, at least."""

_IDS_BITS = 20
"""Ids that one try of a recovery may use up."""


class DirectWriter:
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

    async def update(self, entries: Sequence[TableEntry], *, relief: bool = True) -> int:
        """See ``LogWriter.update``."""
        update = self.replica.tables.assign(entries)
        self.replica.acknowledge([update], (), max(self.replica.newest_index, 0), 0)
        return update.table_version


async def make_base(
    cut: Cut,
    writer: DirectWriter,
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
    counters = [put_counter(kind, rows.counter(kind) + far) for kind in CounterKind]
    await writer.update(counters)
    for part in put_back:
        for begin in range(0, part.length, policy.chunk_bytes):
            end = min(begin + policy.chunk_bytes, part.length)
            await segments.put_back(part.segment_id, part.offset + begin, part.read(begin, end))
    flusher = StorageWriter(
        cast("Pipeline", writer),  # of a pipeline it uses what ``writer`` has
        segments,
        environment,
        settings,
        policy,
        Pressure(bound=settings.unflushed_bytes_max, deadline_s=settings.append_deadline_s),
    )
    await flusher.flush_all()
    # What a legacy layout holds beyond these bytes is not known, so nothing is written to it.
    for page in legacy_pages(replica.tables):
        await writer.update([remove_legacy(segment_id) for segment_id in page])
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


def segment_reports(
    cut: Cut,
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
    cut: Cut, state: SegmentState, lost: Sequence[LostRange], kept: Sequence[LostRange]
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
