"""Adoptions: objects that import sessions took in place, kept until a caller says otherwise.

An object in place was there before the store. As long as its adoption is not finalised the
collector leaves it alone, whatever becomes of the segments that name it; a task remembers what was
dropped meanwhile. Finalising makes these tasks ordinary ones. Releasing forgets them, with the
rows of the objects, and deletes nothing: so the old layout is as it was.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace

from siltstone.container.commit.pipeline import Pipeline
from siltstone.container.garbage.collector import KEPT_MS, NEVER_MS, Collector
from siltstone.container.models.imports import ImportSessionError, ReleasedAdoption
from siltstone.container.reads.adoption_list import chunks_in_place
from siltstone.core.constants import ROWS_PER_SLICE
from siltstone.core.environment import Environment
from siltstone.core.errors import ChunkError
from siltstone.core.records.adoption_row import AdoptionRow
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.table_record import TableEntry
from siltstone.core.records.task import Task, TaskKind, TaskStage
from siltstone.metadata.adoption_rows import adoption_pages, put_adoption, remove_adoption
from siltstone.metadata.changes import put_task, remove_chunk, remove_task
from siltstone.metadata.import_rows import chunk_id_of

logger = logging.getLogger(__name__)

_NOT_KEPT = Task(due_ms=NEVER_MS, kind=TaskKind.SWEEP, subject=2**64 - 1)
"""All tasks that wait for an adoption come after it."""


class Adoptions:
    """The adoptions of one owned container."""

    def __init__(self, pipeline: Pipeline, collector: Collector, environment: Environment) -> None:
        self._pipeline = pipeline
        self._rows = pipeline.replica.rows
        self._collector = collector
        self._environment = environment

    def knows(self, names: Iterable[str]) -> str | None:
        """The first of ``names`` that an imported chunk has, acknowledged or assigned."""
        self._pipeline.check_alive()
        known = (name for name in names if chunk_id_of(self._rows.tables, name) is not None)
        return next(known, None)

    async def finalise(self, name: str) -> int | None:
        """Let objects be deleted that nothing needs any more, now and from now on. Idempotent.

        Returns:
            How many were dropped before; ``None`` when this container has no such adoption.

        Raises:
            LogError: whether it took place is unknown; a repeat continues.
        """
        self._pipeline.check_alive()
        async with self._collector.lock:
            sessions = await self._sessions(name)
            if not sessions:
                await self._pipeline.barrier()
                return None
            done = [replace(row, finalised=True) for row in sessions if not row.finalised]
            await self._update([[put_adoption(row)] for row in done])
            due_ms = int(self._environment.time() * 1000)
            acts: list[list[TableEntry]] = []
            async for task, _ in self._dropped(sessions, after=_NOT_KEPT):
                again = replace(task, stage=TaskStage.OPEN, due_ms=due_ms)
                acts.append([remove_task(task), put_task(again)])
            await self._update(acts)
        self._collector.wake()
        return len(acts)

    async def release(self, name: str) -> ReleasedAdoption | None:
        """Forget objects that no segment names any more, without deleting them. Idempotent.

        Returns:
            What was let go; ``None`` when this container has no such adoption.

        Raises:
            ImportSessionError: it is finalised.
            LogError: whether it took place is unknown; a repeat continues.
        """
        self._pipeline.check_alive()
        try:
            # The rows of deleted segments go first: until then they name objects.
            await self._collector.collect()
        except ChunkError as error:
            self._pipeline.check_alive()
            logger.warning("garbage collection failed before a release: %s", error)
        async with self._collector.lock:
            sessions = await self._sessions(name)
            if not sessions:
                await self._pipeline.barrier()
                return None
            if any(row.finalised for row in sessions):
                raise ImportSessionError("the adoption is finalised", session=name)
            acts: list[list[TableEntry]] = []
            async for task, chunk in self._dropped(sessions, after=None):
                acts.append([remove_task(task), *remove_chunk(chunk)])
            await self._update(acts)
            ids = {row.session_id for row in sessions}
            in_use = 0
            async for _ in chunks_in_place(self._rows, ids):
                in_use += 1
            if not in_use:
                await self._update([[remove_adoption(session_id)] for session_id in sorted(ids)])
        return ReleasedAdoption(released=len(acts), in_use=in_use)

    # --- steps ------------------------------------------------------------------------------------

    async def _sessions(self, name: str) -> list[AdoptionRow]:
        await self._pipeline.settled()
        found: list[AdoptionRow] = []
        for page in adoption_pages(self._rows.tables):
            found += (row for row in page if row.adoption == name)
            await asyncio.sleep(0)
        return found

    async def _dropped(
        self, sessions: Iterable[AdoptionRow], *, after: Task | None
    ) -> AsyncIterator[tuple[Task, Chunk]]:
        """The tasks after the key ``after`` of objects of these sessions that nothing names."""
        wanted = {row.session_id for row in sessions}
        for tasks in self._rows.task_pages(KEPT_MS, after):
            for task in tasks:
                chunk = self._rows.chunk(task.subject)
                if task.kind is not TaskKind.DELETE_CHUNK or chunk is None:
                    continue
                if chunk.session_id in wanted:
                    yield task, chunk
            await asyncio.sleep(0)

    async def _update(self, acts: Sequence[Sequence[TableEntry]]) -> None:
        """Do all acts, each of them as a whole."""
        entries: list[TableEntry] = []
        for act in acts:
            if entries and len(entries) + len(act) > ROWS_PER_SLICE:
                await self._pipeline.update(entries)
                entries = []
            entries += act
        if entries:
            await self._pipeline.update(entries)
