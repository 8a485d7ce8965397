"""What is remembered of names that are gone, to recognise a repeat of their last change.

A concat leaves a tombstone under the source's name, a rename one under the old name. Both are
forgotten after a week, by a task.
"""

from __future__ import annotations

from siltstone.core.records.keys import METADATA_TABLE, task_key
from siltstone.core.records.table_record import TableEntry
from siltstone.core.records.task import Task, TaskKind
from siltstone.core.records.tombstone import Tombstone
from siltstone.metadata.changes import put_task, put_tombstone
from siltstone.metadata.rows import Rows
from siltstone.metadata.tables import Tables

TOMBSTONE_MS = 7 * 24 * 3600 * 1000
"""How long a repeat of a concat or of a rename is recognised."""


def remember(tombstone: Tombstone, tables: Tables) -> list[TableEntry]:
    """The entries that leave a tombstone, and the task that forgets it."""
    due_ms = tombstone.made_ms + TOMBSTONE_MS
    kind, subject = TaskKind.FORGET_TOMBSTONE, tombstone.source_id
    # A segment may leave several names in one millisecond, and each has a task.
    while tables.pending(METADATA_TABLE, task_key(due_ms, kind, subject)) is not None:
        due_ms += 1
    task = Task(due_ms=due_ms, kind=kind, subject=subject, name=tombstone.name)
    return [put_tombstone(tombstone), put_task(task)]


def is_due(tombstone: Tombstone, task: Task) -> bool:
    """Whether ``task`` is to forget this tombstone, and not an older one of the same name."""
    return tombstone.source_id == task.subject and tombstone.made_ms + TOMBSTONE_MS <= task.due_ms


def renamed_before(rows: Rows, name: str, new_name: str) -> bool:
    """Whether the segment ``new_name`` had the name ``name`` last, as far as is assigned."""
    tombstone = rows.pending_tombstone(name)
    return (
        tombstone is not None
        and tombstone.is_rename
        and rows.pending_find(name) is None
        and rows.pending_find(new_name) == tombstone.target_id
    )
