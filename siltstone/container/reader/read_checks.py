"""The calls of a read-only container that look whether all is as it should be.

Most readers never make one, and a short command would wait for what they import; so each imports
what it needs when it is called.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, TypeVar

from siltstone.container.models.check import CheckOptions, ChunkState
from siltstone.container.models.segments import ContainerStats, Finding
from siltstone.container.reader.no_log import NoLog
from siltstone.container.reader.reader_view import LogFacts, facts_of
from siltstone.container.state.replica import Replica
from siltstone.core.environment import Environment
from siltstone.core.fenced_log import FencedLog, LogReader
from siltstone.core.records.keys import RowKind
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.segments.segment_storage import ChunkedSegmentStorage

if TYPE_CHECKING:
    from siltstone.container.check.checker import ContainerSnapshot
    from siltstone.container.garbage.garbage import ReadGarbage
    from siltstone.container.garbage.sweeper import SweepScope
    from siltstone.container.reader.reader_view import View
    from siltstone.container.reads.chunk_rows import ChunkRows
    from siltstone.container.reads.reads import Reading
    from siltstone.container.reads.row_pages import RowPage

T = TypeVar("T")
_DEEP = CheckOptions()


class StateChecks:
    """What a read-only container tells of the state of things; a part of ``ReadContainer``."""

    _container: int
    _environment: Environment
    _storage: AsyncChunkStorage
    _log: FencedLog
    _reader: LogReader | None
    _log_facts: LogFacts
    _lock: asyncio.Lock

    if TYPE_CHECKING:

        def _current(self) -> View: ...
        async def refresh(self) -> None:
            """See what was acknowledged since."""

        async def _fresh(self) -> Reading: ...
        async def _start(self) -> None: ...
        async def _blocking(self, call: Callable[[], T]) -> T: ...

    def stats(self) -> ContainerStats:
        """The container at a glance, as it was at the last look at the log."""
        raise NotImplementedError

    @property
    def garbage(self) -> ReadGarbage:
        """What may be asked about garbage."""
        from siltstone.container.garbage.garbage import ReadGarbage

        return ReadGarbage(self._container, self._seen, self._storage, self._environment)

    def _seen(self) -> tuple[Replica, int]:
        replica = self._current().replica
        assert self._reader is not None, "a view comes with a log reader"
        return replica, self._reader.epoch()

    async def check(self, wish: CheckOptions = _DEEP) -> AsyncIterator[Finding]:
        """Check every row and every chunk; yield what is wrong or worth knowing."""
        from siltstone.container.check.checker import check_container

        async with self._lock:
            reader = self._reader
            assert reader is not None, "a view comes with a log reader"
            self._log_facts = await self._blocking(lambda: facts_of(reader))
        if not wish.after:
            for warning in self.stats().warnings:
                yield Finding(severity="warning", where="journal", message=warning)
        async for finding in check_container(self._present, self._ground, wish):
            yield finding

    def _ground(self) -> SweepScope:
        from siltstone.container.garbage.sweeper import SweepScope
        from siltstone.container.reads.pin_watch import PinWatch

        _, epoch = self._seen()
        return SweepScope(
            container=self._container,
            epoch=epoch,
            rows_now=lambda: self._current().replica.rows,
            storage=self._storage,
            environment=self._environment,
            pins=PinWatch(self._storage, self._environment, self._container, None),
        )

    async def examine(self, name: str, start: int, limit: int, *, deep: bool) -> list[ChunkState]:
        """See ``examine_chunks``."""
        from siltstone.container.check.examine import examine_chunks

        async def look() -> tuple[Reading, ChunkedSegmentStorage]:
            await self.refresh()
            view = self._current()
            return view.reading, view.segments

        return await examine_chunks(look, self._storage, name, start, limit, deep=deep)

    async def rows(
        self, start: bytes, limit: int, *, kind: RowKind | None, segment: str | None
    ) -> RowPage:
        """See ``row_page``."""
        from siltstone.container.reads.row_pages import row_page

        reading = await self._fresh()
        return row_page(reading, self._container, start, limit, kind=kind, segment=segment)

    async def chunk_rows(self, *, system_now: bool = False) -> list[ChunkRows]:
        """Every chunk that is named now, with its sums; see ``named_chunks``.

        Args:
            system_now: start anew from the newest checkpoint first. Else chunks of the table log
                are those of the last start, and some may be gone since.

        Raises:
            CorruptDataError: a row is missing.
            ChunkError: long-term storage did not answer.
        """
        from siltstone.container.reads.chunk_rows import named_chunks

        if system_now:
            await self._present()
        else:
            await self._fresh()
        view = self._current()
        layouts = view.recovered.layouts
        chunks = named_chunks(self._container, view.reading, view.segments, view.system, layouts)
        return list(chunks)

    def moment(self) -> object:
        """See ``Container.moment``."""
        return self._current().reading.places.moment

    async def _look_again(self, view: View) -> None:
        """See what there is now that something is gone which ``view`` shows."""
        if not isinstance(self._log, NoLog):
            await self.refresh()
            return
        from siltstone.container.reader.storage_only_view import is_newest

        async with self._lock:
            if self._current() is not view:
                return
            if not await is_newest(view, self._container, self._storage, self._environment):
                await self._start()

    async def _present(self) -> ContainerSnapshot:
        """What there is now: a view only follows the log, so system files need a fresh start."""
        from siltstone.container.check.checker import ContainerSnapshot

        async with self._lock:
            await self._start()
        view = self._current()
        recovered = view.recovered
        return ContainerSnapshot(
            reading=view.reading,
            segments=view.segments,
            system=view.system,
            layouts=recovered.layouts,
            checkpoint=recovered.checkpoint,
        )
