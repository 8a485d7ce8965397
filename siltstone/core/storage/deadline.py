"""A chunk storage whose calls end in time, for callers that block: what the bridge is for a loop.

Each call is made on a thread of its own, while its caller waits. What was begun by a ``Stop`` stays
on the caller's thread, and the code that waits for that thread gives it up: passing a small read to
another thread and back takes longer than the read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Final, TypeVar

from siltstone.core.bounded_calls import END_S, LateError, bounded, within
from siltstone.core.chunk_storage import Buffer, ChunkStat, ChunkStorage
from siltstone.core.environment import Environment
from siltstone.core.errors import (
    ChunkError,
    ChunkUnavailableError,
    ClosedError,
    Outcome,
    StorageSuspendedError,
)
from siltstone.core.pauses import current_stop
from siltstone.core.storage.optional_verbs import (
    ReadNow,
    create_from,
    create_whole,
    delete_many,
    immediate_reads,
    list_every,
    overwrite,
    place_of,
)
from siltstone.core.storage.wrapper import WrappedChunkStorage

T = TypeVar("T")

HANGING_MAX: Final = 3
"""Each call that hangs took its caller a deadline; the next one would, too."""

PAGE_COUNT: Final = 256
"""Chunks of a listing that come by one call."""

DELETES_MAX: Final = 1_000
"""Chunks that one call deletes: as many as a service takes in a request."""


class _Call:
    """A call in progress; see ``TimedCall``."""

    __slots__ = ("_allowed_s", "_clock", "_name", "_operation", "_place", "until")

    def __init__(
        self,
        operation: str,
        name: str,
        place: str | None,
        allowed_s: float,
        clock: Callable[[], float],
    ) -> None:
        self._clock = clock
        self._operation = operation
        self._name = name
        self._place = place
        self._allowed_s = allowed_s
        self.until = self._clock() + allowed_s

    def late_error(self) -> ChunkUnavailableError:
        """What is known of it: nothing."""
        return ChunkUnavailableError(
            "no answer before the deadline",
            chunk=self._name,
            operation=self._operation,
            outcome=Outcome.UNKNOWN,
            deadline_s=self._allowed_s,
            storage=self._place,
        )

    def left_s(self) -> float:
        """Seconds that it still has."""
        return self.until - self._clock()

    def outside(self, pieces: Iterable[Buffer], rate_min: float) -> Iterator[Buffer]:
        """Pass pieces on; the time that it takes to get them is not the call's."""
        source = iter(pieces)
        while True:
            self.until = float("inf")
            piece = next(source, None)
            self.until = self._clock() + self._allowed_s
            if piece is None:
                return
            self.until += len(piece) / rate_min
            yield piece


class DeadlineChunkStorage(WrappedChunkStorage):
    """Delegates everything to ``inner``; a call that does not end in time has an unknown outcome.

    Its thread continues. So a buffer that was read into may still change, and one that was written
    may still be read.

    Args:
        inner: closed by ``close``, which does not wait for what hangs.
        environment: gives time.
        deadline_s: seconds that a call has.
        rate_min: bytes a second that it moves at least: its bytes add time at this rate.
    """

    def __init__(
        self,
        inner: ChunkStorage,
        environment: Environment,
        *,
        deadline_s: float,
        rate_min: float = float("inf"),
    ) -> None:
        super().__init__(inner)
        self._clock = environment.monotonic
        self._deadline_s = deadline_s
        self._rate_min = rate_min
        self._lock = threading.Lock()
        self._hanging: set[_Call] = set()
        self._is_closed = False
        self._place = place_of(inner)

    def immediate_reads(self) -> ReadNow | None:
        """Those of ``inner``: they do not wait."""
        return immediate_reads(self.inner)

    def create(self, name: str, buffers: Sequence[Buffer]) -> None:
        """``ChunkStorage.create``."""
        self._made("create", name, lambda: self.inner.create(name, buffers), _length(buffers))

    def create_from(self, name: str, length: int, pieces: Iterable[Buffer]) -> None:
        """``create_from`` of ``optional_verbs``; each piece has the time of a call."""
        call = self._begun("create", name, length)
        outside = call.outside(pieces, self._rate_min)
        self._run(call, lambda: create_from(self.inner, name, length, outside))

    def create_whole(self, name: str, buffers: Sequence[Buffer]) -> None:
        """``create_whole`` of ``optional_verbs``."""
        self._made(
            "create", name, lambda: create_whole(self.inner, name, buffers), _length(buffers)
        )

    def write(self, name: str, offset: int, buffers: Sequence[Buffer]) -> None:
        """``ChunkStorage.write``."""
        self._made("write", name, lambda: self.inner.write(name, offset, buffers), _length(buffers))

    def read_into(self, name: str, offset: int, buffer: memoryview | bytearray) -> int:
        """``ChunkStorage.read_into``."""
        return self._made(
            "read_into", name, lambda: self.inner.read_into(name, offset, buffer), len(buffer)
        )

    def overwrite(self, name: str, offset: int, buffers: Sequence[Buffer]) -> None:
        """``overwrite`` of ``optional_verbs``."""
        self._made(
            "overwrite",
            name,
            lambda: overwrite(self.inner, name, offset, buffers),
            _length(buffers),
        )

    def list(self, prefix: str = "", start_after: str = "") -> Iterator[ChunkStat]:
        """``ChunkStorage.list``: a call for each page of it."""
        return self._paged(prefix, self.inner.list(prefix, start_after))

    def list_every(self, prefix: str, start_after: str = "") -> Iterator[ChunkStat]:
        """``list_every`` of ``optional_verbs``, as ``list``."""
        return self._paged(prefix, list_every(self.inner, prefix, start_after))

    def _paged(self, prefix: str, listing: Iterator[ChunkStat]) -> Iterator[ChunkStat]:
        while page := self._call("list", prefix, lambda: [*islice(listing, PAGE_COUNT)]):
            for found in page:
                yield found
                if self._is_closed:
                    raise ClosedError("the storage was closed")

    def delete_many(self, names: Sequence[str]) -> Mapping[str, ChunkError]:
        """``delete_many`` of ``optional_verbs``: a call for each request."""
        failed: dict[str, ChunkError] = {}
        for begin in range(0, len(names), DELETES_MAX):
            some = names[begin : begin + DELETES_MAX]
            failed.update(
                self._call("delete_many", some[0], partial(delete_many, self.inner, some))
            )
        return failed

    def close(self) -> None:
        """``ChunkStorage.close``; what hangs already gets no more time, the rest gets ``END_S``."""
        self._is_closed = True
        with suppress(LateError):  # every call that hung has told its caller
            bounded(self.inner.close, within(0.0 if self._hanging else END_S))

    def _call(self, operation: str, name: str, action: Callable[[], T]) -> T:
        return self._made(operation, name, action, 0)

    def _made(self, operation: str, name: str, action: Callable[[], T], length: int) -> T:
        return self._run(self._begun(operation, name, length), action)

    def _begun(self, operation: str, name: str, length: int) -> _Call:
        if len(self._hanging) >= HANGING_MAX:
            raise StorageSuspendedError(
                "not sent: calls to long-term storage hang past their deadline",
                chunk=name,
                operation=operation,
                calls=len(self._hanging),
                storage=self._place,
            )
        allowed_s = self._deadline_s + length / self._rate_min
        return _Call(operation, name, self._place, allowed_s, self._clock)

    def _run(self, call: _Call, action: Callable[[], T]) -> T:
        stop = current_stop()
        if stop is not None:
            stop.calls.add(call)
            try:
                return action()
            finally:
                stop.calls.discard(call)
        is_over = False

        def ended() -> None:
            nonlocal is_over
            with self._lock:
                is_over = True
                self._hanging.discard(call)

        try:
            return bounded(action, call.left_s, ended)
        except LateError:
            with self._lock:
                if not is_over:
                    self._hanging.add(call)
            raise call.late_error() from None


def _length(buffers: Sequence[Buffer]) -> int:
    return sum(map(len, buffers))
