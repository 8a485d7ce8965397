"""One folder of a service as one client sees it: keys, deadlines, threads, and its end."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, CancelledError, Future, ThreadPoolExecutor, wait
from typing import Final, TypeVar

from siltstone.core.chunk_arguments import CHUNK_NAME_BYTES_MAX, check_chunk_name
from siltstone.core.constants import MIB
from siltstone.core.errors import ChunkNameError, ClosedError
from siltstone.core.remote.deadline import Deadline

T = TypeVar("T")
RATE: Final = MIB
"""Bytes a second that every network should carry; a large call gets more time at this rate."""


class RemoteClient(ABC):
    """The part that clients of all services share. Thread-safe.

    Args:
        service: its short name, for the names of threads.
        folder: what every key begins with.
        deadline_s: seconds that a call may take, not counting those for its bytes.
        threads: most calls that ``side_by_side`` makes at a time.
    """

    def __init__(self, service: str, *, folder: str, deadline_s: float, threads: int) -> None:
        self._service = service
        self._folder = folder
        self._deadline_s = deadline_s
        self._threads_max = threads
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._is_closed = False
        self._threads: ThreadPoolExecutor | None = None

    @abstractmethod
    def _close_sockets(self) -> None:
        """Close what the SDK made."""

    def check_open(self) -> None:
        """Raise ``ClosedError`` when this object cannot be used, here or at all."""
        if self._is_closed:
            raise ClosedError("the chunk storage was closed")
        if os.getpid() != self._process:
            # Sockets and locks of the parent are of no use here, and of harm to both.
            raise ClosedError(
                "the chunk storage belongs to the process that opened it: open one after a fork",
                opened_by=self._process,
            )

    def key(self, name: str, operation: str) -> str:
        """The key of a chunk, if the name can be one and this object is open."""
        self.check_open()
        length = len(check_chunk_name(name, operation)) + len(self._folder.encode())
        if length > CHUNK_NAME_BYTES_MAX:
            raise ChunkNameError(
                "name is too long after the prefix", chunk=ascii(name[:80]), operation=operation
            )
        return self._folder + name

    def name(self, key: str) -> str:
        """The name of the chunk that ``key`` belongs to."""
        return key[len(self._folder) :]

    def deadline(self, length: int) -> Deadline:
        """The deadline of a call that begins now and moves ``length`` bytes."""
        return Deadline(self._deadline_s + length / RATE)

    def side_by_side(self, calls: Sequence[Callable[[], T]]) -> list[T]:
        """Run calls on threads; return their results in order.

        After a failure none is begun any more, those in progress are waited for, and it is raised.
        """
        if len(calls) == 1:
            return [calls[0]()]
        pool = self._pool()
        has_failed = False

        def begin(call: Callable[[], T]) -> T:
            nonlocal has_failed
            if has_failed:
                raise CancelledError
            try:
                return call()
            except BaseException:
                # Seen by the next call on this thread long before the caller may wake.
                has_failed = True
                raise

        try:
            futures: list[Future[T]] = [pool.submit(begin, call) for call in calls]
        except RuntimeError as error:  # closed since; what was begun ends by itself
            raise ClosedError("the chunk storage was closed") from error
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            for future in futures:
                future.cancel()
            wait(futures)
        for future in futures:
            failure = None if future.cancelled() else future.exception()
            if failure is not None and not isinstance(failure, CancelledError):
                raise failure
        return [future.result() for future in futures]

    def close(self) -> None:
        """Close the sockets and end the threads; in another process, only forget them."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            threads, self._threads = self._threads, None
        if os.getpid() != self._process:
            return
        if threads is not None:
            threads.shutdown(wait=True)
        self._close_sockets()

    def _pool(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._is_closed:
                raise ClosedError("the chunk storage was closed")
            if self._threads is None:
                self._threads = ThreadPoolExecutor(
                    self._threads_max, thread_name_prefix=f"{self._service}-{id(self):x}"
                )
            return self._threads
