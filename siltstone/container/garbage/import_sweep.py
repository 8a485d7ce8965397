"""What import sessions leave: chunks of lost attempts, of commits that never came, of late writers.

Only what lies under the prefix of a session that is closed goes, name by name, and only names that
no chunk row knows. A session that is closed never opens again and its id is never given again, so
nothing there will ever be named. The log states the names before they are deleted.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass

from siltstone.container.commit.fence import Fence
from siltstone.container.commit.pipeline import Pipeline
from siltstone.container.garbage.bulk_delete import delete_chunks
from siltstone.container.models.garbage import SweepFinding
from siltstone.core.chunk_names import import_prefix, session_of
from siltstone.core.chunk_storage import ChunkStat
from siltstone.core.environment import Environment
from siltstone.core.records.import_row import ImportState
from siltstone.core.records.keys import CounterKind
from siltstone.core.records.piece import ControlKind
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.core.storage.listings import listed_pages
from siltstone.metadata.import_rows import import_pages, is_named
from siltstone.metadata.rows import Rows
from siltstone.metadata.tables import Tables

logger = logging.getLogger(__name__)

"""Names that one request lists, and that one record states."""
YOUNG_S = 24 * 3600.0
"""A session that a reader does not know yet may be this old."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownImports:
    """What the names of imported chunks are compared with.

    Attributes:
        container: its index.
        open_ids: of the sessions that were open when this was made.
        next_id: sessions from here on did not exist then.
        is_named: whether a chunk row knows a name.
        now_s: seconds since 1970.
    """

    container: int
    open_ids: Collection[int]
    next_id: int
    is_named: Callable[[str], bool]
    now_s: float


def known_imports(container: int, tables: Tables, environment: Environment) -> KnownImports:
    """Look at all sessions."""
    open_ids = set()
    for rows in import_pages(tables):
        open_ids |= {row.session_id for row in rows if row.state is ImportState.OPEN}
    return KnownImports(
        container=container,
        open_ids=open_ids,
        next_id=Rows(tables).counter(CounterKind.SEGMENT_ID),
        is_named=lambda name: is_named(tables, name),
        now_s=environment.time(),
    )


def plan_leftovers(page: Sequence[ChunkStat], known: KnownImports) -> list[SweepFinding]:
    """The names on a page of a listing below ``import/`` that have no use, or are not ours."""
    found = []
    for stat in page:
        session_id = session_of(stat.name, known.container)
        if session_id is None:
            found.append(SweepFinding.of("foreign", stat, "not the name of an imported chunk"))
        elif session_id >= known.next_id:
            if 0 < stat.modified_s <= known.now_s - YOUNG_S:
                found.append(SweepFinding.of("foreign", stat, "its session never was"))
        elif session_id not in known.open_ids and not known.is_named(stat.name):
            found.append(
                SweepFinding.of("garbage", stat, "its session is closed and did not take it")
            )
    return found


async def look_at_imports(
    container: int,
    tables: Callable[[], Tables],
    storage: AsyncChunkStorage,
    environment: Environment,
) -> AsyncIterator[SweepFinding]:
    """Yield what imports left and what is not ours, and change nothing.

    Raises:
        ChunkError: long-term storage did not answer.
    """
    async for page in listed_pages(storage, import_prefix(container)):
        # A reader may start again between two pages, and its earlier rows are closed then.
        known = known_imports(container, tables(), environment)
        for finding in plan_leftovers(page, known):
            yield finding


class ImportSweep:
    """Deletes what the imports of one owned container left."""

    def __init__(
        self,
        container: int,
        pipeline: Pipeline,
        storage: AsyncChunkStorage,
        fence: Fence,
        environment: Environment,
    ) -> None:
        self._container = container
        self._pipeline = pipeline
        self._tables = pipeline.replica.tables
        self._storage = storage
        self._fence = fence
        self._environment = environment

    async def clean(self, prefix: str) -> int:
        """Delete what a closed session left; return how many chunks that were.

        Raises:
            ChunkError: long-term storage failed; what is left is found by a later sweep.
            FencedError: a newer owner took over; nothing was deleted.
        """
        count = 0
        async for page in listed_pages(self._storage, prefix):
            names = [stat.name for stat in page if not is_named(self._tables, stat.name)]
            await self._delete(names)
            count += len(names)
        return count

    async def sweep(self) -> AsyncIterator[SweepFinding]:
        """Delete what all closed sessions left; yield that once it is gone, and what is not ours.

        Raises what ``clean`` raises.
        """
        async for page in listed_pages(self._storage, import_prefix(self._container)):
            known = known_imports(self._container, self._tables, self._environment)
            found = plan_leftovers(page, known)
            await self._delete([finding.name for finding in found if finding.kind == "garbage"])
            for finding in found:
                yield finding

    async def _delete(self, names: Sequence[str]) -> None:
        """Delete chunks of closed sessions, after the log has stated their names."""
        if not names:
            return
        await self._fence.check()
        await self._pipeline.control(ControlKind.IMPORT_DELETION, "\n".join(names).encode())
        errors = await delete_chunks(self._storage, names)
        for error in errors.values():
            raise error
        logger.info("removed %d chunks that imports left", len(names))
