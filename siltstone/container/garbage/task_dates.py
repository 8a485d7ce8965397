"""Tasks that are due later than any task can be: a clock that was ahead made them.

A task is due a certain time after it was made, at most. What is due later by more than an hour was
made by such a clock, and would wait until that time, perhaps for years. An owner that notices it
sets its date to now: garbage may go, and what is remembered for a time is so from now on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from siltstone.container.commit.tombstones import TOMBSTONE_MS, is_due, remember
from siltstone.core.environment import Environment
from siltstone.core.records.table_record import TableEntry
from siltstone.core.records.task import Task, TaskKind
from siltstone.metadata.changes import put_task, remove_task
from siltstone.metadata.rows import Rows
from siltstone.metadata.tables import Tables

TOLERANCE_MS: Final = 3_600_000
"""Clocks of owners that follow one another may differ by this much: what they made is awaited."""
BACK_S: Final = 60.0
"""A clock that goes back by this much while an owner lives was ahead before."""
LOOK_S: Final = 3_600.0
LONGEST_MS: Final = {TaskKind.FORGET_TOMBSTONE: TOMBSTONE_MS}
"""How long after it was made a task of a kind is due; a deletion after the delay of garbage."""


class DateLooks:
    """Tells when the dates of tasks have to be looked at.

    That is at first, when the clock has gone back, and every hour, since it may have gone ahead and
    back unseen.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._looked_s = float("-inf")
        self._begin_s = float("inf")

    def due(self) -> bool:
        """Whether to look now; then the next time is later."""
        now_s = self._environment.monotonic()
        begin_s = self._environment.time() - now_s
        due = begin_s < self._begin_s - BACK_S or now_s - self._looked_s >= LOOK_S
        self._begin_s = begin_s
        if due:
            self._looked_s = now_s
        return due

    def again(self) -> None:
        """Let the next call say so."""
        self._looked_s = float("-inf")


def is_misdated(task: Task, now_ms: int, longest_ms: int) -> bool:
    """Whether a task due at most ``longest_ms`` after it was made was not made by this clock."""
    return task.due_ms > now_ms + longest_ms + TOLERANCE_MS


def dated_now(task: Task, now_ms: int, rows: Rows, tables: Tables) -> list[TableEntry]:
    """The entries that give a misdated task, and what it is about, the current date."""
    if task.kind is TaskKind.FORGET_TOMBSTONE:
        tombstone = rows.pending_tombstone(task.name)
        if tombstone is not None and is_due(tombstone, task):
            return [remove_task(task), *remember(replace(tombstone, made_ms=now_ms), tables)]
    return [remove_task(task), put_task(replace(task, due_ms=now_ms))]
