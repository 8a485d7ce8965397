"""A store as asyncio applications hold it."""

from __future__ import annotations

import asyncio
import builtins
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar
from weakref import WeakSet

from siltstone.container.health.monitor import ContainerHealth, closed_health
from siltstone.container.imports.checks import already_known
from siltstone.container.models.check import CheckOptions
from siltstone.container.models.imports import (
    Adoption,
    AdoptionNotFoundError,
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
    closed_stats,
)
from siltstone.container.models.settings import CloseFlush, check_close_flush
from siltstone.core.bounded_calls import off_loop
from siltstone.core.closed_on_exit import AsyncClosing
from siltstone.core.constants import RESERVED_PREFIX, check_segment_name, container_of
from siltstone.core.environment import Environment
from siltstone.core.errors import ClosedError, FencedError, SiltstoneError
from siltstone.core.records.keys import RowKind
from siltstone.core.records.retention_row import RetentionRow, RetentionScope
from siltstone.core.records.store_manifest import StoreManifest
from siltstone.core.storage.uncancellable import WholeClose
from siltstone.core.text import uuid_text
from siltstone.metadata.row_views import MetadataRow
from siltstone.store.files.name_match import NameMatch
from siltstone.store.files.publish import TTL_S, FilePublisher, PublishedFiles
from siltstone.store.handles.arguments import (
    SeveralContainersError,
    common_container,
    name_of,
    plain_condition,
    plain_operation,
)
from siltstone.store.handles.async_segment import AsyncSegment
from siltstone.store.handles.async_table import AsyncTable
from siltstone.store.handles.container_slot import ContainerSlot, all_slots
from siltstone.store.handles.merged_list import PAGE_COUNT, NextPage, merged
from siltstone.store.handles.protected_handles import check_unowned, segment_handle, table_handle
from siltstone.store.handles.stand_ins import refusing_container
from siltstone.store.handles.unpicklable import LivingHandle
from siltstone.store.reopener import Opener, Reopening
from siltstone.store.retention_arguments import in_each, retention_row

if TYPE_CHECKING:
    from siltstone.container.container import Container
    from siltstone.container.flush.write_through_hooks import BeginHooks
    from siltstone.container.models.check import CheckProgress
    from siltstone.container.models.garbage import GarbageStatus, SweepFinding

LIFETIME: Final = timedelta(days=1)
ROWS_PAGE = 1_000
T = TypeVar("T")


_open_stores: WeakSet[AsyncStore] = WeakSet()


class SharedParts(Opener, Protocol):
    """What the containers of a store share, and how one is opened."""

    environment: Environment
    manifest: StoreManifest

    def close(self) -> None:
        """Free what the containers do not close."""
        ...


class AsyncStore(LivingHandle, AsyncClosing):
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
        self._files = FilePublisher(
            self._here,
            self._slot_of,
            parts.manifest.store_id,
            parts.environment,
            read_only=read_only,
        )
        self._closes = closes
        self._closed = False
        self._closing = WholeClose()
        self._users: WeakSet[AsyncClosing] = WeakSet()
        self._watching: asyncio.Task[None] | None = None
        self._for_keyspaces: AsyncStore | None = None
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

        Nothing acknowledged is lost: what is not flushed stays in tier 1. All is freed, even if the
        caller is cancelled meanwhile; only calls that hang are left.

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
        await asyncio.gather(*(user.close() for user in self._users), return_exceptions=True)
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

    def segment(self, name: str, *, force: bool = False) -> AsyncSegment:
        """Return a handle to a segment, which need not exist. Does no I/O.

        Without ``force`` verbs that would change what belongs to a keyspace raise
        ``SegmentNameError``, which this does for a name that no segment can have.
        """
        return segment_handle(self, self._slot_of(name), name, force=force)

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
            SegmentNameError: no segment can have this name, or a keyspace's can.
        """
        slot = self._slot_of(name, changes=True)
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

    def table(self, name: str, *, force: bool = False) -> AsyncTable:
        """Return a handle to a table, which need not exist. Does no I/O. See ``segment``."""
        return table_handle(self._slot_of(name), name, force=force)

    async def create_table(self, name: str, *, exist_ok: bool = False) -> AsyncTable:
        """Create a table, durably, and return a handle to it.

        Raises:
            TableExistsError: it exists, and ``exist_ok`` is false.
        """
        table = self.table(name)
        await self._slot_of(name, changes=True).container.create_table(name, exist_ok=exist_ok)
        return table

    def list_tables(self, prefix: str = "") -> AsyncIterator[str]:
        """Yield the names of the tables that start with ``prefix``, in the order of their bytes."""

        def pages(slot: ContainerSlot) -> NextPage[str]:
            return lambda last: slot.container.list_tables(prefix, last, PAGE_COUNT)

        found = merged([pages(slot) for slot in self._here], lambda name: name)
        return (name async for name in found if not name.startswith(RESERVED_PREFIX))

    async def commit(
        self, operations: Sequence[Operation], conditions: Sequence[Condition] = ()
    ) -> CommitResult:
        """Do several operations of one container, all or none, if all conditions hold.

        Raises:
            ConditionFailedError: a condition does not hold; nothing was done.
            SeveralContainersError: the names belong to several containers; give them one ``{tag}``.
            AppendTooLargeError: the commit does not fit in one frame of the log.
            SegmentNameError: an operation is about what belongs to a keyspace.
        """
        names = [name_of(part) for part in (*operations, *conditions)]
        for name in set(names[: len(operations)]):
            self._check_changeable(name)
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
        """Return the health of long-term storage, as each container finds it.

        An owner tells what it measured and makes no call. A store that was opened read-only looks
        at storage once, and at tier 1 for what a living owner could not flush yet. A container that
        closed itself, or has another owner, is ``unavailable``, and its ``error`` says why.
        """
        return [await self._health(slot) for slot in self._here]

    async def _health(self, slot: ContainerSlot) -> ContainerHealth:
        try:
            return await slot.health()
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
            after: continue where an earlier check ended; what it found is not told again.
            progress: called on the store's loop, after what was found so far.
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

        A container that fails holds up no other: its error is raised when all are done.
        """
        return sum(await _all(_collect(slot) for slot in self._here))

    async def replay_garbage(self) -> int:
        """Give deletions that were set aside new attempts; return how many there were.

        A container that fails holds up no other: its error is raised when all are done.
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

    # --- retention, checkpoints, rows -------------------------------------------------------------

    async def set_retention(
        self,
        name: str,
        *,
        prefix: bool = False,
        bytes_max: int | None = None,
        age_max: timedelta | float | None = None,
    ) -> None:
        """Let the oldest bytes of segments be truncated in the background, from now on.

        A segment's own rule counts, else that of the longest prefix. It cuts where an append ends,
        as soon as one of the limits allows, and only what is flushed; up to 1 MiB more than asked
        for stays, nothing less. Ages are those of ``Segment.offset_at``. With neither limit
        everything is kept, whatever a shorter prefix says. Setting it again replaces it.

        Args:
            name: a segment, which need not exist.
            prefix: ``name`` is the beginning of names, and may be empty.
            bytes_max: this many bytes stay at least.
            age_max: what was appended within this time stays; seconds, at least 1.

        Raises:
            SegmentNameError: no segment can have this name, or begin with it.
            ValueError: a limit is out of range.
            CapabilityError: there are 1,000 rules already.
            StoreError: the rule is for a prefix, and a container is not open here.

        The rule of a prefix is set in one container after the other. If that fails in some, the
        first error says in which ones it holds. Nothing is half-way in any of them, and the same
        call, made again, sets it in all.
        """
        row = retention_row(name, prefix=prefix, bytes_max=bytes_max, age_max=age_max)
        await in_each(self._slots_of(row), lambda retention: retention.set(row))

    async def remove_retention(self, name: str, *, prefix: bool = False) -> bool:
        """Remove a rule; return whether there was one. What it cut is gone.

        If it fails in some containers, the error says so as that of ``set_retention``.
        """
        row = retention_row(name, prefix=prefix, bytes_max=None, age_max=None)
        slots = self._slots_of(row)
        found = await in_each(slots, lambda retention: retention.remove(row.scope, row.name))
        return any(found)

    async def retention(self) -> builtins.list[RetentionRule]:
        """Return all rules, in the order of their names.

        A rule for a prefix is kept in every container. Where setting it failed in some, it may be
        here twice with different limits; then set it again.
        """
        found = {rule for slot in self._here for rule in await slot.container.retention.rules()}
        return sorted(found, key=lambda rule: (rule.name.encode(), not rule.prefix, str(rule)))

    async def retain(self, *, dry_run: bool = False) -> AsyncIterator[RetentionCut]:
        """Truncate now what the rules say, and yield each cut; ``dry_run`` only yields them."""
        for slot in self._here:
            retention = slot.container.retention
            async for cut in retention.plan() if dry_run else retention.round():
                yield cut

    def _slots_of(self, row: RetentionRow) -> builtins.list[ContainerSlot]:
        if row.scope is RetentionScope.PREFIX:
            return list(self._slots)
        return [self._slot_of(row.name)]

    async def checkpoint(self) -> builtins.list[int]:
        """Write a checkpoint of every container that is open here now.

        Returns the table versions that they hold.

        Raises:
            ChunkError: long-term storage failed; the checkpoint before counts.
        """
        versions = []
        for slot in self._here:
            await slot.container.checkpoint()
            versions.append(slot.container.stats().checkpoint_version)
        return versions

    async def rows(
        self, *, kind: RowKind | None = None, segment: str | None = None
    ) -> AsyncIterator[MetadataRow]:
        """Yield the rows of the metadata, decoded, in the order of their keys.

        For a person who searches for a cause; the rows are no interface.

        Args:
            kind: rows of this kind only.
            segment: rows of this segment only, except for those of its chunks and tasks.

        Raises:
            SegmentNotFoundError: there is no such segment.
        """
        slots = self._here if segment is None else (self._slot_of(segment),)
        for slot in slots:
            start = b""
            while True:
                page = await slot.container.rows(start, ROWS_PAGE, kind=kind, segment=segment)
                for row in page.rows:
                    yield row
                if page.next_key is None:
                    break
                start = page.next_key

    # --- import sessions and adoptions ------------------------------------------------------------

    async def open_import(
        self,
        name: str,
        segment: str,
        *,
        lifetime: timedelta = LIFETIME,
        adoption: str | None = None,
    ) -> ImportTicket:
        """Open an import session, durably; return the ticket for those who bring its chunks.

        They create chunks under the ticket's prefix with ``siltstone.ImportWriter``, on any host
        and without owning the store, and report what they made; ``commit_import`` gives that to
        segments. A repeat returns what is known of the session of this name, which is aborted if it
        has expired.

        Args:
            name: of the session, at most 256 bytes; a repeat is known by it for a day after the
                session was closed.
            segment: a segment that is to get bytes; all of them belong to its container.
            lifetime: then an open session is aborted; 1 second to 30 days.
            adoption: lets the session take objects in place: chunks of any name outside of what
                the store makes itself. They are kept, whatever becomes of their segments, until
                the adoption of this name, of at most 256 bytes, is finalised. Several sessions
                may share it.

        Raises:
            ValueError: a name or the lifetime is out of range.
            ImportSessionError: the session of this name is for another adoption.
            SegmentNameError: no segment can have this name, or a keyspace's can.
        """
        slot = self._slot_of(segment, changes=True)
        ticket = await slot.container.imports.open(
            name, lifetime_s=lifetime.total_seconds(), adoption=adoption
        )
        return replace(ticket, uuid=self.uuid)

    async def commit_import(
        self,
        ticket: ImportTicket,
        outputs: Sequence[ImportOutput],
        *,
        batch: ImportBatch | None = None,
    ) -> ImportResult:
        """Give segments what a session brought: all of it in one step, or nothing. Repeatable.

        A crash before it leaves nothing visible. A repeat, by the owner of the store at that time,
        finds the outcome. Chunks under the prefix that are not named here are deleted.

        Args:
            ticket: of the session.
            outputs: what each segment gets; at most 1,000 segments, of the ticket's container.
            batch: which batch of a stream this is; if it was imported before, by whatever session,
                nothing is done, and the result tells the newest batch of the stream.

        Raises:
            ImportSessionError: the session was aborted, has expired or is not known; or an object
                is a chunk of the store already.
            SeveralContainersError: a segment belongs to another container; give the names one
                ``{tag}``.
            LostDataError, CorruptDataError: a chunk is gone, or not what was said of it.
            SegmentExistsError: a segment that is to be made exists.
            SegmentSealedError: a segment that is to be appended to is sealed.
            ConditionFailedError: a segment is not what an output says that it replaces.
            BackPressureError: segments could not be held long enough.
            StoreError: objects are taken in place, and a container of the store is not open here,
                so it is unknown whether it has one of them.
            LogError, OutcomeUnknownError: whether it took place is unknown; a repeat tells.

        But for the last, nothing was done, and the session is as it was.
        """
        found = {each.segment: self._slot_of(each.segment, changes=True).index for each in outputs}
        if set(found.values()) - {ticket.container}:
            raise SeveralContainersError({f"session {ticket.name}": ticket.container, **found})
        imports = self._slots[ticket.container].container.imports
        if not ticket.adoption:
            return await imports.commit(ticket.name, outputs, batch)
        async with self._adopting:
            if not imports.is_committed(ticket.name):
                self._check_unknown(ticket, outputs)
            return await imports.commit(ticket.name, outputs, batch)

    def _check_unknown(self, ticket: ImportTicket, outputs: Sequence[ImportOutput]) -> None:
        """No other container may have an object: it would be deleted while still needed."""
        names = [chunk.name for output in outputs for chunk in output.chunks]
        for slot in self._slots:
            if slot.index != ticket.container:
                known = slot.container.adoptions.knows(names)
                if known is not None:
                    raise already_known(ticket.name, known)

    async def abort_import(self, ticket: ImportTicket) -> bool:
        """Let a session bring nothing, and delete its chunks; return whether it was open.

        It never undoes a commit.
        """
        return await self._slots[ticket.container].container.imports.abort(ticket.name)

    async def adoptions(self) -> builtins.list[Adoption]:
        """Return what was taken in place, by name; one entry for each container that has some.

        It looks at the row of every imported chunk.
        """
        found = [each for slot in self._here for each in await slot.container.garbage.adoptions()]
        return sorted(found, key=lambda each: (each.name, each.container))

    async def finalise_adoption(self, name: str) -> int:
        """Let objects that were taken in place be deleted when nothing needs them any longer.

        From now on they are like any other chunks, but for their names, and stay where they are.

        Returns:
            How many were dropped before and are garbage now.

        Raises:
            AdoptionNotFoundError: there is none of this name in the containers that are open here.
            LogError, OutcomeUnknownError: whether it took place is unknown; a repeat continues.
        """
        found = [await slot.container.adoptions.finalise(name) for slot in self._here]
        known = [count for count in found if count is not None]
        if not known:
            raise AdoptionNotFoundError("no such adoption", session=name)
        return sum(known)

    async def release_adoption(self, name: str) -> ReleasedAdoption:
        """Forget objects that were taken in place and that no segment names any longer.

        Nothing is deleted, and they may be adopted again. To undo an adoption, delete its segments
        before.

        Raises:
            AdoptionNotFoundError: there is none of this name in the containers that are open here.
            ImportSessionError: it is finalised.
            LogError, OutcomeUnknownError: whether it took place is unknown; a repeat continues.
        """
        found = [await slot.container.adoptions.release(name) for slot in self._here]
        known = [each for each in found if each is not None]
        if not known:
            raise AdoptionNotFoundError("no such adoption", session=name)
        return ReleasedAdoption(
            released=sum(each.released for each in known),
            in_use=sum(each.in_use for each in known),
        )

    async def record_sums(
        self, segment: str, *, progress: Callable[[int], None] = lambda _: None
    ) -> int:
        """Read what a segment has in place without sums, and record them.

        From then on reads compare with what was read now: an earlier change is not noticed.

        Args:
            segment: its name.
            progress: called with the bytes of each step, on the store's loop.

        Returns:
            How many bytes were read.

        Raises:
            SegmentNotFoundError: there is no such segment.
            LostDataError, CorruptDataError: an object is shorter or longer than when it was
                adopted, or changes meanwhile.
        """
        slot = self._slots[self.container_index(segment)]
        return await slot.container.record_sums(segment, progress)

    # --- a layout of another program that is written ----------------------------------------------

    async def begin_write_through(self, begin: BeginHooks) -> None:
        """Write segments in a layout from now on, those that are made later too. Repeatable.

        Args:
            begin: called for each container.

        Raises:
            LogError, OutcomeUnknownError: whether it took place is unknown; a repeat continues.
                What ``begin`` raises is raised here.
        """
        for slot in self._here:
            await slot.container.begin_write_through(begin)

    async def end_write_through(self) -> None:
        """Write all segments as any other store does, from now on. Changes no file. Repeatable.

        Raises:
            LogError, OutcomeUnknownError: whether it took place is unknown; a repeat continues.
        """
        for slot in self._here:
            await slot.container.end_write_through()

    async def written_adoption(self) -> str | None:
        """The adoption of the layout that is written; ``None`` when none is."""
        found = [await slot.container.written_adoption() for slot in self._here]
        return next((name for name in found if name is not None), None)

    # --- files ------------------------------------------------------------------------------------

    async def publish_files(
        self,
        segments: Sequence[str],
        *,
        match: NameMatch = NameMatch.NAME,
        ttl_s: float = TTL_S,
        verify: bool = True,
        at: Mapping[str, int] | None = None,
        flushed_only: bool = False,
    ) -> PublishedFiles:
        """Write a manifest by which ``silt://`` shows segments as files, for a time.

        All segments of one container are shown as of one moment. Until the manifest expires a pin
        keeps their chunks. Files show what is in chunks, so an owner flushes the segments first. A
        store that is open read-only can do this while its owner runs: it writes only pins and the
        manifest to long-term storage, so it refuses segments with bytes that are not flushed.

        Args:
            segments: texts that choose segments, as ``match`` says.
            match: see ``NameMatch``.
            ttl_s: seconds until it expires, above 0 and at most 30 days.
            verify: readers compare each block with its sum.
            at: by name the length at which a segment is shown, instead of its flushed length.
            flushed_only: show what is flushed already and leave out the rest; neither flush nor
                refuse.

        Raises:
            SegmentNotFoundError: there is none of this name, or none that the text chooses.
            SegmentTruncatedError: ``at`` lies below the readable range of a segment.
            OffsetError: ``at`` lies beyond the flushed length.
            NotFlushedError: the store is open read-only, a segment without ``at`` has bytes that
                are not flushed, and ``flushed_only`` is not said.
            CapabilityError: long-term storage has no address that Spark knows; or bytes in place
                have no sums, and ``verify`` asks for them.
            TypeError: ``at`` is something else.
            ValueError: no segment is asked for, or ``ttl_s`` or ``at`` is out of range.
            ChunkError: long-term storage did not answer.
        """
        return await self._files.publish(
            segments, match, ttl_s, at, verify=verify, flushed_only=flushed_only
        )

    def container_index(self, name: str) -> int:
        """Return the index of the container that owns ``name``. Raises ``SegmentNameError``."""
        return container_of(check_segment_name(name), len(self._slots))

    def _check_changeable(self, name: str) -> None:
        """Raise ``SegmentNameError`` for what belongs to a keyspace, and for what is no name."""
        check_unowned(check_segment_name(name))

    def _slot_of(self, name: str, *, changes: bool = False) -> ContainerSlot:
        if changes:
            self._check_changeable(name)
        return self._slots[self.container_index(name)]

    def refuse_after_fork(self) -> None:
        """Give all handles an error to raise; called in a forked child, which has no loop."""
        self._closed = True
        error = "the store was opened before a fork: spawn the process, and open it there"
        for slot in self._slots:
            slot.bind_after_fork(refusing_container(lambda: ClosedError(error)))


async def _all(works: Iterable[Awaitable[T]]) -> builtins.list[T]:
    """Wait for all of ``works``, even if one fails; then raise the first failure."""
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
