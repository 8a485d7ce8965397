"""Commits are whole on long-term storage alone: a state with their rows has their bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from siltstone.container.state.replica import Replica
from siltstone.core.records.keys import METADATA_TABLE, RowKind, name_of
from siltstone.core.records.tombstone import decode_tombstone
from siltstone.metadata.rows import Rows


@dataclass(frozen=True, slots=True)
class Commit:
    """An acknowledged commit.

    Attributes:
        table: where its row is.
        key: of the row.
        ends: where its bytes end, by segment id.
    """

    table: str
    key: bytes
    ends: tuple[tuple[int, int], ...]


def check_whole(replica: Replica, commits: list[Commit]) -> None:
    """Raise ``AssertionError`` for a state that has one part of a commit and lacks another.

    A segment that was deleted, or truncated as far, lacks nothing.
    """
    rows = replica.rows
    for commit in commits:
        table_id = rows.table_id(commit.table)
        if table_id is None or replica.tables.get(table_id, commit.key) is None:
            continue
        for segment_id, end in commit.ends:
            _check_end(rows, segment_id, end, f"row {commit.key!r}")
    for name, target_id, end in _joined(replica):
        _check_end(rows, target_id, end, f"the end of {name}, which was joined")


def _check_end(rows: Rows, segment_id: int, end: int, what: str) -> None:
    state = rows.state(segment_id)
    if state is None or state.deleted or state.start_offset >= end:
        return
    length = rows.layout(segment_id).storage_length
    assert length >= end, f"{what} is there, and {state.name} has {length} of {end} bytes"


def _joined(replica: Replica) -> Iterator[tuple[str, int, int]]:
    """Sources of concats, each with its target and where its bytes end there."""
    low, high = bytes((RowKind.TOMBSTONE,)), bytes((RowKind.TOMBSTONE + 1,))
    for key, entry in replica.tables.scan(METADATA_TABLE, low, high, limit=100_000):
        found = decode_tombstone(name_of(key), entry.value)
        if found.length:  # neither a rename nor the end of an empty one
            yield found.name, found.target_id, found.offset + found.length
