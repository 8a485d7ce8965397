"""The task row: work that must be finished, found again after a crash.

Value, under the key of due time, kind and subject::

    kind: u8 = 9
    version: u8 = 1, or 2 when there is a reason
    stage: u8             see ``TaskStage``
    attempts: uvarint
    dropped_version: uvarint
    name: text
    reason: text          in version 2 alone
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from siltstone.core.errors import FormatError
from siltstone.core.records.keys import RowKind
from siltstone.core.records.wire import Reader, head, text, uvarint

VERSION = 1
VERSION_WITH_REASON = 2
REASON_CHARACTERS_MAX = 400


class TaskKind(IntEnum):
    """What there is to do. Numbers are persisted and never change."""

    DELETE_CHUNK = 1
    """Delete a chunk that nothing references any more; ``subject`` is its chunk id."""
    TRIM_SEGMENT = 2
    """Drop the extents below a segment's start; ``subject`` is the segment id."""
    REMOVE_SEGMENT = 3
    """Drop all rows of a deleted segment; ``subject`` is the segment id."""
    FORGET_TOMBSTONE = 4
    """Forget what became of a concatenated segment; ``subject`` is its id, ``name`` its name."""
    UNDO_CONCAT = 5
    """Take away what a concat placed after a segment and never showed; ``subject`` is its id."""
    CLOSE_IMPORT = 6
    """Abort an import session that expired, or forget one that was closed; ``subject`` is its id,
    ``name`` its name."""
    RETAIN = 8
    """Continue cutting segments by the rules of retention; ``name`` is the last one looked at."""
    SWEEP = 9
    """Look for chunks that nothing names; ``name`` is the key to continue after."""


class TaskStage(IntEnum):
    """How far a task has come. Numbers are persisted and never change."""

    OPEN = 0
    STATED = 1
    """The deletion was stated in the log and may be carried out, now or after a crash."""
    FAILED = 2
    """Attempts are used up; listed for a person."""
    KEPT = 3
    """An object that was taken in place, and is kept until its adoption is finalised."""


CURSORS = frozenset((TaskKind.RETAIN, TaskKind.SWEEP))
"""Tasks that only say how far a background round has come: no garbage, nothing to carry out."""

_KINDS = frozenset(TaskKind)
_STAGES = frozenset(TaskStage)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task. The table version that made it is the version of its row.

    Attributes:
        due_ms: not to be started earlier, milliseconds since 1970.
        kind: what to do.
        subject: a chunk id or a segment id.
        name: of the chunk, the segment or the session, or how far a sweep has come.
        stage: how far it has come.
        attempts: how often it failed.
        dropped_version: table version that made the garbage; in the row 0 until it is rewritten
            for a later stage.
        reason: why it failed last, at most 400 characters; empty when it did not.
    """

    due_ms: int
    kind: TaskKind
    subject: int
    name: str = ""
    stage: TaskStage = TaskStage.OPEN
    attempts: int = 0
    dropped_version: int = 0
    reason: str = ""


def encode_task(task: Task) -> bytes:
    """Encode the value of the row; due time, kind and subject are in its key."""
    return b"".join(
        (
            head(RowKind.TASK, VERSION_WITH_REASON if task.reason else VERSION),
            bytes((task.stage,)),
            uvarint(task.attempts),
            uvarint(task.dropped_version),
            text(task.name),
            text(task.reason[:REASON_CHARACTERS_MAX]) if task.reason else b"",
        )
    )


def decode_task(due_ms: int, kind: int, subject: int, value: bytes) -> Task:
    """Decode the value of the row of this due time, kind and subject.

    Raises:
        FormatError: of another kind or version, or of an unknown task kind or stage.
        CorruptDataError: damaged.
    """
    where = f"task {kind} for {subject}"
    explained = value[1:2] == bytes((VERSION_WITH_REASON,))
    version = VERSION_WITH_REASON if explained else VERSION
    reader = Reader(
        value, kind=RowKind.TASK, version=version, where=where, known=VERSION_WITH_REASON
    )
    stage = reader.u8()
    if kind not in _KINDS or stage not in _STAGES:
        raise FormatError("task of an unknown kind", kind=kind, stage=stage)
    task = Task(
        due_ms=due_ms,
        kind=TaskKind(kind),
        subject=subject,
        stage=TaskStage(stage),
        attempts=reader.uvarint(),
        dropped_version=reader.uvarint(),
        name=reader.text(),
        reason=reader.text() if explained else "",
    )
    reader.end()
    return task
