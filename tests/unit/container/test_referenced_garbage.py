"""A task to delete a chunk that is still in use, which only a defect could create."""

from __future__ import annotations

import pytest

from siltstone.core.errors import CorruptDataError
from siltstone.core.records.task import Task, TaskKind
from siltstone.metadata.changes import put_task
from tests.support import inside
from tests.support.container.container_world import all_chunks, close_quietly, pattern, world

pytestmark = pytest.mark.virtual_time


async def test_a_chunk_that_an_extent_names_is_not_deleted() -> None:
    async with world() as made:
        owner = await made.open()
        container = owner.container
        await container.create("a")
        await container.append("a", pattern(1, 1_000))
        await container.flush()
        (chunk,) = all_chunks(owner.rows).values()
        task = Task(due_ms=1, kind=TaskKind.DELETE_CHUNK, subject=chunk.chunk_id, name=chunk.name)
        await inside.parts(container).pipeline.update([put_task(task)])
        # The table log covers the task, so only the references prevent the deletion.
        await container.flush()
        names = made.names()
        with pytest.raises(CorruptDataError, match="I17"):
            await container.collect()
        assert made.names() == names
        assert all_chunks(owner.rows) == {chunk.chunk_id: chunk}
        assert await container.read("a", 0, 1_000) == pattern(1, 1_000)
        await close_quietly(owner)
