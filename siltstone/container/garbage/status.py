"""The state of the garbage of a container, from its rows and pins. Changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from siltstone.container.models.garbage import FailedDeletion, GarbageStatus, PinStatus
from siltstone.container.reads.pin_watch import PinWatch
from siltstone.container.reads.pins import FoundPin
from siltstone.container.state.replica import Replica
from siltstone.core.environment import Environment
from siltstone.core.records.task import CURSORS, Task, TaskKind, TaskStage

FAILED_SHOWN_MAX = 1_000


@dataclass(slots=True)
class _Counts:
    due: int = 0
    delayed: int = 0
    uncovered: int = 0
    held: int = 0
    kept: int = 0
    next_due_ms: int | None = None
    failed_count: int = 0
    failed: list[FailedDeletion] = field(default_factory=list)


async def garbage_status(
    container: int, replica: Replica, watch: PinWatch, environment: Environment
) -> GarbageStatus:
    """Return what waits to be deleted, and what for.

    Raises:
        CorruptDataError: a row or a pin is damaged.
        ChunkError: long-term storage did not answer.
    """
    pins = await watch.living(replica.tables.lineage)
    oldest = min((found.pin.version for found in pins), default=None)
    now_ms = int(environment.time() * 1000)
    holds = [0] * len(pins)
    counts = _Counts()
    for tasks in replica.rows.task_pages():
        for task in tasks:
            _count(counts, task, now_ms, replica.table_flushed, oldest)
            _count_holds(holds, pins, task)
        # There may be millions; other work continues meanwhile.
        await asyncio.sleep(0)
    shown = [
        PinStatus(
            name=found.name,
            version=found.pin.version,
            expires_ms=found.pin.expires_ms,
            holds=count,
        )
        for found, count in zip(pins, holds, strict=True)
    ]
    return GarbageStatus(
        container=container,
        due=counts.due,
        delayed=counts.delayed,
        uncovered=counts.uncovered,
        held=counts.held,
        kept=counts.kept,
        next_due_ms=counts.next_due_ms,
        failed_count=counts.failed_count,
        failed=tuple(counts.failed),
        pins=tuple(shown),
    )


def _count(counts: _Counts, task: Task, now_ms: int, covered: int, oldest_pin: int | None) -> None:
    if task.kind in CURSORS:
        return
    if task.stage is TaskStage.KEPT:
        counts.kept += 1
    elif task.stage is TaskStage.FAILED:
        counts.failed_count += 1
        if len(counts.failed) < FAILED_SHOWN_MAX:
            failed = FailedDeletion(
                chunk=task.name, chunk_id=task.subject, attempts=task.attempts, reason=task.reason
            )
            counts.failed.append(failed)
    elif task.due_ms > now_ms:
        counts.delayed += 1
        if counts.next_due_ms is None:
            counts.next_due_ms = task.due_ms
    elif task.kind is not TaskKind.DELETE_CHUNK:
        counts.due += 1
    elif task.dropped_version > covered:
        counts.uncovered += 1
    elif oldest_pin is not None and task.dropped_version > oldest_pin:
        counts.held += 1
    else:
        counts.due += 1


def _count_holds(holds: list[int], pins: Sequence[FoundPin], task: Task) -> None:
    waits = task.stage not in (TaskStage.FAILED, TaskStage.KEPT)
    if task.kind is TaskKind.DELETE_CHUNK and waits:
        for index, found in enumerate(pins):
            holds[index] += task.dropped_version > found.pin.version
