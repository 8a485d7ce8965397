"""States of the machine in ``system_journal``, and what a recovery makes of them.

The log is the list of all frames that ever counted; how it stays one list is the matter of the
machine in ``file_log``. An int stands for a frame: ``APPEND`` is user bytes, ``FLUSHED + n`` is the
table update that says that all appends below index n lie in chunks. A position in the table log is
the index of the frame up to which it holds every table update.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

APPEND = 1
FLUSHED = 16

UNBORN, PEEKED, CLAIMED, RECOVERED, BOOTING, OPEN, DEAD = range(7)
AT = ("not begun", "recovered too early", "has the log", "recovered", "booting", "open", "dead")


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalRules:
    """The rules of the protocol; each can be taken out."""

    recovers_after_claim: bool = True
    batch_states_what_it_covers: bool = True
    appends_hold_safe_index: bool = True
    truncates_only_what_is_durable: bool = True
    checkpoint_states_late: bool = True
    truncation_bounded_by_record: bool = True
    truncation_stated: bool = True
    first_checkpoint_twice: bool = True
    checkpoint_alone: bool = True
    closes_older_file: bool = True
    unknown_write_repeated: bool = True
    composed_in_turn: bool = True
    index_not_ahead: bool = True
    chunk_not_written_after_unknown: bool = True
    trims_below_older_checkpoint: bool = True
    deletion_stated: bool = True
    keeps_two_checkpoints: bool = True
    keeps_chunks_of_batches: bool = True
    keeps_what_is_written: bool = True
    keeps_present_layout: bool = True
    newest_epoch_counts: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalBounds:
    """How much may happen."""

    owners: int = 2
    appends: int = 1
    commits: int = 1
    flushes: int = 1
    checkpoints: int = 1
    unknown: int = 0
    damage: int = 0


class Layout(NamedTuple):
    """The table log on long-term storage: where it begins, and (chunk, end) for each part."""

    start: int = 0
    parts: tuple[tuple[int, int], ...] = ()

    @property
    def end(self) -> int:
        """The position that it reaches."""
        return self.parts[-1][1] if self.parts else self.start


class Checkpoint(NamedTuple):
    """A checkpoint: alone in a file. ``index_id`` 0 is the empty index at version 0."""

    sequence: int
    layout: Layout
    index_id: int
    version: int
    safe: int
    newest: int


class Batch(NamedTuple):
    """A journal batch."""

    sequence: int
    layout: Layout
    safe: int
    newest: int
    chunk: int
    """The chunk that it puts or drops."""


class File(NamedTuple):
    """A journal file: its records, or that it is damaged. A file that is gone is ``None``."""

    records: tuple[Checkpoint | Batch, ...]
    damaged: bool = False


class Chunk(NamedTuple):
    """A chunk of the table log."""

    epoch: int
    start: int
    end: int
    there: bool = True


class Index(NamedTuple):
    """The files of an index checkpoint."""

    epoch: int
    version: int
    there: bool = True


class Recovered(NamedTuple):
    """What a recovery finds; ``fault`` says why it finds nothing."""

    layout: Layout = Layout()
    index_id: int = 0
    version: int = 0
    safe: int = 0
    newest: int = -1
    fault: str = ""


class Durable(NamedTuple):
    """A checkpoint that its owner knows to be durable."""

    number: int
    checkpoint: Checkpoint


class Pending(NamedTuple):
    """A journal record whose turn has come and that is not known to be durable."""

    record: Checkpoint | Batch
    copies: int = 1


class Owner(NamedTuple):
    """What one owner knows and is about."""

    at: int = UNBORN
    known: int = 0
    """Frames that it knows."""
    found: Recovered | None = None
    layout: Layout = Layout()
    chunk: int = 0
    """Its own chunk that the next flush may append to."""
    written: tuple[int, int] = (0, 0)
    """A chunk with bytes that no batch names yet, and the position that they reach."""
    index_id: int = 0
    """An index that was uploaded and that no checkpoint names yet."""
    pending: tuple[Pending, ...] = ()
    usable: int = 0
    """Number of the journal file that the next batch goes to; 0: a new one."""
    sequence: int = 0
    durable: tuple[Durable, ...] = ()
    passed: tuple[tuple[int, int], ...] = ()
    """(file, chunk) of the batches after the older of the two newest checkpoints."""
    stated: int = 0
    """The safe index that a truncation may rely on."""
    record: int = -1
    """Index of the newest checkpoint record in the log."""
    truncation: int = 0
    """A truncation that was stated and not carried out."""
    doomed: tuple[str, ...] = ()
    """System files whose deletion was stated and not carried out."""


class State(NamedTuple):
    """Everything. Owner i has epoch i."""

    log: tuple[int, ...]
    acknowledged: int
    first: int
    fence: int
    """The epoch that claimed the log last."""
    journals: tuple[tuple[File | None, ...], ...]
    chunks: tuple[Chunk, ...]
    indexes: tuple[Index, ...]
    owners: tuple[Owner, ...]
    left: tuple[int, ...]
    """Appends, commits, flushes, checkpoints, unknown outcomes, damage that may still happen."""


def covered(log: tuple[int, ...]) -> int:
    """Appends below this index lie in chunks."""
    return max((frame - FLUSHED for frame in log if frame >= FLUSHED), default=0)


def safe_index(log: tuple[int, ...], table_end: int, *, appends_hold: bool) -> int:
    """No frame below it is needed once the table log reaches ``table_end``."""
    below = covered(log)
    for index, frame in enumerate(log):
        if frame >= FLUSHED and index >= table_end:
            return index
        if frame == APPEND and index >= below and appends_hold:
            return index
    return len(log)


def recover(
    journals: tuple[tuple[File | None, ...], ...], *, newest_epoch_counts: bool = True
) -> Recovered | None:
    """What ``journal/journal_state.py`` finds; ``None`` when no epoch ever opened."""
    numbered = list(enumerate(journals, 1))
    for _, files in numbered if not newest_epoch_counts else reversed(numbered):
        there = [file for file in files if file is not None]
        if not there:
            continue
        for place in range(len(there) - 1, -1, -1):
            file = there[place]
            if not file.damaged and isinstance(file.records[0], Checkpoint):
                return _replayed(file.records[0], there[place:])
        return Recovered(fault="journal without a whole checkpoint")
    return None


def _replayed(start: Checkpoint, files: list[File]) -> Recovered:
    layout, safe, newest = start.layout, start.safe, start.newest
    applied: list[Batch] = []
    for number, file in enumerate(files):
        for record in file.records[number == 0 :] if not file.damaged else ():
            if not isinstance(record, Batch):
                return Recovered(fault="a checkpoint among batches")
            place = record.sequence - start.sequence
            if place < 0:
                return Recovered(fault="a batch after a checkpoint that is newer")
            if place > len(applied):
                return Recovered(fault=f"journal lacks sequence {start.sequence + len(applied)}")
            if place < len(applied):
                if applied[place] != record:
                    return Recovered(fault=f"sequence {record.sequence} has two contents")
                continue
            applied.append(record)
            layout = record.layout
            safe, newest = max(safe, record.safe), max(newest, record.newest)
    return Recovered(layout, start.index_id, start.version, safe, newest)


def missing(state: State, found: Recovered | None) -> tuple[str, str] | None:
    """Invariant and reason why a boot from ``found`` would not find the state; else ``None``."""
    found = found or Recovered()
    if found.fault:
        return "I8", f"recovery finds damage: {found.fault}"
    if found.index_id and not state.indexes[found.index_id - 1].there:
        return "I8", f"index {found.index_id} is gone"
    layout = found.layout
    if found.version < layout.start:
        return "I8", f"the table log begins at {layout.start}, the index ends at {found.version}"
    if found.version > layout.end:
        return "I8", f"the index at {found.version} is ahead of the table log at {layout.end}"
    for chunk, end in layout.parts:
        there = state.chunks[chunk - 1]
        if end > found.version and not (there.there and there.end >= end):
            return "I8", f"chunk {chunk} of the table log does not reach {end}"
    if state.first > found.safe:
        return "I8", f"the log begins at {state.first}, recovery states {found.safe}"
    return _unreadable(state, layout.end)


def _unreadable(state: State, table_end: int) -> tuple[str, str] | None:
    below = 0
    for index, frame in enumerate(state.log):
        if frame >= FLUSHED:
            if table_end <= index < state.first and index < state.acknowledged:
                return "I13", f"table update {index} is neither in the log nor in the table log"
            if index < table_end or index >= state.first:
                below = max(below, frame - FLUSHED)
    for index in range(below, min(state.first, state.acknowledged)):
        if state.log[index] == APPEND:
            return "I13", f"append {index} is neither in the log nor in a chunk that rows name"
    return None


def shown(state: State) -> dict[str, object]:
    """The state for a reader of a trace."""
    parts: dict[str, object] = {
        "log": " ".join(map(_frame, state.log)) or "-",
        "log begins": f"at {state.first}, acknowledged below {state.acknowledged}",
    }
    for number, chunk in enumerate(state.chunks, 1):
        there = f"epoch {chunk.epoch}, [{chunk.start}, {chunk.end})"
        parts[f"table log chunk {number}"] = there if chunk.there else "gone"
    for number, index in enumerate(state.indexes, 1):
        there = f"epoch {index.epoch}, version {index.version}"
        parts[f"index {number}"] = there if index.there else "gone"
    for epoch, files in enumerate(state.journals, 1):
        for number, file in enumerate(files, 1):
            parts[f"journal file {epoch}.{number}"] = _file(file)
    for epoch, owner in enumerate(state.owners, 1):
        parts[f"owner {epoch}"] = (
            f"{AT[owner.at]}, knows {owner.known} frames, table log to {owner.layout.end}, "
            f"may truncate to {owner.stated}, record at {owner.record}"
        )
    return parts


def _frame(frame: int) -> str:
    return "append" if frame == APPEND else f"flushed-below-{frame - FLUSHED}"


def _file(file: File | None) -> str:
    if file is None or file.damaged:
        return "damaged" if file else "not there"
    return "; ".join(map(_record, file.records))


def _record(record: Checkpoint | Batch) -> str:
    layout = record.layout
    parts = " ".join(f"chunk {chunk} to {end}" for chunk, end in layout.parts)
    table_log = f"table log from {layout.start}: {parts or 'empty'}, safe {record.safe}"
    if isinstance(record, Checkpoint):
        return f"checkpoint before {record.sequence}, index {record.index_id}, {table_log}"
    return f"batch {record.sequence}, {table_log}"
