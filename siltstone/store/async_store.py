"""A store as asyncio applications hold it."""

from __future__ import annotations

import asyncio
import builtins
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar
from weakref import WeakSet

from siltstone.container.health.monitor import ContainerHealth, closed_health
from siltstone.container.models.check import CheckOptions
from siltstone.container.models.segments import (
    CommitResult,
    Condition,
    ContainerStats,
    Finding,
    Operation,
    SegmentInfo,
    closed_stats,
)
from siltstone.container.models.settings import CloseFlush, check_close_flush
from siltstone.core.bounded_calls import off_loop
from siltstone.core.closed_on_exit import AsyncClosing
from siltstone.core.constants import check_segment_name, container_of
from siltstone.core.environment import Environment
from siltstone.core.errors import ClosedError, FencedError, SiltstoneError
from siltstone.core.records.store_manifest import StoreManifest
from siltstone.core.storage.uncancellable import WholeClose
from siltstone.core.text import uuid_text
from siltstone.store.admin_verbs import CareVerbs
from siltstone.store.files.publish import FileVerbs
from siltstone.store.handles.arguments import (
    common_container,
    name_of,
    plain_condition,
    plain_operation,
)
from siltstone.store.handles.async_segment import AsyncSegment
from siltstone.store.handles.async_table import AsyncTable
from siltstone.store.handles.container_slot import ContainerSlot, all_slots
from siltstone.store.handles.import_verbs import ImportVerbs
from siltstone.store.handles.merged_list import PAGE_COUNT, NextPage, merged
from siltstone.store.handles.stand_ins import refusing_container
from siltstone.store.handles.unpicklable import LivingHandle
from siltstone.store.legacy_verbs import LegacyVerbs
from siltstone.store.reopener import Opener, Reopening

if TYPE_CHECKING:
    from siltstone.container.container import Container
    from siltstone.container.models.check import CheckProgress
    from siltstone.container.models.garbage import GarbageStatus, SweepFinding

T = TypeVar("T")

_open_stores: WeakSet[AsyncStore] = WeakSet()


class SharedParts(Opener, Protocol):
    """What the containers of a store share, and how one is opened."""

    environment: Environment
    manifest: StoreManifest

    def close(self) -> None:
        """Free what the containers do not close."""
        ...


class AsyncStore(CareVerbs, ImportVerbs, LegacyVerbs, FileVerbs, LivingHandle, AsyncClosing):
    """An open store; ``siltstone.open_async`` makes one. Belongs to the loop that opened it.

    Names with the same hash, or with the same ``{tag}``, share a container; what is done in one
    container can be atomic. Cancelling a call frees its caller at once; what it asked for may
    still happen.
    """

    def __init__(
        self,
        parts: SharedParts,
        slots: Sequence[ContainerSlot],
        *,
        read_only: bool,
        closes: Environment | None,
    ) -> None:
        self._parts = parts
        self._here = tuple(slots)
        self._slots = all_slots(slots, parts.manifest.container_count)
        self._read_only = read_only
        self._adopting = asyncio.Lock()
        self._closes = closes
        self._closed = False
        self._closing = WholeClose()
        self._watching: asyncio.Task[None] | None = None
        if not read_only:
            # It outlives the call that opens the store, so no task group can hold it; close() ends
            # it.
            watch = Reopening(self._here, parts, parts.environment).run()
            self._watching = asyncio.get_running_loop().create_task(watch)
        _open_stores.add(self)

    def __repr__(self) -> str:
        state = "closed" if self._closed else "read-only" if self._read_only else "open"
        return f"<AsyncStore {self.uuid} {state}>"

    @property
    def uuid(self) -> str:
        """The store's uuid."""
        return uuid_text(self._parts.manifest.store_id)

    @property
    def container_count(self) -> int:
        """How many containers the store has; fixed for its life."""
        return len(self._slots)

    @property
    def containers(self) -> tuple[int, ...]:
        """Indexes of the containers that are open here; of the others nothing is shown."""
        return tuple(slot.index for slot in self._here)

    @property
    def read_only(self) -> bool:
        """Whether writing verbs are refused with ``ReadOnlyError``."""
        return self._read_only

    @property
    def closed(self) -> bool:
        """Whether the store was closed."""
        return self._closed

    @property
    def environment(self) -> Environment:
        """Where time and threads come from."""
        return self._parts.environment

    async def close(self, *, flush: CloseFlush | None = None) -> None:
        """Close every container and free what the store holds. Idempotent.

        Nothing acknowledged is lost: what is not flushed stays in tier 1. All is freed although the
        caller is cancelled meanwhile, but for calls that hang, which are left behind.

        Args:
            flush: ``auto``, ``always`` or ``never``, as ``close.flush`` in the settings, which
                ``None`` means. A read-only store has nothing to flush.

        Raises:
            ValueError: ``flush`` is none of these; nothing was closed.
            ChunkError, CorruptDataError, StorageFullError: with ``always``, not all is flushed.
            FencedError, ClosedError: the same, as another owner took over or the log failed.
            ChunkUnavailableError: calls to long-term storage hang, and not all is flushed.
            LogError: a call to tier 1 hangs, or failed; what was in flight is unknown.
        """
        if flush is not None:
            check_close_flush(flush, what="flush")
        self._closed = True
        await self._closing.run(partial(self._end, flush))

    async def close_interrupted(self) -> None:
        """Close, and begin no flush."""
        await self.close(flush="never")

    async def _end(self, flush: CloseFlush | None) -> None:
        _open_stores.discard(self)
        if self._watching is not None:
            self._watching.cancel()
            with suppress(asyncio.CancelledError):
                await self._watching
        containers = [slot.container for slot in self._here]
        for slot in self._slots:
            slot.bind(refusing_container(lambda: ClosedError("the store was closed")))
        try:
            await _all(_close(container, flush) for container in containers)
        finally:
            self._parts.close()
            if self._closes is not None:
                await off_loop(self._closes.close)

    def segment(self, name: str) -> AsyncSegment:
        """Return a handle to a segment, which need not exist. Does no I/O.

        Raises:
            SegmentNameError: no segment can have this name.
        """
        slot = self._slots[self.container_index(name)]
        return AsyncSegment(self, slot, name)

    async def create(
        self, name: str, *, exist_ok: bool = False, attributes: Mapping[str, str] | None = None
    ) -> AsyncSegment:
        """Create a segment, durably, and return a handle to it.

        Args:
            name: what it is called.
            exist_ok: an existing segment is fine, and stays as it is.
            attributes: what is noted about a new one, in the same step; see
                ``AsyncSegment.set_attributes``.

        Raises:
            SegmentExistsError: it exists, and ``exist_ok`` is false.
            AttributeLimitError: too many attributes, or too long ones.
            SegmentNameError: no segment can have this name.
        """
        slot = self._slot_of(name)
        await slot.container.make(name, exist_ok=exist_ok, attributes=attributes)
        return AsyncSegment(self, slot, name)

    def list(
        self, prefix: str = "", *, where: Mapping[str, str] | None = None
    ) -> AsyncIterator[SegmentInfo]:
        """Yield the segments whose names start with ``prefix``, in the order of their bytes.

        Those of the containers that are open here.

        Args:
            prefix: what the names start with.
            where: attributes that a segment must have, all of them; every segment of the prefix is
                looked at.
        """

        def pages(slot: ContainerSlot) -> NextPage[SegmentInfo]:
            return lambda last: slot.container.list_segments(prefix, last, PAGE_COUNT)

        found = merged([pages(slot) for slot in self._here], lambda info: info.name)
        if not where:
            return found
        return (info async for info in found if where.items() <= info.attributes.items())

    def table(self, name: str) -> AsyncTable:
        """Return a handle to a table, which need not exist. Does no I/O."""
        return AsyncTable(self._slots[self.container_index(name)], name)

    async def create_table(self, name: str, *, exist_ok: bool = False) -> AsyncTable:
        """Create a table, durably, and return a handle to it.

        Raises:
            TableExistsError: it exists, and ``exist_ok`` is false.
        """
        table = self.table(name)
        await self._slot_of(name).container.create_table(name, exist_ok=exist_ok)
        return table

    def list_tables(self, prefix: str = "") -> AsyncIterator[str]:
        """Yield the names of the tables that start with ``prefix``, in the order of their bytes."""

        def pages(slot: ContainerSlot) -> NextPage[str]:
            return lambda last: slot.container.list_tables(prefix, last, PAGE_COUNT)

        return merged([pages(slot) for slot in self._here], lambda name: name)

    async def commit(
        self, operations: Sequence[Operation], conditions: Sequence[Condition] = ()
    ) -> CommitResult:
        """Do several operations of one container, all or none, if all conditions hold.

        Raises:
            ConditionFailedError: a condition does not hold; nothing was done.
            SeveralContainersError: the names belong to several containers; give them one ``{tag}``.
            AppendTooLargeError: the commit does not fit in one frame of the log.
        """
        names = [name_of(part) for part in (*operations, *conditions)]
        slot = self._slots[common_container(names, len(self._slots))]
        return await slot.container.commit(
            [plain_operation(part) for part in operations],
            [plain_condition(part) for part in conditions],
        )

    async def flush(self) -> None:
        """Move everything that is acknowledged to long-term storage."""
        await _all(_flush(slot) for slot in self._here)

    def stats(self) -> builtins.list[ContainerStats]:
        """Return each container at a glance, such as what is only in tier 1. Does no I/O.

        Of a container that closed itself, or has another owner, ``error`` says why.
        """
        return [self._stats(slot) for slot in self._here]

    def _stats(self, slot: ContainerSlot) -> ContainerStats:
        try:
            return slot.container.stats()
        except (ClosedError, FencedError) as error:
            if self._closed:
                raise
            return closed_stats(slot.index, slot.epoch, error)

    async def health(self) -> builtins.list[ContainerHealth]:
        """Return how long-term storage does, as each container finds it.

        An owner tells what it measured and makes no call. A store that was opened read-only looks
        at storage once, and at tier 1 for what a living owner could not flush yet. A container that
        closed itself, or has another owner, is ``unavailable``, and its ``error`` says why.
        """
        return [await self._health(slot) for slot in self._here]

    async def _health(self, slot: ContainerSlot) -> ContainerHealth:
        try:
            return await slot.container.health()
        except (ClosedError, FencedError) as error:
            if self._closed:
                raise
            return closed_health(slot.index, error)

    async def check(
        self,
        *,
        deep: bool = True,
        after: CheckProgress | None = None,
        progress: Callable[[CheckProgress], None] = lambda _: None,
    ) -> AsyncIterator[Finding]:
        """Yield what is wrong or worth knowing: of rows, of chunks, and of what nothing names.

        Args:
            deep: read every chunk and compare it with its sums; else only look whether it is there
                and long enough.
            after: go on behind where an earlier check came to; what it found is not told again.
            progress: called on the store's loop, behind what was found so far.
        """
        first = after.container if after else 0
        for slot in (slot for slot in self._here if slot.index >= first):
            again = after is not None and after.container == slot.index
            wish = CheckOptions(
                deep=deep, after=after.chunk_id if after and again else 0, progress=progress
            )
            async for finding in slot.container.check(wish):
                yield finding

    async def garbage(self) -> builtins.list[GarbageStatus]:
        """Return what waits to be deleted in each container, and what for. Changes nothing."""
        return [await slot.container.garbage.status() for slot in self._here]

    async def collect(self) -> int:
        """Delete now what is due and allowed; return how many chunks that were.

        A container that fails holds up no other: its error is raised when all are through.
        """
        return sum(await _all(_collect(slot) for slot in self._here))

    async def replay_garbage(self) -> int:
        """Give deletions that were set aside new attempts; return how many there were.

        A container that fails holds up no other: its error is raised when all are through.
        """
        return sum(await _all(_replay(slot) for slot in self._here))

    async def sweep(
        self, *, delete: bool = False, all_epochs: bool = False
    ) -> AsyncIterator[SweepFinding]:
        """Yield what lies on long-term storage and is named by nothing; changes nothing by itself.

        Args:
            delete: let what is ``garbage`` be deleted; ``collect`` does it now, else it comes by
                itself.
            all_epochs: look into epochs that were found clean long ago as well.
        """
        for slot in self._here:
            found = slot.container.garbage.sweep(delete=delete, all_epochs=all_epochs)
            async for finding in found:
                yield finding

    def container_index(self, name: str) -> int:
        """Return the index of the container that owns ``name``. Raises ``SegmentNameError``."""
        return container_of(check_segment_name(name), len(self._slots))

    def _store_manifest(self) -> StoreManifest:
        return self._parts.manifest

    def _slot_of(self, name: str) -> ContainerSlot:
        return self._slots[self.container_index(name)]

    def refuse_after_fork(self) -> None:
        """Give all handles an error to raise; called in a forked child, which has no loop."""
        self._closed = True
        error = "the store was opened before a fork: spawn the process, and open it there"
        for slot in self._slots:
            slot.bind_after_fork(refusing_container(lambda: ClosedError(error)))


async def _all(works: Iterable[Awaitable[T]]) -> builtins.list[T]:
    """Wait for all of ``works``, also when one fails; then raise the first failure."""
    results = await asyncio.gather(*works, return_exceptions=True)
    failures = (result for result in results if isinstance(result, BaseException))
    if failure := next(failures, None):
        raise failure
    return [result for result in results if not isinstance(result, BaseException)]


async def _flush(slot: ContainerSlot) -> None:
    await slot.container.flush()


async def _collect(slot: ContainerSlot) -> int:
    return await slot.container.garbage.run()


async def _replay(slot: ContainerSlot) -> int:
    return await slot.container.garbage.replay()


async def _close(container: Container, flush: CloseFlush | None) -> None:
    """Close a container. One that is lost refuses that too, and has nothing left to close."""
    try:
        close = container.close
    except SiltstoneError:
        return
    await close(flush)


def _refuse_in_child() -> None:
    for store in list(_open_stores):
        store.refuse_after_fork()


os.register_at_fork(after_in_child=_refuse_in_child)
