"""From assigned operations to acknowledged ones: one batch in the log while the next one fills.

All runs on the loop but ``log.append``, which has a thread of its own. An offset or a table version
is assigned when its operation enters the batch, and visible when the frame is acknowledged.

What a failed write of the journal means for its owner.

Work next to the appends that makes them quicker, for a log that has such work.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from siltstone.container.commit.admission import Admission
from siltstone.container.commit.back_pressure import Pressure
from siltstone.container.commit.log_calls import LogCalls
from siltstone.container.state.batch import LOG_INDEX, TIME_BYTES, Batch, SealedPiece
from siltstone.container.state.open_segment import OpenPiece, OpenSegment
from siltstone.container.state.replica import Replica
from siltstone.core.environment import Environment, Pool
from siltstone.core.errors import (
    FencedError,
    LogError,
    OutcomeUnknownError,
    SiltstoneError,
    StorageFullError,
)
from siltstone.core.fenced_log import FencedLog, TendedLog
from siltstone.core.open_files import LogOpenFilesError
from siltstone.core.records.frame import OVERHEAD_BYTES
from siltstone.core.records.piece import (
    APPEND_HEADER,
    TABLE_HEADER,
    WRITER_MARK,
    ControlKind,
    control_piece,
)
from siltstone.core.records.table_record import Entries, TableEntry, encode_entries, record_length

PIECE_BYTES = APPEND_HEADER.size
MARK_BYTES = WRITER_MARK.size
UPDATE_BYTES = TABLE_HEADER.size + record_length(())
"""What a table update takes of a frame in addition to its entries."""


BarrierPoint = tuple[asyncio.Future[int] | None, bool]
"""A moment: done once all before it is acknowledged; whether that confirms the owner again."""

OnFrame = Callable[[int, int, int, int, float], None]
"""Called with each acknowledged frame: its index, its bytes of users and of tables, how many wait
for it, and the seconds that the log took."""


class Pipeline(Admission):
    """The commit pipeline of an owned container; also its ``LogWriter``.

    Attributes:
        batch: the batch that is being filled.
        replica: the acknowledged state.
        started: whether the open batch is on its way to the log.
        log_first: index of the first frame that the log keeps.
        body_bytes_max: most bytes of a frame's body.
        calls: those to the log.
    """

    def __init__(
        self,
        log: FencedLog,
        environment: Environment,
        replica: Replica,
        pressure: Pressure,
        table_pressure: Pressure,
        on_failure: Callable[[SiltstoneError], None],
        *,
        log_first: int,
        on_frame: OnFrame | None = None,
    ) -> None:
        super().__init__(environment, table_pressure)
        self.replica = replica
        self.batch = Batch()
        self.log_first = log_first
        self._on_frame = on_frame
        self.body_bytes_max = log.frame_bytes_max - OVERHEAD_BYTES - TIME_BYTES
        self._log = log
        self._pressure = pressure
        self._on_failure = on_failure
        self.calls = LogCalls(environment)
        self._queue: deque[Batch] = deque()
        self._sending: Batch | None = None
        self.started = self._stopping = False
        self._wake: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._sent_s = 0.0

    @property
    def epoch(self) -> int:
        """The owner's epoch."""
        return self._log.epoch

    # --- adding to the batch ------------------------------------------------------------------

    def start(self) -> None:
        """Let the batch go to the log as soon as the log is free. Cheap to call again."""
        if not self.started:
            self.started = True
            if self._wake is not None and not self._wake.done():
                self._wake.set_result(None)

    def room(self, size: int) -> Batch:
        """Return a batch with room for ``size`` more bytes: the open one or the next."""
        if self.failure is not None:
            raise self.closed_error()
        if self.batch.size + size > self.body_bytes_max and not self.batch.empty:
            # Counted from now on: while the log is slow, batches must not pile up uncounted.
            waiting = max(0, self.batch.size - self.batch.admitted)
            self.batch.admitted += waiting
            self._pressure.add(waiting)
            self._queue.append(self.batch)
            self.batch = Batch()
        return self.batch

    def piece(self, segment: OpenSegment) -> OpenPiece:
        """Return the segment's piece of the open batch."""
        piece = segment.piece
        if piece is None or piece.batch is not self.batch:
            piece = OpenPiece(self.batch, segment)
            segment.piece = piece
            self.batch.pieces.append(piece)
            self.batch.size += PIECE_BYTES
            self.batch.relief = False
        return piece

    def promise(self, result: int) -> asyncio.Future[int]:
        """Return a future of the open batch's acknowledgement, which gets ``result``."""
        future = self._loop.create_future()
        batch = self.batch
        batch.futures.append(future)
        batch.results.append(result)
        if not self.started:
            self.start()
        return future

    def assign(self, entries: Entries, *, relief: bool, encoded: bytes | None = None) -> int:
        """Put a table update into a batch with room for it and return its table version.

        ``encoded`` is what ``encode_entries`` makes of the entries, if that is known.
        """
        if encoded is None:
            encoded = encode_entries(entries)
        size = UPDATE_BYTES + len(encoded)
        batch = self.batch
        if self.failure is not None or batch.size + size > self.body_bytes_max:
            batch = self.room(size)
        update = self.replica.tables.assign_encoded(entries, encoded)
        batch.updates.append(update)
        batch.size += size
        if not relief:
            batch.relief = False
        return update.table_version

    async def update(self, entries: Sequence[TableEntry], *, relief: bool = True) -> int:
        """See ``LogWriter.update``. Updates that help to free space may use the log's reserve."""
        return await self.promise(self.assign(entries, relief=relief))

    def pending(self, table_id: int, key: bytes) -> bytes | None:
        """See ``LogWriter.pending``."""
        entry = self.replica.tables.pending(table_id, key)
        return None if entry is None else entry.value

    async def control(self, kind: ControlKind, payload: bytes) -> int:
        """Put a control record into the log; return the index of its frame."""
        piece = control_piece(kind, payload)
        batch = self.room(len(piece))
        batch.controls.append(piece)
        batch.size += len(piece)
        return await self.promise(LOG_INDEX)

    def barrier_point(self) -> BarrierPoint:
        """What ``barrier`` is to wait for, if that is what is assigned right now."""
        self.check_alive()
        unsent = self._queue[-1] if self.batch.empty and self._queue else self.batch
        batch = self._sending if unsent.empty else unsent
        if batch is None:
            return None, False
        future: asyncio.Future[int] = self._loop.create_future()
        batch.futures.append(future)
        batch.results.append(0)
        # A frame that was on its way may have been confirmed before this call.
        return future, batch is unsent

    async def settled(self, point: BarrierPoint | None = None) -> bool:
        """Wait for all that is assigned; return whether that confirmed this owner again."""
        future, confirms = point or self.barrier_point()
        if future is not None:
            await future
        return confirms

    async def barrier(self, point: BarrierPoint | None = None) -> None:
        """Wait until all that was assigned is acknowledged, by an owner that still is one.

        Args:
            point: when it was assigned; ``None`` is now.

        Raises:
            ClosedError: this owner has ended; what it knows may be out of date.
            LogError: it is fenced, or the log failed meanwhile.
        """
        if not await self.settled(point):
            await self.confirm()

    # --- the log ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Send batches until stopped or failed."""
        try:
            await self._run()
        except Exception as error:
            # A defect of ours: no caller may wait for ever for an answer that never comes.
            self.fail(OutcomeUnknownError(f"the pipeline failed: {error!r}"))
            raise
        except asyncio.CancelledError:  # its loop ends: all that waits for an answer has to end too
            self.fail(OutcomeUnknownError("the container was stopped, not closed"))
            raise

    async def _run(self) -> None:
        while self.failure is None:
            if self._queue:
                batch = self._queue.popleft()
            elif not self.batch.empty:
                batch, self.batch = self.batch, Batch()
            elif self._stopping:
                self.shut()  # In this very step: what is assigned later would never be sent.
                return
            else:
                self.started = False
                self._wake = self._loop.create_future()
                await self._wake
                continue
            await self._send(batch)

    def stop(self) -> None:
        """Let ``run`` end when everything that was assigned is acknowledged."""
        self._stopping, self.started = True, False
        self.start()

    async def truncate(self, before_index: int) -> None:
        """Truncate the log, in turn with appends. Any failure is the end of this owner."""

        def call() -> None:
            self._log.truncate(before_index)
            self.log_first = self._log.first()

        try:
            await self.calls.run(call)
        except LogError as error:
            await self.end(error)
            raise self.closed_error() from error

    async def newest_epoch(self) -> int:
        """Ask the log for the highest epoch that was ever claimed. No answer ends this owner."""
        try:
            return await self.calls.run(self._log.newest_epoch)
        except LogError as error:
            if isinstance(error, LogOpenFilesError):
                raise  # It was not asked.
            # What poisoned the log just before is what the caller has to know.
            await self.end(error)
            raise self.closed_error() from error

    async def confirm(self) -> None:
        """Ask the log whether this owner is its newest; raises what ``barrier`` does."""
        self.check_alive()
        newest = await self.newest_epoch()
        if newest > self.epoch:
            self.fail(FencedError("a newer epoch owns the log", epoch=newest))
        self.check_alive()

    async def close_log(self) -> None:
        """Close the log, in turn with appends."""
        await self.calls.run(self._log.close)

    async def _send(self, batch: Batch) -> None:
        made_ms = int(self._environment.time() * 1000)
        sealed, buffers, count = batch.seal(made_ms)
        size = sum(len(piece.data) for piece in sealed)
        if size < batch.admitted:
            self._pressure.release(batch.admitted - size)
        else:
            self._pressure.add(size - batch.admitted)
        self._sending = batch
        log = self._log
        self._sent_s = self._loop.time()
        try:
            index = await self.calls.run(
                lambda: log.append(buffers, count=count, reserve=batch.relief)
            )
        except StorageFullError as error:
            self._pressure.release(size)
            self._refuse(batch, error)
        except LogError as error:
            await self.end(error)
        except asyncio.CancelledError:
            self.fail(OutcomeUnknownError("container was stopped while a frame was in flight"))
            raise
        else:
            if self.failure is None:
                try:
                    self._acknowledge(batch, sealed, index, made_ms)
                except SiltstoneError as error:
                    # The frame is durable but the index could not take it, on a full disk for
                    # example: only a new start can tell what is there.
                    self.fail(error)
                else:
                    self._sending = None
                    await batch.tell(index)
        finally:
            self._sending = None

    def _acknowledge(
        self, batch: Batch, sealed: Sequence[SealedPiece], index: int, made_ms: int
    ) -> None:
        updates = batch.updates
        replica = self.replica
        tables = updates[-1].table_version - replica.tables.applied_version if updates else 0
        self._table_pressure.add(tables)
        dropped = replica.acknowledge(updates, sealed, index, made_ms)
        if dropped:
            self._pressure.release(dropped)
        if self._on_frame is not None:
            users = sum(len(piece.data) for piece in sealed)
            took_s = self._loop.time() - self._sent_s
            self._on_frame(index, users, tables, len(batch.futures), took_s)

    def _refuse(self, batch: Batch, error: StorageFullError) -> None:
        """Tier 1 had no room: what was assigned from this batch on did not happen."""
        self.pause(str(error) if isinstance(error, LogOpenFilesError) else "tier 1 is full")
        self._drop(batch, lambda: type(error)(str(error)))

    async def end(self, error: SiltstoneError) -> None:
        """End this owner: as a fenced one if there is a newer epoch, whatever failed first.

        What poisoned the log may have reached no caller, for example one that was cancelled.
        """
        newest = 0
        if self.failure is None and not isinstance(error, FencedError):
            try:
                newest = await self.calls.run(self._log.newest_epoch)
            except SiltstoneError:
                pass
            except asyncio.CancelledError:
                self.fail(error)
                raise
        if newest > self.epoch:
            fenced = FencedError(f"a newer epoch owns the log: {error}", epoch=newest)
            fenced.__cause__ = error
            error = fenced
        self.fail(error)

    def fail(self, error: SiltstoneError) -> None:
        """The log failed: nothing that was assigned and not acknowledged is known any more."""
        if self.failure is not None:
            return
        self.failure = error
        self.accepting = False
        self.joint_gate.release()
        fenced = isinstance(error, FencedError)

        def told() -> SiltstoneError:
            if fenced:
                return FencedError(str(error))
            return OutcomeUnknownError(f"the log failed: {error}")

        self._drop(self._sending, told)
        self._pressure.fail(told())
        self._table_pressure.fail(told())
        self._on_failure(error)

    def _drop(self, first: Batch | None, error: Callable[[], SiltstoneError]) -> None:
        batches = [*([] if first is None else [first]), *self._queue, self.batch]
        self._queue.clear()
        self.batch = Batch()
        for batch in batches:
            if batch is not first:
                self._pressure.release(batch.admitted)
            for piece in batch.pieces:
                self.replica.forget_assigned(piece.segment)
        self.replica.tables.drop_pending()
        self.replica.refresh_all()
        for future in [future for batch in batches for future in batch.futures]:
            if not future.done():
                future.set_exception(error())
                future.exception()


@asynccontextmanager
async def ending(pipeline: Pipeline) -> AsyncIterator[None]:
    """Around a write of the journal: any ``LogError`` is the end of this owner.

    Raises:
        FencedError: there is a newer epoch, whatever failed first.
        LogError: the write failed, and there is none.
    """
    try:
        yield
    except LogError as error:
        await pipeline.end(error)
        if isinstance(pipeline.failure, FencedError):
            raise pipeline.closed_error() from error
        raise


LOG_CARE_POOL: Final = Pool(name="log-care", threads=2)
"""Never the thread of the appends, which must not wait for it."""


class LogCare:
    """Tends the log of one owned container."""

    def __init__(self, log: TendedLog, pipeline: Pipeline, environment: Environment) -> None:
        self._log = log
        self._pipeline = pipeline
        self._environment = environment

    async def run(self) -> None:
        """Tend the log until cancelled, or until it failed, which ends this owner."""
        environment = self._environment
        while True:
            try:
                pause_s = await environment.run_blocking(LOG_CARE_POOL, self._log.tend)
            except LogError as error:
                await self._pipeline.end(error)
                return
            await environment.sleep(pause_s)
