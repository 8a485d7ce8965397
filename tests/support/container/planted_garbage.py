"""Garbage that is planted by hand: chunks that nothing names, with tasks as of a sweep."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from siltstone.container.models.settings import ContainerSettings
from siltstone.core.chunk_names import data_chunk, data_prefix
from siltstone.core.records.task import Task, TaskKind
from siltstone.metadata.changes import put_task
from tests.support import inside
from tests.support.container.container_world import (
    Owner,
    World,
    close_quietly,
    with_settings,
    world,
)

SETTINGS = with_settings(
    flush_age_s=1e7,
    table_flush_age_s=1e7,
    checkpoint_age_s=1e7,
    garbage_delay_s=10.0,
    garbage_interval_s=1e7,
    garbage_attempts=9,
)
EPOCH = 1
FIRST_ID = 900
"""Above the ids of the chunks that the container makes in these tests."""


@asynccontextmanager
async def owned(settings: ContainerSettings = SETTINGS) -> AsyncIterator[tuple[World, Owner]]:
    async with world(settings=settings) as made:
        owner = await made.open()
        await owner.container.create("a")
        yield made, owner
        await close_quietly(owner)


def now_ms(made: World) -> int:
    return int(made.environment.time() * 1000)


def garbage(made: World, number: int, **facts: int) -> Task:
    """A task for a chunk that lies on storage and that nothing names."""
    chunk_id = FIRST_ID + number
    task = Task(
        due_ms=facts.get("due_ms", now_ms(made)),
        kind=TaskKind.DELETE_CHUNK,
        subject=chunk_id,
        name=data_chunk(0, EPOCH, "gone", number, chunk_id),
        dropped_version=facts.get("dropped_version", 1),
    )
    made.new_storage().create(task.name, [b"x"])
    return task


async def put(owner: Owner, tasks: Sequence[Task]) -> None:
    await inside.parts(owner.container).pipeline.update([put_task(task) for task in tasks])


def tasks(owner: Owner) -> list[Task]:
    return owner.rows.tasks(2**63)


def left(made: World) -> list[int]:
    """Numbers of the planted chunks that are left."""
    prefix = f"{data_prefix(0)}e{EPOCH:020d}/gone/"
    return [int(name.removeprefix(prefix)[:20]) for name in made.names(prefix)]
