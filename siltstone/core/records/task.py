"""The task row: work that must be finished, found again after a crash."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class TaskKind(IntEnum):
    """What there is to do. Numbers are persisted and never change."""

    DELETE_CHUNK = 1
    """Delete a chunk that nothing references any more; ``subject`` is its chunk id."""
    TRIM_SEGMENT = 2
    """Drop the extents below a segment's start; ``subject`` is the segment id."""
    REMOVE_SEGMENT = 3
    """Drop all rows of a deleted segment; ``subject`` is the segment id."""


class TaskStage(IntEnum):
    """How far a task has come. Numbers are persisted and never change."""

    OPEN = 0
    STATED = 1
    """The deletion was stated in the log and may be carried out, now or after a crash."""
    FAILED = 2
    """Attempts are used up; listed for a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task. The table version that made it is the version of its row.

    Attributes:
        due_ms: not to be started earlier, milliseconds since 1970.
        kind: what to do.
        subject: a chunk id or a segment id.
        name: the chunk's name; empty for other kinds.
        stage: how far it has come.
        attempts: how often it failed.
        dropped_version: table version that made the garbage, 0 until it was rewritten for a later stage.
    """

    due_ms: int
    kind: TaskKind
    subject: int
    name: str = ""
    stage: TaskStage = TaskStage.OPEN
    attempts: int = 0
    dropped_version: int = 0
