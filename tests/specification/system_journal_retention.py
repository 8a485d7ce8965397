"""What an owner keeps of the journal, and which system files may go.

``journal/retention.py`` decides the latter, asked in its own words.
"""

from __future__ import annotations

from typing import Any

from siltstone.core.chunk_names import index_file, journal_file, system_chunk
from siltstone.core.constants import TABLE_LOG_ID
from siltstone.core.records import checkpoint as records
from siltstone.core.records.chunk import Chunk as ChunkRow
from siltstone.core.records.layout import Layout as LayoutRow
from siltstone.journal.retention import DurableCheckpoint, plan_deletion
from tests.specification.system_journal_state import (
    Batch,
    Checkpoint,
    Chunk,
    Durable,
    Index,
    JournalRules,
    Layout,
    Owner,
    State,
)

CONTAINER = 0


def journal_name(epoch: int, number: int) -> str:
    """Name of a journal file."""
    return journal_file(CONTAINER, epoch, number)


def chunk_name(number: int, chunk: Chunk) -> str:
    """Name of a chunk of the table log; its number in the state is its id."""
    return system_chunk(CONTAINER, chunk.epoch, chunk.start, number)


def index_name(number: int, index: Index) -> str:
    """Name of the one file of an index checkpoint."""
    return index_file(CONTAINER, index.epoch, 0, index.version, f"{number:016x}")


class Retention:
    """Asks ``plan_deletion``; remembers its answers."""

    def __init__(self, rules: JournalRules) -> None:
        self._rules = rules
        self._answers: dict[object, tuple[str, ...]] = {}

    def needless(self, state: State, epoch: int, owner: Owner) -> tuple[str, ...]:
        """Names of the files that are there and that this owner may delete."""
        parts = (state.journals, state.chunks, state.indexes)
        known = (owner.durable, owner.layout, owner.written, owner.index_id, owner.pending)
        key = (*parts, *known, owner.passed, epoch)
        if key not in self._answers:
            self._answers[key] = self._ask(state, epoch, owner)
        return self._answers[key]

    def _ask(self, state: State, epoch: int, owner: Owner) -> tuple[str, ...]:
        rules = self._rules
        listing = [
            journal_name(of, number)
            for of, files in enumerate(state.journals, 1)
            for number, file in enumerate(files, 1)
            if file is not None
        ]
        listing += [chunk_name(n, chunk) for n, chunk in enumerate(state.chunks, 1) if chunk.there]
        listing += [index_name(n, index) for n, index in enumerate(state.indexes, 1) if index.there]
        in_progress = set()
        if rules.keeps_what_is_written:
            in_progress |= {chunk_name(n, state.chunks[n - 1]) for n in owner.written[:1] if n}
            in_progress |= {index_name(n, state.indexes[n - 1]) for n in (owner.index_id,) if n}
        if rules.keeps_chunks_of_batches:
            in_progress |= {chunk_name(n, state.chunks[n - 1]) for _, n in owner.passed}
        durable = list(owner.durable)
        if not rules.keeps_two_checkpoints:
            newest = durable[-1]
            durable = [newest, Durable(newest.number + 1, newest.checkpoint)]
        pinned = [_system(state, owner.layout)] if rules.keeps_present_layout else []
        checkpoints = [
            DurableCheckpoint(
                number=one.number,
                file_name=journal_name(epoch, one.number),
                checkpoint=_record(state, epoch, one.checkpoint),
            )
            for one in durable
        ]
        names = plan_deletion(listing, checkpoints, pinned, in_progress, container=CONTAINER)
        return tuple(names)


def without(state: State, names: set[str]) -> dict[str, Any]:
    """The parts of the state when files of these names are gone."""
    return {
        "journals": tuple(
            tuple(
                None if journal_name(epoch, number) in names else file
                for number, file in enumerate(files, 1)
            )
            for epoch, files in enumerate(state.journals, 1)
        ),
        "chunks": tuple(
            chunk._replace(there=chunk.there and chunk_name(number, chunk) not in names)
            for number, chunk in enumerate(state.chunks, 1)
        ),
        "indexes": tuple(
            index._replace(there=index.there and index_name(number, index) not in names)
            for number, index in enumerate(state.indexes, 1)
        ),
    }


def made_durable(owner: Owner, number: int, rules: JournalRules) -> Owner:
    """The owner when its oldest pending record is durable in this file."""
    pending, *rest = owner.pending
    record = pending.record
    if pending.copies > 1:
        rest = [pending._replace(copies=pending.copies - 1), *rest]
    owner = owner._replace(pending=tuple(rest))
    if isinstance(record, Batch):
        written = owner.written
        if record.layout.parts and record.layout.parts[-1] == written:
            written = (0, 0)
        stated = record.safe
        if not rules.truncates_only_what_is_durable:
            stated = owner.known
        return owner._replace(
            layout=record.layout,
            written=written,
            sequence=record.sequence + 1,
            stated=max(owner.stated, stated),
            passed=(*owner.passed, (number, record.chunk)),
        )
    stated = owner.stated
    if owner.durable:
        stated = max(stated, owner.durable[-1].checkpoint.safe)
    if not rules.checkpoint_states_late:
        stated = max(stated, record.safe)
    durable = (*owner.durable[-1:], Durable(number, record))
    passed = tuple(row for row in owner.passed if row[0] > durable[0].number)
    index = 0 if record.index_id == owner.index_id else owner.index_id
    return owner._replace(durable=durable, stated=stated, passed=passed, index_id=index)


def _record(state: State, epoch: int, checkpoint: Checkpoint) -> records.Checkpoint:
    number = checkpoint.index_id
    files: tuple[records.IndexFile, ...] = ()
    if number:
        name = index_name(number, state.indexes[number - 1])
        files = (records.IndexFile(file_name="index", chunk_name=name, length=1, crc=0),)
    return records.Checkpoint(
        lineage=bytes(16),
        epoch=epoch,
        sequence=checkpoint.sequence,
        system=(_system(state, checkpoint.layout),),
        index_files=files,
        index_version=checkpoint.version,
        index_crc=0,
        replay_index=checkpoint.safe,
        safe_index=checkpoint.safe,
        newest_index=checkpoint.newest,
    )


def _system(state: State, layout: Layout) -> records.SystemLayout:
    rows = []
    for number, end in layout.parts:
        chunk = state.chunks[number - 1]
        name = chunk_name(number, chunk)
        rows.append(ChunkRow(chunk_id=number, name=name, epoch=chunk.epoch, length=end))
    row = LayoutRow(segment_id=TABLE_LOG_ID, storage_start=layout.start, storage_length=layout.end)
    return records.SystemLayout(layout=row, extents=(), chunks=tuple(rows), sums=())
