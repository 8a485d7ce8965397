"""The entries of a collection in words, for people who look for a cause."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from siltstone.core.records.collection_batch import CollectionBatch
from siltstone.core.records.collection_change import ChangeKind, ReplacedBatches, decode_change
from siltstone.core.records.collection_entry import Change, Diff
from siltstone.core.records.collection_frontier import DONE
from siltstone.core.text import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionEntry:
    """One change of a collection's state.

    Attributes:
        seqno: from 1 on, dense.
        written_ms: milliseconds since 1970 by the clock of who wrote it.
        actor: which process wrote it.
        changes: what it changed, in words that may change with any version.
    """

    seqno: int
    written_ms: int
    actor: str
    changes: tuple[str, ...]


def entry_view(diff: Diff) -> CollectionEntry:
    """Put one change into words.

    Raises:
        CorruptDataError: it is damaged.
        FormatError: a newer version wrote it.
    """
    where = f"entry {diff.seqno}"
    return CollectionEntry(
        seqno=diff.seqno,
        written_ms=diff.written_ms,
        actor=diff.actor,
        changes=tuple(_words(change, where) for change in diff.changes),
    )


def frontier_text(frontier: int) -> str:
    """A frontier as people see it."""
    return "done" if frontier == DONE else str(frontier)


def _words(change: Change, where: str) -> str:
    value = decode_change(change.kind, change.body, where=where)
    return _WORDS[ChangeKind(change.kind)](value)


def _batch(batch: CollectionBatch) -> str:
    inline = counted(batch.inline_bytes, "byte") + " inline"
    kept = f"{counted(batch.part_count, 'part')} of {counted(batch.length, 'byte')}"
    return (
        f"[{batch.lower}, {frontier_text(batch.upper)}): {counted(batch.rows, 'row')} in "
        f"{kept}{', ' + inline if batch.inline_bytes else ''}"
    )


def _replaced(change: ReplacedBatches) -> str:
    span = f"[{change.lower}, {frontier_text(change.upper)})"
    return f"batches of {span} replaced by {'; '.join(map(_batch, change.batches)) or 'none'}"


_WORDS: Final[Mapping[ChangeKind, Callable[[Any], str]]] = {
    ChangeKind.SINCE: lambda since: f"since {frontier_text(since)}",
    ChangeKind.LIFE: lambda life: life.name.lower(),
    ChangeKind.FORMAT: lambda number: f"format {number}",
    ChangeKind.FLOOR: lambda seqno: f"floor {seqno}",
    ChangeKind.COLLECTED: lambda seqno: f"garbage collected through {seqno}",
    ChangeKind.PUT_SCHEMA: lambda schema: f"schema {schema.schema_id}",
    ChangeKind.DROP_SCHEMA: lambda number: f"schema {number} dropped",
    ChangeKind.PUT_READER: lambda row: f"reader {row.id:016x}: since {row.since}, hold {row.hold}",
    ChangeKind.DROP_READER: lambda number: f"reader {number:016x} gone",
    ChangeKind.PUT_WRITER: lambda row: f"writer {row.name}: sequence {row.sequence}",
    ChangeKind.DROP_WRITER: lambda name: f"writer {name} gone",
    ChangeKind.PUT_BOOKMARK: lambda row: f"bookmark {row.name}: since {frontier_text(row.since)}",
    ChangeKind.DROP_BOOKMARK: lambda name: f"bookmark {name} gone",
    ChangeKind.PUT_ROLLUP: lambda rollup: f"rollup {rollup.seqno}",
    ChangeKind.DROP_ROLLUP: lambda seqno: f"rollup {seqno} forgotten",
    ChangeKind.PUT_BATCH: lambda batch: f"batch {_batch(batch)}",
    ChangeKind.REPLACE_BATCHES: _replaced,
}
