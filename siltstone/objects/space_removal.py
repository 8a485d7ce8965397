"""How a keyspace ends: its rows go in one commit, and then its segments, one after the other.

Without its first row there is no keyspace of the name. The commit that removes the rows leaves a
task for each segment instead: so what an interrupted removal left is told from a keyspace
whose ledger was lost, which a rebuild makes whole again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from siltstone.container.models.segments import Operation, Put, RemoveRange
from siltstone.core.errors import SegmentNotFoundError, TableNotFoundError
from siltstone.objects.errors import KeyspaceExistsError, KeyspaceNotFoundError
from siltstone.objects.ledger import Ledger
from siltstone.objects.records.keys import (
    SPACE,
    TASK,
    LargeStatus,
    after_prefix,
    decode_large_key,
    large_key,
    large_prefix,
    number_of_task,
    task_key,
)
from siltstone.objects.records.large_row import LargeRow, encode_large_row
from siltstone.objects.records.space_rows import encode_task

if TYPE_CHECKING:
    from siltstone.container.models.segments import SegmentInfo
    from siltstone.objects.space_names import SpaceNames
    from siltstone.store.async_store import AsyncStore

TASKS_MAX: Final = 1_000
"""Tasks of one commit, so that it fits in a frame of any log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedKeyspace:
    """What was removed of a keyspace.

    Attributes:
        name: of the keyspace.
        segments: how many segments it had.
        length: their bytes, footers included.
    """

    name: str
    segments: int
    length: int


async def remove_space(store: AsyncStore, names: SpaceNames) -> RemovedKeyspace:
    """Remove all of a keyspace, or what is left of it. Its table stays, and is empty.

    Raises:
        KeyspaceNotFoundError: there never was one of this name.
    """
    try:
        is_there = await store.table(names.ledger).get(SPACE) is not None
    except TableNotFoundError:
        raise KeyspaceNotFoundError("no such keyspace", keyspace=names.name) from None
    await Ledger(store, names).settle()  # an import whose caller was cancelled makes segments, too
    found = await _segments(store, names)
    tasks = [each for info in found if (each := _task(names, info.name)) is not None]
    if is_there or tasks:
        clear: list[Operation] = [RemoveRange(names.ledger)]
        for start in range(0, max(1, len(tasks)), TASKS_MAX):
            await store.commit([*clear, *tasks[start : start + TASKS_MAX]])
            clear = []
    return await _delete(store, names, found)


async def end_removal(store: AsyncStore, names: SpaceNames) -> None:
    """Remove what an interrupted removal left, before a keyspace of the name is made.

    Raises:
        KeyspaceExistsError: value segments are there, and no removal left them.
    """
    table = store.table(names.ledger)
    tasks = {
        names.value_segment(number_of_task(key))
        async for key, _ in table.scan(TASK, after_prefix(TASK))
    }
    dead = large_prefix(LargeStatus.DEAD)
    async for key, _ in table.scan(dead, after_prefix(dead)):
        tasks.add(names.large_segment(decode_large_key(key)[1]))
    found = await _segments(store, names)
    others = [each for each in found if each.name not in tasks and each.length]
    if others:
        raise KeyspaceExistsError(
            "values of such a keyspace are there without their ledger: rebuild it, or destroy it",
            keyspace=names.name,
            segment=others[0].name,
        )
    if tasks:
        await _delete(store, names, [each for each in found if each.name in tasks])


def _task(names: SpaceNames, segment: str) -> Put | None:
    """The row that says that a segment is to be deleted; ``None`` for one of something else."""
    number = names.number_of(segment)
    if number is not None:
        return Put(names.ledger, task_key(number), encode_task(0))
    number = names.number_of_large(segment)
    if number is None:
        return None
    return Put(names.ledger, large_key(LargeStatus.DEAD, number), encode_large_row(LargeRow()))


async def _segments(store: AsyncStore, names: SpaceNames) -> list[SegmentInfo]:
    return [info async for info in store.list(names.prefix)]


async def _delete(
    store: AsyncStore, names: SpaceNames, found: Sequence[SegmentInfo]
) -> RemovedKeyspace:
    """Delete segments, and then the rows that say so."""
    count = size = 0
    for info in found:
        try:
            await store.segment(info.name).delete()
        except SegmentNotFoundError:
            continue
        count += 1
        size += info.length - info.start_offset
    async for _ in store.table(names.ledger).scan():
        await store.commit([RemoveRange(names.ledger)])
        break
    return RemovedKeyspace(name=names.name, segments=count, length=size)
