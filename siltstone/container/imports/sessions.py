"""Import sessions: others make chunks on long-term storage, and one commit gives them to segments.

A session is a row, durable before any chunk is brought. A process that has its ticket creates
chunks under its prefix, on any host and without a claim. The commit is one transaction, conditional
on the session being open; a crash before it leaves nothing visible, and a repeat after it finds
what became of it. An open session expires.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from siltstone.container.commit.pipeline import Pipeline
from siltstone.container.commit.repeats import confirm_acknowledged
from siltstone.container.garbage.import_sweep import ImportSweep
from siltstone.container.garbage.task_dates import is_misdated
from siltstone.container.imports.checks import check_chunks, check_names, check_outputs
from siltstone.container.imports.publisher import Publisher
from siltstone.container.models.imports import (
    ImportBatch,
    ImportedSegment,
    ImportOutput,
    ImportResult,
    ImportSessionError,
    ImportTicket,
)
from siltstone.core.chunk_names import session_prefix
from siltstone.core.environment import Environment
from siltstone.core.errors import ChunkError, SiltstoneError
from siltstone.core.records.adoption_row import AdoptionRow
from siltstone.core.records.import_batch_row import ImportBatchRow
from siltstone.core.records.import_row import ImportedPart, ImportRow, ImportState
from siltstone.core.records.keys import CounterKind
from siltstone.core.records.table_record import TableEntry
from siltstone.core.records.task import Task, TaskKind
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.metadata.adoption_rows import put_adoption
from siltstone.metadata.changes import put_counter, put_task, remove_task
from siltstone.metadata.import_rows import (
    acknowledged_import,
    acknowledged_import_batch,
    pending_import,
    pending_import_batch,
    put_import,
    put_import_batch,
    remove_import,
)

logger = logging.getLogger(__name__)

NAME_BYTES_MAX = 256
TARGET_BYTES_MAX = 1_024
LIFETIME_S_MAX = 30 * 24 * 3600.0
KEPT_MS = 24 * 3600 * 1000
"""How long a repeat of a closed session is recognised; then what late writers left is swept."""


class Imports:
    """The import sessions of one owned container.

    Args (the others are parts of this owner):
        check_allowed: called with the name of an adoption, or ``""``; raises if a session must not
            be opened or committed.
    """

    def __init__(
        self,
        container: int,
        pipeline: Pipeline,
        storage: AsyncChunkStorage,
        publisher: Publisher,
        sweep: ImportSweep,
        environment: Environment,
        *,
        check_allowed: Callable[[str], None],
    ) -> None:
        self._container = container
        self._pipeline = pipeline
        self._tables = pipeline.replica.tables
        self._rows = pipeline.replica.rows
        self._storage = storage
        self._publisher = publisher
        self._sweep = sweep
        self._environment = environment
        self._lock = asyncio.Lock()
        self._check_allowed = check_allowed

    async def open(
        self, name: str, *, lifetime_s: float, adoption: str | None = None
    ) -> ImportTicket:
        """Open a session, durably, or return what is known of the one of this name.

        One that has expired is aborted.

        Args:
            name: of the session.
            lifetime_s: then it is aborted.
            adoption: that of the objects that it may take in place; ``None``: it takes none.

        Raises:
            ValueError: a name or the lifetime is out of range.
            ImportSessionError: the session of this name is for another adoption.
            BackPressureError: no room was made before the deadline; nothing was done.
            CapabilityError: the import would bypass a layout that is written; nothing was done.
        """
        _check_text("name of a session", name)
        if adoption is not None:
            _check_text("name of an adoption", adoption)
        if not 1 <= lifetime_s <= LIFETIME_S_MAX:
            raise ValueError(f"a session lives 1 to {LIFETIME_S_MAX:.0f} seconds")
        row = pending_import(self._tables, name)
        if row is None or row.state is ImportState.OPEN:
            self._check_allowed(adoption or "")
        if row is not None and self._has_expired(row):
            # Its task may come any moment, and would take away what is brought from now on.
            await self.abort(name)
            row = pending_import(self._tables, name)
        if row is None:
            await self._pipeline.admit_update()
            row = pending_import(self._tables, name)
        if row is not None:
            await self._confirm_acknowledged(name)
            if row.adoption != (adoption or ""):
                raise ImportSessionError(
                    "the session is for another adoption", session=name, adoption=row.adoption
                )
            return self._ticket(row)
        now_ms = self._now_ms()
        row = ImportRow(
            name=name,
            session_id=self._rows.pending_counter(CounterKind.SEGMENT_ID),
            state=ImportState.OPEN,
            made_ms=now_ms,
            expires_ms=now_ms + round(lifetime_s * 1000),
            adoption=adoption or "",
        )
        entries = [
            put_counter(CounterKind.SEGMENT_ID, row.session_id + 1),
            put_import(row),
            put_task(_task(row, row.expires_ms)),
        ]
        await self._pipeline.update(entries, relief=False)
        return self._ticket(row)

    async def commit(
        self, name: str, outputs: Sequence[ImportOutput], batch: ImportBatch | None = None
    ) -> ImportResult:
        """Give segments what a session brought: all of it in one step, once. Repeatable.

        Args:
            name: of the session.
            outputs: what each segment gets, at most 1,000 different ones.
            batch: what the session is of a stream; if that was imported, an open session is
                aborted, and a repeat of the call is told the same.

        Raises:
            ValueError: a chunk does not lie where it may, or something is named twice.
            ImportSessionError: the session is aborted, expired or not known, or an object is a
                chunk already.
            LostDataError, CorruptDataError: a chunk is gone, or is not what was said of it.
            SegmentExistsError: a segment that is to be made exists.
            SegmentSealedError: a segment that is to be appended to is sealed.
            ConditionFailedError: a segment is not what an output says that it replaces.
            BackPressureError: segments could not be held long enough.
            ChunkError: long-term storage failed.
            LogError: whether it took place is unknown; a repeat tells.

        Except with the last, nothing was done, and the session is as it was.
        """
        check_outputs(outputs)
        if not self.is_committed(name):
            known = pending_import(self._tables, name)
            self._check_allowed("" if known is None else known.adoption)
        if batch is not None:
            _check_text("name of a stream", batch.query)
            if batch.target:
                _check_text("target of a stream", batch.target, TARGET_BYTES_MAX)
        self._pipeline.check_alive()
        async with self._lock:
            row = pending_import(self._tables, name)
            newest = None if batch is None else await self._came_with_another(row, batch)
            if newest is not None:
                result = ImportResult(segments=(), repeated=True, newest=newest)
                if row is None or row.state is not ImportState.OPEN:
                    return result  # a repeat, after the call that aborted the session
                await self._end(row, ImportState.ABORTED)
            else:
                row = await self._known(name)
                if row.state is ImportState.COMMITTED:
                    return _result(row.parts, repeated=True)
                check_names(self._container, self._rows, row, outputs)
                await check_chunks(self._storage, outputs)
                self._check_open(row)
                parts = await self._publisher.publish(
                    row, outputs, lambda parts: self._closing(row, parts, batch)
                )
                result = _result(parts, repeated=False)
        await self._clean(row)
        return result

    def is_committed(self, name: str) -> bool:
        """Whether the session of this name brought what it did, as far as is assigned."""
        row = pending_import(self._tables, name)
        return row is not None and row.state is ImportState.COMMITTED

    async def abort(self, name: str) -> bool:
        """Let an open session bring nothing; return whether it was open. Never undoes a commit."""
        self._pipeline.check_alive()
        async with self._lock:
            row = pending_import(self._tables, name)
            if row is None or row.state is not ImportState.OPEN:
                await self._confirm_acknowledged(name)
                return False
            await self._end(row, ImportState.ABORTED)
        await self._clean(row)
        return True

    async def carry_out(self, task: Task) -> None:
        """Abort a session that expired; forget one that was closed long enough ago.

        Raises:
            ChunkError: long-term storage failed; the task stays.
        """
        if self._lock.locked():
            return  # a commit may take long, and other tasks should not wait for it
        async with self._lock:
            row = pending_import(self._tables, task.name)
            if row is None or row.session_id != task.subject:
                await self._pipeline.update([remove_task(task)])
                return
            if row.state is ImportState.OPEN:
                logger.warning("import session expired: %s", row.name)
                await self._end(row, ImportState.ABORTED)
        if row.state is ImportState.OPEN:
            await self._clean(row)
            return
        await self._sweep.clean(session_prefix(self._container, row.session_id))
        await self._pipeline.update([remove_import(row.name), remove_task(task)])

    async def redate(self, task: Task) -> bool:
        """Date a session as made, or closed, now, if a clock that was ahead had dated it.

        It keeps its lifetime. Returns false, and does nothing, while a session is committed.
        """
        if self._lock.locked():
            return False
        now_ms = self._now_ms()
        row = pending_import(self._tables, task.name)
        if row is None or row.session_id != task.subject:
            return True
        if row.state is ImportState.OPEN:
            lifetime_ms = row.expires_ms - row.made_ms
            dated = replace(row, made_ms=now_ms, expires_ms=now_ms + lifetime_ms)
            due_ms = dated.expires_ms
        else:
            lifetime_ms, due_ms = KEPT_MS, now_ms + KEPT_MS
            dated = replace(row, closed_ms=now_ms)
        if not is_misdated(task, now_ms, lifetime_ms):
            return True
        logger.warning("a clock was ahead: the import session %s has the date of now", row.name)
        entries = [remove_task(task), put_task(replace(task, due_ms=due_ms)), put_import(dated)]
        await self._pipeline.update(entries)
        return True

    # --- steps ------------------------------------------------------------------------------------

    def _now_ms(self) -> int:
        return int(self._environment.time() * 1000)

    async def _confirm_acknowledged(self, name: str) -> None:
        """Wait until what is assigned of a session is acknowledged, as ``confirm_acknowledged``."""
        row = pending_import(self._tables, name)
        await confirm_acknowledged(
            self._pipeline, lambda: acknowledged_import(self._tables, name) == row
        )

    def _ticket(self, row: ImportRow) -> ImportTicket:
        return ImportTicket(
            name=row.name,
            container=self._container,
            session_id=row.session_id,
            prefix=session_prefix(self._container, row.session_id),
            expires_ms=row.expires_ms,
            state=row.state,
            adoption=row.adoption,
        )

    async def _known(self, name: str) -> ImportRow:
        """The session, open or committed.

        Raises:
            ImportSessionError: it is neither.
        """
        row = pending_import(self._tables, name)
        if row is None or row.state is not ImportState.OPEN:
            await self._confirm_acknowledged(name)
        if row is None:
            raise ImportSessionError("no such import session", session=name)
        if row.state is ImportState.ABORTED:
            raise ImportSessionError("import session was aborted, or expired", session=name)
        self._check_open(row)
        return row

    def _check_open(self, row: ImportRow) -> None:
        if self._has_expired(row):
            raise ImportSessionError("import session has expired", session=row.name)

    def _has_expired(self, row: ImportRow) -> bool:
        return row.state is ImportState.OPEN and self._now_ms() >= row.expires_ms

    async def _came_with_another(
        self, row: ImportRow | None, batch: ImportBatch
    ) -> ImportBatch | None:
        """The stream's newest batch, if another session than that of ``row`` brought this one."""
        if row is not None and row.state is ImportState.COMMITTED:
            return None
        known = pending_import_batch(self._tables, batch.query)
        if known is None or known.batch < batch.number:
            return None
        await confirm_acknowledged(
            self._pipeline, lambda: acknowledged_import_batch(self._tables, batch.query) == known
        )
        return ImportBatch(query=known.query, number=known.batch, target=known.target)

    def _closing(
        self, row: ImportRow, parts: Sequence[ImportedPart], batch: ImportBatch | None
    ) -> list[TableEntry]:
        """The entries that commit a session whose bytes are in ``parts``."""
        entries = self._ended(row, ImportState.COMMITTED, tuple(parts))
        if batch is not None:
            newest = ImportBatchRow(
                query=batch.query,
                batch=batch.number,
                session_id=row.session_id,
                committed_ms=self._now_ms(),
                target=batch.target,
            )
            entries.append(put_import_batch(newest))
        if row.adoption:
            entries.append(
                put_adoption(AdoptionRow(session_id=row.session_id, adoption=row.adoption))
            )
        return entries

    def _ended(
        self, row: ImportRow, state: ImportState, parts: tuple[ImportedPart, ...]
    ) -> list[TableEntry]:
        now_ms = self._now_ms()
        ended = replace(row, state=state, closed_ms=now_ms, parts=parts)
        return [
            put_import(ended),
            remove_task(_task(row, row.expires_ms)),
            put_task(_task(row, now_ms + KEPT_MS)),
        ]

    async def _end(self, row: ImportRow, state: ImportState) -> None:
        """Close a session that brings nothing; its hidden segments go like deleted ones."""
        # A commit that failed may have begun some since the row was looked up.
        row = pending_import(self._tables, row.name) or row
        entries = self._ended(row, state, ())
        for part in row.parts:
            task = Task(due_ms=0, kind=TaskKind.REMOVE_SEGMENT, subject=part.segment_id)
            entries.append(put_task(task))
        await self._pipeline.update(entries)
        self._publisher.on_garbage()

    async def _clean(self, row: ImportRow) -> None:
        """Sweep at the close. What this cannot do, the session's task or a later sweep does."""
        try:
            await self._sweep.clean(session_prefix(self._container, row.session_id))
        except ChunkError as error:
            self._pipeline.check_alive()
            logger.warning("what import %s left is swept later: %s", row.name, error)
        except SiltstoneError as error:
            # The session is closed, whatever became of this owner since.
            logger.warning("what import %s left was not swept: %s", row.name, error)


def _task(row: ImportRow, due_ms: int) -> Task:
    return Task(due_ms=due_ms, kind=TaskKind.CLOSE_IMPORT, subject=row.session_id, name=row.name)


def _check_text(what: str, text: str, limit: int = NAME_BYTES_MAX) -> None:
    raw = text.encode("utf-8")
    if not 1 <= len(raw) <= limit or b"\0" in raw:
        raise ValueError(f"the {what} is 1 to {limit} bytes of UTF-8 without NUL")


def _result(parts: Sequence[ImportedPart], *, repeated: bool) -> ImportResult:
    return ImportResult(
        segments=tuple(
            ImportedSegment(segment=part.name, offset=part.offset, length=part.length)
            for part in parts
        ),
        repeated=repeated,
    )
