"""A store as blocking applications hold it: an ``AsyncStore`` on a loop of its own."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from siltstone.container.models.settings import CloseFlush, check_close_flush
from siltstone.core.closed_on_exit import Closing
from siltstone.store.async_store import LIFETIME
from siltstone.store.blocking.background_loop import BackgroundLoop
from siltstone.store.blocking.segment import Segment
from siltstone.store.blocking.table import Table
from siltstone.store.files.name_match import NameMatch
from siltstone.store.files.publish import TTL_S, PublishedFiles
from siltstone.store.handles.unpicklable import LivingHandle
from siltstone.store.opening import Recover, open_async_store

if TYPE_CHECKING:
    from datetime import timedelta

    from siltstone.container.flush.write_through_hooks import BeginHooks
    from siltstone.container.health.monitor import ContainerHealth
    from siltstone.container.models.check import CheckProgress
    from siltstone.container.models.garbage import GarbageStatus, SweepFinding
    from siltstone.container.models.imports import (
        Adoption,
        ImportBatch,
        ImportOutput,
        ImportResult,
        ImportTicket,
        ReleasedAdoption,
    )
    from siltstone.container.models.segments import (
        CommitResult,
        Condition,
        ContainerStats,
        Finding,
        Operation,
        RetentionCut,
        RetentionRule,
        SegmentInfo,
    )
    from siltstone.core.records.keys import RowKind
    from siltstone.metadata.row_views import MetadataRow
    from siltstone.store.async_store import AsyncStore


class Store(LivingHandle, Closing):
    """An open store, for any thread; ``siltstone.open`` makes one. See ``AsyncStore``.

    A forked child can neither use it nor open another store: spawn the process instead.
    """

    def __init__(self, loop: BackgroundLoop, store: AsyncStore) -> None:
        self._loop = loop
        self._store = store

    def __repr__(self) -> str:
        return repr(self._store).replace("AsyncStore", "Store", 1)

    def __del__(self) -> None:
        if not self.closed:
            warnings.warn(f"{self!r} was not closed", ResourceWarning, source=self, stacklevel=2)

    @property
    def uuid(self) -> str:
        """The store's uuid."""
        return self._store.uuid

    @property
    def container_count(self) -> int:
        """How many containers the store has; fixed for its life."""
        return self._store.container_count

    @property
    def containers(self) -> tuple[int, ...]:
        """Indexes of the containers that are open here; of the others nothing is shown."""
        return self._store.containers

    @property
    def read_only(self) -> bool:
        """Whether writing verbs are refused with ``ReadOnlyError``."""
        return self._store.read_only

    @property
    def closed(self) -> bool:
        """Whether the store was closed, or cannot be used since this is a forked child."""
        return self._store.closed or self._loop.forked

    def close(self, *, flush: CloseFlush | None = None) -> None:
        """Close the store; nothing acknowledged is lost. Idempotent; nothing in a forked child.

        ``flush`` is that of ``AsyncStore.close``: ``auto``, ``always`` or ``never``.

        Raises as ``AsyncStore.close``; the store is closed then as well.
        """
        if flush is not None:  # before anything ends
            check_close_flush(flush, what="flush")
        if self.closed:
            self._loop.close()
            return
        try:
            self._loop.run(self._store.close(flush=flush))
        finally:
            self._loop.close()

    def close_interrupted(self) -> None:
        """Close, and begin no flush."""
        self.close(flush="never")

    def segment(self, name: str, *, force: bool = False) -> Segment:
        """Return a handle to a segment, which need not exist. Does no I/O.

        ``force`` is that of ``AsyncStore.segment``.
        """
        return Segment(self._loop, self._store.segment(name, force=force))

    def create(
        self, name: str, *, exist_ok: bool = False, attributes: Mapping[str, str] | None = None
    ) -> Segment:
        """Create a segment, durably, and return a handle to it. See ``AsyncStore.create``."""
        work = self._store.create(name, exist_ok=exist_ok, attributes=attributes)
        return Segment(self._loop, self._loop.run(work))

    def list(
        self, prefix: str = "", *, where: Mapping[str, str] | None = None
    ) -> Iterator[SegmentInfo]:
        """Yield the segments whose names start with ``prefix``, in the order of their bytes.

        With ``where``, those alone that have all these attributes. See ``AsyncStore.list``.
        """
        return self._loop.iterate(lambda: self._store.list(prefix, where=where))

    def table(self, name: str, *, force: bool = False) -> Table:
        """Return a handle to a table, which need not exist. Does no I/O."""
        return Table(self._loop, self._store.table(name, force=force))

    def create_table(self, name: str, *, exist_ok: bool = False) -> Table:
        """Create a table, durably, and return a handle to it."""
        made = self._loop.run(self._store.create_table(name, exist_ok=exist_ok))
        return Table(self._loop, made)

    def list_tables(self, prefix: str = "") -> Iterator[str]:
        """Yield the names of the tables that start with ``prefix``, in the order of their bytes."""
        return self._loop.iterate(lambda: self._store.list_tables(prefix))

    def commit(
        self, operations: Sequence[Operation], conditions: Sequence[Condition] = ()
    ) -> CommitResult:
        """Do several operations of one container, all or none. See ``AsyncStore.commit``."""
        return self._loop.run(self._store.commit(operations, conditions))

    def flush(self) -> None:
        """Move everything that is acknowledged to long-term storage."""
        self._loop.run(self._store.flush())

    def stats(self) -> Sequence[ContainerStats]:
        """Return each container at a glance. Does no I/O. See ``AsyncStore.stats``."""

        async def stats() -> Sequence[ContainerStats]:
            return self._store.stats()

        return self._loop.run(stats())

    def health(self) -> Sequence[ContainerHealth]:
        """Return how long-term storage does. See ``AsyncStore.health``."""
        return self._loop.run(self._store.health())

    def check(
        self,
        *,
        deep: bool = True,
        after: CheckProgress | None = None,
        progress: Callable[[CheckProgress], None] = lambda _: None,
    ) -> Iterator[Finding]:
        """Yield what is wrong or worth knowing. See ``AsyncStore.check``."""
        found = partial(self._store.check, deep=deep, after=after, progress=progress)
        return self._loop.iterate(found, batch=1)

    def garbage(self) -> Sequence[GarbageStatus]:
        """Return what waits to be deleted in each container, and what for. Changes nothing."""
        return self._loop.run(self._store.garbage())

    def collect(self) -> int:
        """Delete now what is due and allowed; return how many chunks that were."""
        return self._loop.run(self._store.collect())

    def replay_garbage(self) -> int:
        """Give deletions that were set aside new attempts; return how many there were."""
        return self._loop.run(self._store.replay_garbage())

    def checkpoint(self) -> Sequence[int]:
        """Write a checkpoint of every container now; return the table versions they hold."""
        return self._loop.run(self._store.checkpoint())

    def rows(
        self, *, kind: RowKind | None = None, segment: str | None = None
    ) -> Iterator[MetadataRow]:
        """Yield the rows of the metadata, decoded. See ``AsyncStore.rows``."""
        return self._loop.iterate(partial(self._store.rows, kind=kind, segment=segment))

    def set_retention(
        self,
        name: str,
        *,
        prefix: bool = False,
        bytes_max: int | None = None,
        age_max: timedelta | float | None = None,
    ) -> None:
        """Let the oldest bytes of segments go from now on. See ``AsyncStore.set_retention``."""
        self._loop.run(
            self._store.set_retention(name, prefix=prefix, bytes_max=bytes_max, age_max=age_max)
        )

    def remove_retention(self, name: str, *, prefix: bool = False) -> bool:
        """Remove a rule; return whether there was one."""
        return self._loop.run(self._store.remove_retention(name, prefix=prefix))

    def retention(self) -> Sequence[RetentionRule]:
        """Return all rules of retention, in the order of their names."""
        return self._loop.run(self._store.retention())

    def retain(self, *, dry_run: bool = False) -> Iterator[RetentionCut]:
        """Truncate now what the rules say, and yield each cut; ``dry_run`` only yields them."""
        return self._loop.iterate(partial(self._store.retain, dry_run=dry_run))

    def container_index(self, name: str) -> int:
        """Return the index of the container that owns ``name``. Raises ``SegmentNameError``."""
        return self._store.container_index(name)

    def open_import(
        self,
        name: str,
        segment: str,
        *,
        lifetime: timedelta = LIFETIME,
        adoption: str | None = None,
    ) -> ImportTicket:
        """Open an import session, durably. See ``AsyncStore.open_import``."""
        return self._loop.run(
            self._store.open_import(name, segment, lifetime=lifetime, adoption=adoption)
        )

    def commit_import(
        self,
        ticket: ImportTicket,
        outputs: Sequence[ImportOutput],
        *,
        batch: ImportBatch | None = None,
    ) -> ImportResult:
        """Give segments what a session brought, once. See ``AsyncStore.commit_import``."""
        return self._loop.run(self._store.commit_import(ticket, outputs, batch=batch))

    def abort_import(self, ticket: ImportTicket) -> bool:
        """Let a session bring nothing; return whether it was open. It never undoes a commit."""
        return self._loop.run(self._store.abort_import(ticket))

    def adoptions(self) -> Sequence[Adoption]:
        """Return what was taken in place, by name. See ``AsyncStore.adoptions``."""
        return self._loop.run(self._store.adoptions())

    def finalise_adoption(self, name: str) -> int:
        """Let objects in place go when nothing needs them. See ``AsyncStore``."""
        return self._loop.run(self._store.finalise_adoption(name))

    def release_adoption(self, name: str) -> ReleasedAdoption:
        """Forget dropped objects in place, and delete nothing. See ``AsyncStore``."""
        return self._loop.run(self._store.release_adoption(name))

    def begin_write_through(self, begin: BeginHooks) -> None:
        """Write segments in a layout of another program. See ``AsyncStore.begin_write_through``."""
        self._loop.run(self._store.begin_write_through(begin))

    def end_write_through(self) -> None:
        """Write all segments as any other store does. See ``AsyncStore.end_write_through``."""
        self._loop.run(self._store.end_write_through())

    def written_adoption(self) -> str | None:
        """The adoption of the layout that is written, if any. See ``AsyncStore``."""
        return self._loop.run(self._store.written_adoption())

    def record_sums(self, segment: str, *, progress: Callable[[int], None] = lambda _: None) -> int:
        """Record the sums of objects in place that have none. See ``AsyncStore.record_sums``."""
        return self._loop.run(self._store.record_sums(segment, progress=progress))

    def publish_files(
        self,
        segments: Sequence[str],
        *,
        match: NameMatch = NameMatch.NAME,
        ttl_s: float = TTL_S,
        verify: bool = True,
        at: Mapping[str, int] | None = None,
        flushed_only: bool = False,
    ) -> PublishedFiles:
        """Let ``silt://`` show segments as files, for a time. See ``AsyncStore.publish_files``."""
        return self._loop.run(
            self._store.publish_files(
                segments,
                match=match,
                ttl_s=ttl_s,
                verify=verify,
                at=at,
                flushed_only=flushed_only,
            )
        )

    def sweep(self, *, delete: bool = False, all_epochs: bool = False) -> Iterator[SweepFinding]:
        """Yield what lies there and is named by nothing. See ``AsyncStore.sweep``."""
        found = partial(self._store.sweep, delete=delete, all_epochs=all_epochs)
        return self._loop.iterate(found)


def open_store(
    path: Path | str,
    *,
    read_only: bool = False,
    takeover: bool = False,
    containers: Sequence[int] | None = None,
    recover: Recover | None = None,
) -> Store:
    """Open the store whose settings file, or folder, is ``path``, for blocking callers.

    Args and errors are those of ``open_async``. Close the store, or use it as a context manager.
    """
    loop = BackgroundLoop()
    opening: list[asyncio.Task[AsyncStore] | None] = []

    async def opened() -> AsyncStore:
        opening.append(asyncio.current_task())
        return await open_async_store(
            path, read_only=read_only, takeover=takeover, containers=containers, recover=recover
        )

    try:
        return Store(loop, loop.run(opened()))
    except BaseException:
        try:
            if opening:
                loop.run(_given_up(opening[0]))
        finally:
            loop.close()
        raise


async def _given_up(opening: asyncio.Task[AsyncStore] | None) -> None:
    """Close what was opened just when its caller was interrupted, and never gets it."""
    assert opening is not None, "a coroutine runs in a task"
    if not opening.cancelling():
        opening.cancel()
    await asyncio.wait([opening])
    if not opening.cancelled() and opening.exception() is None:
        await opening.result().close()


def parts_of(store: Store) -> tuple[BackgroundLoop, AsyncStore]:
    """The loop of a store and what runs on it, for what rests on both."""
    return store._loop, store._store
