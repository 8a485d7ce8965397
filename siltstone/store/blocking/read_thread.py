"""A thread that helps callers which have more to do than they should do alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue


class _Job:
    """Work that either the second thread begins or its owner takes back, whichever is first."""

    __slots__ = ("_claim", "_done", "_work")

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._claim = [True]
        self._done = threading.Lock()
        self._done.acquire()

    def run(self) -> None:
        """Do the work, unless it was taken back."""
        if self._claimed():
            try:
                self._work()
            finally:
                self._done.release()

    def wait(self) -> None:
        """Take the work back, or wait for its end if it was begun."""
        if not self._claimed():
            self._done.acquire()

    def _claimed(self) -> bool:
        try:
            return self._claim.pop()
        except IndexError:
            return False


class SecondThread:
    """One daemon thread, started with the first work. Thread-safe; useless in a forked child.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False

    def share(self, work: Callable[[], None]) -> Callable[[], None]:
        """Offer work that never raises; return what waits for its end, if it was begun.

        After that call it never begins. The caller that offers it does it as well, and not twice.
        """
        if self._thread is None:
            self._start()
        job = _Job(work)
        self._jobs.put(job)
        return job.wait

    def close(self) -> None:
        """End the thread after what it does now. Idempotent."""
        with self._lock:
            self._closed = True
            thread = self._thread
        if thread is not None:
            self._jobs.put(None)
            thread.join()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
                self._thread.start()

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.run()
            del job  # it holds the buffer of the caller that offered it
