"""Requests become commits: one is in flight while the next batch fills.

A batch is one commit of one append to the active value segment and of all rows, on the condition
that nothing else wrote. So a change is there whole or not at all, and SQNs and places are known
before the commit is made.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, Protocol

from siltstone.container.models.segments import (
    Append,
    ChangeKeys,
    Condition,
    LengthIs,
    Operation,
    VersionIs,
)
from siltstone.core.constants import KIB
from siltstone.core.errors import (
    ClosedError,
    ConditionFailedError,
    CorruptDataError,
    FencedError,
    SiltstoneError,
)
from siltstone.objects.batch import ChangeBatch, PutResult, Waiting, raise_in, tell
from siltstone.objects.changes import (
    DeleteRequest,
    NumberRequest,
    PutRequest,
    ReapRequest,
    Request,
)
from siltstone.objects.entries import (
    EntriesChange,
    EntriesRequest,
    EntriesResult,
    evaluate_entries,
)
from siltstone.objects.errors import ObjectLimitError
from siltstone.objects.evaluation import ObjectChange, RecordPlace, evaluate
from siltstone.objects.ledger import Ledger, Versioned
from siltstone.objects.records.footer import PlainNote
from siltstone.objects.records.head import Head
from siltstone.objects.records.keys import STATE, LargeStatus, ObjectKey, large_key
from siltstone.objects.records.space_rows import SpaceState, encode_state
from siltstone.objects.request_queue import RequestQueue, request_bytes
from siltstone.store.own_settings import append_deadline_s
from siltstone.store.system_table import is_pressed

if TYPE_CHECKING:
    from siltstone.objects.space_meter import SpaceMeter
    from siltstone.objects.space_names import SpaceNames
    from siltstone.store.async_store import AsyncStore

_log = logging.getLogger(__name__)

_new_tuple = tuple.__new__
"""Of a named tuple: a third of what its own name takes."""

FRAME_MARGIN: Final = 4 * KIB
"""What a commit takes of a frame in addition to its record bytes and rows, and more."""

REPEATS_MAX: Final = 5
"""How often a batch is evaluated again when something else wrote; more is no chance."""

_CHANGES: Final = (ObjectChange, EntriesChange)

TURN_COUNT: Final = 64
"""After so many requests the loop has a turn, and the first batch goes to the log."""


class Rolling(Protocol):
    """Begins the next value segment between two commits, and follows what is acknowledged."""

    def is_full(self, number: int, length: int, records: int) -> bool:
        """Whether the segment of this number, with so many bytes and records is to take no more."""
        ...

    async def roll(self, found: Versioned) -> Versioned:
        """Begin the next segment; return the state to go on with."""
        ...

    def found(self, state: SpaceState) -> None:
        """Look whether a roll that failed took place: this is the state that was read after it."""
        ...

    def acknowledged(self, batch: SpaceState, notes: list[PlainNote]) -> None:
        """Take the notes of the records of a batch that began with this state and is durable."""
        ...


class BatchWriter:
    """Takes the requests of a keyspace, in the order of their calls.

    Args:
        store: of the keyspace.
        names: of the keyspace.
        ledger: where heads are looked up.
        rolling: begins the next segment when the active one is full.
        meter: measures batches.
    """

    def __init__(
        self,
        store: AsyncStore,
        names: SpaceNames,
        ledger: Ledger,
        rolling: Rolling,
        meter: SpaceMeter,
    ) -> None:
        self._store = store
        self._names = names
        self._ledger = ledger
        self._rolling, self._meter = rolling, meter
        self._frame_bytes = store.segment(names.value_segment(1)).append_bytes_max - FRAME_MARGIN
        self._found: Versioned | None = None
        self._requests = RequestQueue(names.name, append_deadline_s(store))
        self._filling: ChangeBatch | None = None
        self._flight: ChangeBatch | None = None
        self._task: asyncio.Task[SiltstoneError | None] | None = None
        self._hearing: ChangeBatch | None = None
        self._defect: BaseException | None = None
        self._is_adding = False
        self._repeats = 0
        self._wake = asyncio.Event()
        self._stopping = False
        self._failure: SiltstoneError | None = None
        self._loop = asyncio.get_running_loop()
        self._environment = store.environment

    def put(self, request: PutRequest) -> asyncio.Future[PutResult]:
        """Put an object; the future has its result as soon as it is durable."""
        return self._take(request)

    def delete(self, request: DeleteRequest) -> asyncio.Future[int | None]:
        """Delete an object; the future gets the SQN of that, ``None`` when it was absent."""
        return self._take(request)

    def mput(self, request: EntriesRequest) -> asyncio.Future[EntriesResult]:
        """Change entries of heads only, all of them in one commit."""
        return self._take(request)

    def reap(self, request: ReapRequest) -> asyncio.Future[int | None]:
        """Remove what is left of an object that has expired."""
        return self._take(request)

    def number(self) -> asyncio.Future[int]:
        """Give a number to a value segment; no other one ever has it."""
        return self._take(NumberRequest())

    def _take(self, request: Request | EntriesRequest | NumberRequest) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()
        if self._failure is not None:
            raise_in(future, self._failure)
        elif self._stopping:
            raise_in(future, ClosedError("the keyspace was closed"))
        else:
            size = request_bytes(request)
            self._requests.append(_new_tuple(Waiting, (request, future, size)))
            self._wake.set()
        return future

    def stop(self) -> None:
        """Let ``run`` end when every request that was taken is settled."""
        self._stopping = True
        self._wake.set()

    async def run(self) -> None:
        """Make commits until stopped, or until another owner has the store."""
        try:
            while self._failure is None:
                self._wake.clear()
                self._settle()
                await self._fill()
                if self._task is not None:
                    await self._wake.wait()
                elif self._filling is not None:
                    self._send(self._filling)
                elif not self._requests.taken:
                    if self._stopping:
                        return
                    await self._wake.wait()
        except Exception as error:
            self._fail(CorruptDataError(f"batches ended: {error!r}", where=self._names.name))
            raise
        except asyncio.CancelledError:
            self._fail(ClosedError("the keyspace was stopped, not closed"))
            raise

    # --- filling ----------------------------------------------------------------------------------

    async def _fill(self) -> None:
        """Evaluate requests until the batch is full, or the one in flight has landed."""
        requests = self._requests.taken
        if requests and self._task is None and self._filling is None:
            await self._begin()
        taken = 0
        while requests:
            batch = self._filling
            if batch is None:
                begin = self._flight.state if self._flight is not None else self._state()
                if begin is None:
                    return
                batch = ChangeBatch(begin)
            if self._rolling.is_full(batch.begin.number, batch.length, batch.records):
                return
            self._filling = batch
            self._is_adding = True
            added = await self._add(batch, requests[0])
            self._is_adding = False
            if not added:
                return
            taken += 1
            if taken % TURN_COUNT == 0:
                if self._task is None or self._task.done():
                    return
                await asyncio.sleep(0)

    async def _begin(self) -> None:
        """Have a state to begin with, of a segment that is not full."""
        try:
            if self._found is None:
                self._found = await self._ledger.state()
            if self._found is None:
                raise CorruptDataError("keyspace has no state", where=self._names.name)
            state = self._found.state
            self._rolling.found(state)
            if self._rolling.is_full(state.number, state.length, state.records):
                self._found = await self._rolling.roll(self._found)
        except SiltstoneError as error:
            self._found = None
            if self._is_to_repeat(error):
                return
            if isinstance(error, FencedError):
                self._fail(error)
            while self._requests.taken:
                raise_in(self._requests.popleft().future, self._told(error))

    def _state(self) -> SpaceState | None:
        return None if self._found is None else self._found.state

    async def _add(self, batch: ChangeBatch, waiting: Waiting) -> bool:
        """Put a request into the batch, if it has room."""
        request = waiting.request
        if isinstance(request, NumberRequest):
            batch.take_number(waiting)
            self._requests.popleft()
            return True
        of_place = (batch.next_sqn, batch.begin.number, batch.length)
        place: RecordPlace = _new_tuple(RecordPlace, of_place)
        # A clock that is before 1970 makes times wrong, and no change impossible.
        now_ms = max(0, int(self._environment.time() * 1000))
        found: ObjectChange | EntriesChange | SiltstoneError | None
        try:
            if isinstance(request, EntriesRequest):
                olds = {key: await self._head(batch, key) for key in request.looked_up}
                found = evaluate_entries(request, olds, batch.next_sqn, now_ms)
            else:
                known = self._head_now(batch, request.key)
                old = await self._ledger.head(request.key) if known is None else known[0]
                found = evaluate(request, old, place, now_ms)
        except SiltstoneError as error:
            found = error
        size = found.size if isinstance(found, _CHANGES) else 0
        if size and batch.size + size > self._frame_bytes:
            if batch.waiting:
                return False
            found = ObjectLimitError(
                "object is larger than a frame of tier 1",
                length=size,
                length_max=self._frame_bytes,
            )
        batch.add(waiting, found)
        self._requests.popleft()  # not before: a defect until here is told to its caller
        return True

    def _head_now(self, batch: ChangeBatch, key: ObjectKey) -> tuple[Head | None] | None:
        """The head of an object; ``None`` when only the ledger's own ``head`` can tell."""
        found = batch.head_of(key)
        if found is None and self._flight is not None:
            found = self._flight.head_of(key)
        return self._ledger.head_now(key) if found is None else found

    async def _head(self, batch: ChangeBatch, key: ObjectKey) -> Head | None:
        found = self._head_now(batch, key)
        return await self._ledger.head(key) if found is None else found[0]

    # --- committing -------------------------------------------------------------------------------

    def _send(self, batch: ChangeBatch) -> None:
        found = self._found
        assert found is not None, "a batch begins with it"
        self._filling, self._flight = None, batch
        self._task = self._loop.create_task(self._commit(batch, found.version))
        self._task.add_done_callback(self._ended)

    async def _commit(self, batch: ChangeBatch, version: int) -> SiltstoneError | None:
        """Make the commit and tell who waits for it; return why it failed."""
        ledger, state = self._names.ledger, batch.state
        operations: list[Operation] = []
        conditions: list[Condition] = [VersionIs(ledger, STATE, version)]
        if batch.parts:
            segment = self._names.value_segment(state.number)
            operations.append(Append(segment, b"".join(batch.parts)))
            conditions.append(LengthIs(segment, batch.begin.length))
        for each in batch.uploaded:
            # What follows of its segment is in this commit, so wherever the head is, its value is.
            operations.append(Append(each.segment, each.last))
            conditions.append(LengthIs(each.segment, each.length))
            row_key = large_key(LargeStatus.UPLOADING, each.place.number)
            conditions.append(VersionIs(ledger, row_key, each.version))
        if batch.keys or state != batch.begin:
            keys, values = [*batch.keys, STATE], [*batch.values, encode_state(state)]
            operations.append(ChangeKeys(ledger, keys, values))
        try:
            result = await self._store.commit(operations, conditions)
        except SiltstoneError as error:
            return error
        self._found = Versioned(state, result.version if operations else version)
        self._repeats = 0
        self._rolling.acknowledged(batch.begin, batch.notes)
        self._meter.committed(batch, self._requests.held_bytes)
        pause = self._pressed()
        if self._filling is not None and not self._is_adding and self._failure is None:
            # It is on its way to the log before callers are told, and ask for more.
            self._hearing = batch
            self._send(self._filling)
            await asyncio.sleep(0)
        for waiting, number, found in zip(batch.waiting, batch.numbers, batch.found, strict=True):
            tell(waiting, number, found, pause=pause)
        self._hearing = None
        return None

    def _ended(self, task: asyncio.Task[SiltstoneError | None]) -> None:
        """Wake who looks at it, also at a commit that was not the last one any more."""
        if not task.cancelled():
            self._defect = task.exception() or self._defect
        self._wake.set()

    def _pressed(self) -> bool:
        try:
            return self._requests.is_long or is_pressed(self._store, self._names.ledger)
        except SiltstoneError:  # it ends; the change is durable all the same
            return True

    def _settle(self) -> None:
        """Look at what became of the commit in flight, if it has ended."""
        if self._defect is not None:
            raise self._defect
        if self._task is None or not self._task.done():
            return
        batch, error = self._flight, self._task.result()
        assert batch is not None
        if error is not None:
            self._failed(batch, error)
        self._task = self._flight = None  # not before: a defect until here is told to its callers

    def _failed(self, batch: ChangeBatch, error: SiltstoneError) -> None:
        self._found = None
        if self._filling is not None:
            self._requests.put_back(self._filling.waiting)
            self._filling = None
        if self._is_to_repeat(error):
            self._requests.put_back(batch.waiting)
            return
        _log.warning("a batch of keyspace %s failed: %s", self._names.name, error)
        told = self._told(error)
        for waiting in batch.waiting:
            raise_in(waiting.future, told)
        if isinstance(error, FencedError):
            self._fail(error)

    def _is_to_repeat(self, error: SiltstoneError) -> bool:
        """Whether something else wrote, so that requests are evaluated again."""
        repeat = isinstance(error, ConditionFailedError) and self._repeats < REPEATS_MAX
        self._repeats = self._repeats + 1 if repeat else 0
        return repeat

    def _told(self, error: SiltstoneError) -> SiltstoneError:
        """What callers hear: a condition of the batch is none of theirs."""
        if isinstance(error, ConditionFailedError):
            return CorruptDataError("something else writes to the keyspace", where=self._names.name)
        return error

    def _fail(self, error: SiltstoneError) -> None:
        self._failure = error
        batches = (self._hearing, self._flight, self._filling)
        waiting = [each for batch in batches if batch is not None for each in batch.waiting]
        for each in (*waiting, *self._requests):
            raise_in(each.future, error)
        self._requests.clear()
