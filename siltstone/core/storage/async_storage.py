"""The one bridge between the asyncio core and blocking bindings.

Every call has a deadline. A call that misses it is answered with an unknown outcome while its
thread continues; the caller burns the chunk's name and moves on. A cancelled caller waits until its
call has ended or has missed its deadline, so that it never continues while a call still runs. While
storage does not answer, calls are refused unsent, but for one probe now and then. While it asks for
fewer calls, fewer are in flight, and those that it refused for that are sent again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from math import inf
from typing import Any, NamedTuple, TypeVar

from siltstone.core.bounded_calls import END_S
from siltstone.core.chunk_storage import Buffer, Capabilities, ChunkStat, ChunkStorage
from siltstone.core.environment import Environment, Pool, own_pool
from siltstone.core.errors import (
    ChunkError,
    ChunkThrottledError,
    ChunkUnavailableError,
    Outcome,
    StorageSuspendedError,
)
from siltstone.core.metrics import NO_METRICS, Metrics
from siltstone.core.open_files import ChunkOpenFilesError
from siltstone.core.storage.bandwidth import Bandwidth, BandwidthError
from siltstone.core.storage.cached import cache_counts, wants_blocks
from siltstone.core.storage.call_stats import NO_LIMITS, CallLimits, CallReport, CallWatch
from siltstone.core.storage.circuit_breaker import CircuitState
from siltstone.core.storage.concurrency_limit import Slots
from siltstone.core.storage.late_work import done_or_late, in_time
from siltstone.core.storage.optional_verbs import (
    create_whole,
    delete_many,
    immediate_reads,
    place_of,
    sweep_leftovers,
    uri_of,
)
from siltstone.core.storage.retry_policy import POSTPONED, had_no_effect, wait_s

T = TypeVar("T")

logger = logging.getLogger(__name__)

SILENT = (ChunkUnavailableError, asyncio.CancelledError)


class _Sent(NamedTuple):
    """A call on its way: what it is, and its times on the loop's clock."""

    operation: str
    chunk: str
    length: int
    queue_s: float
    begun: float


class AsyncChunkStorage:
    """A ``ChunkStorage`` whose calls run on a bounded pool, each with a deadline.

    Args:
        storage: the binding; closed by ``close``.
        environment: gives threads and time.
        threads: most calls at a time.
        deadline_s: seconds after which a call is answered with an unknown outcome. It waits at most
            this long to be sent; if it was not sent by then, it never is.
        rate_min: bytes a second that the service moves at least: a call has ``deadline_s`` and, on
            top, the time that its bytes need at this rate.
        background: how fast work that no caller waits for may move bytes, each way.
        limits: what is expected of calls.
        metrics: takes what is measured of calls, and of those that make them; closed by ``close``.

    Attributes:
        read_now: reads what needs no waiting, on the caller's thread; ``None`` without such reads.
        watch: what the calls were like.
        metrics: see above.
    """

    def __init__(
        self,
        storage: ChunkStorage,
        environment: Environment,
        *,
        threads: int = 16,
        deadline_s: float = 60.0,
        rate_min: float = float("inf"),
        background: Bandwidth | None = None,
        limits: CallLimits = NO_LIMITS,
        metrics: Metrics = NO_METRICS,
    ) -> None:
        self._storage = storage
        self._environment = environment
        self._pool = own_pool("chunks", threads)
        self._deadline_s = deadline_s
        self._rate_min = rate_min
        self._background = background
        self._threads = threads
        self._slots = Slots(threads)
        self._late: set[asyncio.Future[Any]] = set()
        self._clock = environment.monotonic
        self.read_now = immediate_reads(storage)
        self.watch = CallWatch(self._clock, limits, metrics)
        self.metrics = metrics

    @property
    def capabilities(self) -> Capabilities:
        """What the service can do."""
        return self._storage.capabilities

    @property
    def cache_counts(self) -> tuple[int, int]:
        """Blocks that reads found in the cache, and did not, so far; 0 without a cache."""
        return cache_counts(self._storage)

    def wants_blocks(self, name: str, offset: int, end: int) -> bool:
        """See ``CachedChunkStorage.wants_blocks``."""
        return wants_blocks(self._storage, name, offset, end)

    def uri_of(self, name: str) -> str | None:
        """See ``optional_verbs.Addresses``."""
        return uri_of(self._storage, name)

    @property
    def place(self) -> str | None:
        """See ``optional_verbs.place_of``."""
        return place_of(self._storage)

    @property
    def hanging(self) -> int:
        """How many calls missed their deadline and have not ended since."""
        return len(self._late)

    @property
    def healthy(self) -> bool:
        """False while every thread is held by a call that missed its deadline."""
        return len(self._late) < self._threads

    @property
    def silent(self) -> bool:
        """Whether it is not known to answer: nothing but a probe should be sent."""
        return not self.healthy or self.watch.circuit.state is not CircuitState.CLOSED

    @property
    def limit(self) -> int:
        """How many calls may be in flight now; below ``threads`` after the service throttled."""
        return self._slots.limit

    async def pace(self, length: int) -> None:
        """Let background work wait until it may move this many more bytes each way."""
        pause_s = 0.0 if self._background is None else self._background.wait_s(length)
        if pause_s:
            await self._environment.sleep(pause_s)

    async def _call(
        self,
        operation: str,
        chunk: str,
        call: Callable[[], T],
        *,
        length: int = 0,
        moved: int | None = None,
        within_s: float = inf,
    ) -> T:
        """Run ``call``; again while the service throttles it, until the time to send it is over.

        ``within_s`` is a shorter deadline of the caller's own.
        """
        loop = asyncio.get_running_loop()
        deadline_s = min(self._deadline_s, within_s)
        until = loop.time() + deadline_s
        allowed_s = deadline_s + (length if moved is None else moved) / self._rate_min
        made = 0
        while True:
            try:
                return await self._call_once(operation, chunk, call, length, until, allowed_s)
            except POSTPONED as error:
                made += 1
                pause_s = wait_s(self._environment, made, error)
                if not had_no_effect(operation, error) or loop.time() + pause_s > until:
                    raise
            await self._environment.sleep(pause_s)

    async def _call_once(
        self,
        operation: str,
        chunk: str,
        call: Callable[[], T],
        length: int,
        until: float,
        allowed_s: float,
    ) -> T:
        """Run ``call`` until it ends or misses its deadline, even when cancelled meanwhile."""
        loop = asyncio.get_running_loop()
        asked = loop.time()
        self._check_sendable(operation, chunk)
        await self._free_thread(operation, chunk, until)
        try:
            # Storage may have fallen silent while this call waited for its turn.
            self._check_sendable(operation, chunk)
            work = asyncio.ensure_future(self._environment.run_blocking(self._pool, call))
            self.watch.circuit.sent(self._clock())
        except BaseException:
            self._slots.release()
            raise
        begun = loop.time()
        sent = _Sent(operation, chunk, length, begun - asked, begun)
        # It is reported before its thread is free, so that a call that waits for that knows of it.
        work.add_done_callback(partial(self._ended, sent))
        deadline = begun + allowed_s
        cancelled: asyncio.CancelledError | None = None
        while not work.done() and loop.time() < deadline:
            try:
                await done_or_late(loop, work, deadline)
            except asyncio.CancelledError as error:
                cancelled = error
        if not work.done():
            self._late.add(work)
            self._report(sent, loop.time(), TimeoutError(), answered=False)
        if cancelled is not None:
            raise cancelled
        if work.done():
            return work.result()
        raise ChunkUnavailableError(
            "no answer before the deadline",
            chunk=chunk,
            operation=operation,
            outcome=Outcome.UNKNOWN,
            deadline_s=allowed_s,
            storage=self.place,
        )

    def _check_sendable(self, operation: str, chunk: str) -> None:
        if not self.healthy:
            raise StorageSuspendedError(
                "not sent: every thread waits for a call to long-term storage past its deadline",
                chunk=chunk,
                operation=operation,
                threads=self._threads,
                storage=self.place,
            )
        circuit = self.watch.circuit
        if not circuit.admits(self._clock()):
            raise StorageSuspendedError(
                "not sent: long-term storage did not answer the calls before",
                chunk=chunk,
                operation=operation,
                failures=circuit.failures,
                storage=self.place,
            )

    async def _free_thread(self, operation: str, chunk: str, until: float) -> None:
        """Wait for a thread; one that is not free in time was never used."""
        try:
            await self._slots.acquire(until)
        except TimeoutError as error:
            raise ChunkUnavailableError(
                "not sent: no thread became free before the deadline",
                chunk=chunk,
                operation=operation,
                deadline_s=self._deadline_s,
            ) from error

    def _ended(self, sent: _Sent, work: asyncio.Future[T]) -> None:
        error = asyncio.CancelledError() if work.cancelled() else work.exception()
        if work in self._late:
            self._late.discard(work)
        else:
            throttled = isinstance(error, ChunkThrottledError)
            # A service that refuses even calls one by one is away, whatever it says.
            answered = self._slots.limit > 1 if throttled else not isinstance(error, SILENT)
            now = asyncio.get_running_loop().time()
            if throttled:
                self._slots.throttled(sent.begun, now)
            elif answered and not isinstance(error, BandwidthError):
                self._slots.answered()
            self._report(sent, now, error, answered=answered)
        self._slots.release()

    def _report(
        self, sent: _Sent, now: float, error: BaseException | None, *, answered: bool
    ) -> None:
        report = CallReport(
            operation=sent.operation,
            chunk=sent.chunk,
            queue_s=sent.queue_s,
            service_s=now - sent.begun,
            answered=answered,
            failed=error is not None,
            length=sent.length if error is None else 0,
            throttled=isinstance(error, ChunkThrottledError),
            unsent=isinstance(error, ChunkOpenFilesError),
        )
        self.watch.ended(report)

    async def create(self, name: str, buffers: Sequence[Buffer], *, within_s: float = inf) -> None:
        """See ``ChunkStorage.create``."""
        await self._call(
            "create",
            name,
            lambda: self._storage.create(name, buffers),
            length=sum(map(len, buffers)),
            within_s=within_s,
        )

    async def create_whole(
        self, name: str, buffers: Sequence[Buffer], *, within_s: float = inf
    ) -> None:
        """See ``optional_verbs.WholeCreates``."""
        await self._call(
            "create",
            name,
            lambda: create_whole(self._storage, name, buffers),
            length=sum(map(len, buffers)),
            within_s=within_s,
        )

    async def write(
        self, name: str, offset: int, buffers: Sequence[Buffer], *, within_s: float = inf
    ) -> None:
        """See ``ChunkStorage.write``."""
        await self._call(
            "write",
            name,
            lambda: self._storage.write(name, offset, buffers),
            length=sum(map(len, buffers)),
            within_s=within_s,
        )

    async def read_into(self, name: str, offset: int, buffer: memoryview | bytearray) -> int:
        """See ``ChunkStorage.read_into``. After a missed deadline the buffer may still change."""
        return await self._call(
            "read_into",
            name,
            lambda: self._storage.read_into(name, offset, buffer),
            length=len(buffer),
        )

    async def read_all(self, name: str, length: int) -> bytearray:
        """Read the first ``length`` bytes of a chunk; fewer when it is shorter."""

        def call() -> bytearray:
            buffer = bytearray(length)
            count = self._storage.read_into(name, 0, buffer)
            del buffer[count:]
            return buffer

        return await self._call("read_into", name, call, length=length)

    async def run(
        self,
        operation: str,
        name: str,
        call: Callable[[ChunkStorage], T],
        *,
        length: int = 0,
        moved: int | None = None,
    ) -> T:
        """Run several steps on one thread as one call, such as a read with its checks.

        ``length`` is how many bytes it moves, for the metrics, and ``moved`` for the deadline if
        that is another number.
        """
        return await self._call(
            operation, name, lambda: call(self._storage), length=length, moved=moved
        )

    async def stat(self, name: str) -> ChunkStat:
        """See ``ChunkStorage.stat``."""
        return await self._call("stat", name, lambda: self._storage.stat(name))

    async def list(self, prefix: str, start_after: str = "", limit: int = 1_000) -> list[ChunkStat]:
        """Return the next ``limit`` chunks of a listing; see ``ChunkStorage.list``."""
        return await self._call(
            "list", prefix, lambda: list(islice(self._storage.list(prefix, start_after), limit))
        )

    async def delete(self, name: str) -> None:
        """See ``ChunkStorage.delete``."""
        await self._call("delete", name, lambda: self._storage.delete(name))

    async def delete_many(self, names: Sequence[str]) -> Mapping[str, ChunkError]:
        """See ``optional_verbs.delete_many``; measured as one deletion."""
        return await self._call("delete", names[0], lambda: delete_many(self._storage, names))

    async def sweep_leftovers(self, prefix: str, age_s: float) -> int:
        """See ``optional_verbs.sweep_leftovers``."""
        return await self._call(
            "sweep_leftovers", prefix, lambda: sweep_leftovers(self._storage, prefix, age_s)
        )

    async def concat(self, target: str, sources: Sequence[tuple[str, int]]) -> None:
        """See ``ChunkStorage.concat``."""
        await self._call("concat", target, lambda: self._storage.concat(target, sources))

    async def seal(self, name: str) -> None:
        """See ``ChunkStorage.seal``."""
        await self._call("seal", name, lambda: self._storage.seal(name))

    async def used_space(self) -> int:
        """See ``ChunkStorage.used_space``."""
        return await self._call("used_space", "", self._storage.used_space)

    async def free_space(self) -> int:
        """See ``ChunkStorage.free_space``."""
        return await self._call("free_space", "", self._storage.free_space)

    async def close(self) -> None:
        """Close the binding, or leave it if that hangs. The environment ends the threads."""
        self.metrics.close()
        pool = Pool(name=f"{self._pool.name}-end", threads=1)
        work = asyncio.ensure_future(self._environment.run_blocking(pool, self._storage.close))
        if not await in_time(work, 0.0 if self._late else END_S):
            logger.warning("long-term storage could not be closed: storage=%s", self.place)
