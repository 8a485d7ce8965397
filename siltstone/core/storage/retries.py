"""A chunk storage that repeats calls which failed, if repeating them can do no harm.

Reads, stats, listings and deletes are repeated. A create, a write and a concat never are: one that
failed may still take effect later, and its caller continues under another name. This is the only
place where calls to long-term storage are repeated; no binding does it by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Final, TypeVar

from siltstone.core.chunk_storage import ChunkStat, ChunkStorage
from siltstone.core.environment import Environment
from siltstone.core.error_facts import add_facts
from siltstone.core.errors import (
    ChunkAccessDeniedError,
    ChunkError,
    ChunkNotFoundError,
    ChunkStorageFullError,
    ChunkThrottledError,
    ChunkUnavailableError,
    Outcome,
)
from siltstone.core.storage.optional_verbs import ReadNow, immediate_reads, list_every
from siltstone.core.storage.retry_policy import wait_s
from siltstone.core.storage.wrapper import WrappedChunkStorage

T = TypeVar("T")

ONCE: Final = frozenset(("create", "write", "concat", "seal"))
"""Verbs that are never repeated; nothing relies on the last."""

OF_SERVICE: Final = (ChunkUnavailableError, ChunkAccessDeniedError, ChunkStorageFullError)
"""Errors of which a person has to know where the service is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How often and how long a call is repeated.

    Attributes:
        attempts: calls in all, the first included; at least 1.
        deadline_s: seconds from the first call after which no further one begins.
        throttled: whether a call that the service throttled is repeated too. Not where a caller
            above does it, and has fewer calls in flight meanwhile: a thread that waits here keeps
            its place.
    """

    attempts: int
    deadline_s: float
    throttled: bool = True


class RetryingChunkStorage(WrappedChunkStorage):
    """Delegates everything to ``inner`` and repeats what is safe to repeat.

    Only ``ChunkUnavailableError`` is repeated: every other error is an answer. Between two attempts
    is a wait that doubles, with jitter, or the one that the service asks for. The last error comes
    out as it is, with one exception: a delete that ever had an unknown outcome stays unknown.

    Args:
        inner: closed by ``close``.
        environment: gives time, randomness and the wait.
        retries: how often.
        place: facts that say where the service is, such as a bucket; added to errors that are about
            the service and not about a chunk. No secret.
    """

    def __init__(
        self,
        inner: ChunkStorage,
        environment: Environment,
        retries: Retries,
        place: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(inner)
        self._environment = environment
        self._retries = retries
        self._place = place

    def immediate_reads(self) -> ReadNow | None:
        """Those of ``inner``: they are no calls, so there is nothing to repeat."""
        return immediate_reads(self.inner)

    def list(self, prefix: str = "", start_after: str = "") -> Iterator[ChunkStat]:
        """``ChunkStorage.list``; a listing that breaks continues after the last chunk it gave.

        Each chunk that it gives is progress, with which the attempts are counted again.
        """
        return self._listed(start_after, partial(self.inner.list, prefix))

    def list_every(self, prefix: str, start_after: str = "") -> Iterator[ChunkStat]:
        """``list_every`` of ``optional_verbs``, as ``list``."""
        return self._listed(start_after, partial(list_every, self.inner, prefix))

    def delete(self, name: str) -> None:
        """``ChunkStorage.delete``.

        A chunk that is gone after an attempt of unknown outcome is deleted: what was asked for
        holds, and no name is ever used again.
        """
        doubtful = False

        def call() -> None:
            nonlocal doubtful
            try:
                self.inner.delete(name)
            except ChunkNotFoundError:
                if not doubtful:
                    raise
            except ChunkError as error:
                doubtful = doubtful or error.outcome is Outcome.UNKNOWN
                if doubtful:
                    error.outcome = Outcome.UNKNOWN
                raise

        self._call("delete", name, call)

    def _call(self, operation: str, name: str, action: Callable[[], T]) -> T:
        try:
            return action() if operation in ONCE else self._repeated(action)
        except OF_SERVICE as error:
            add_facts(error, self._place)
            raise

    def _repeated(self, action: Callable[[], T]) -> T:
        begun_s = self._environment.monotonic()
        attempts: _Attempts | None = None
        while True:
            try:
                return action()
            except ChunkUnavailableError as error:
                # Nearly every call answers at once.
                attempts = attempts or _Attempts(self._environment, self._retries, begun_s)
                if not attempts.another(error):
                    raise

    def _listed(
        self, start_after: str, list_after: Callable[[str], Iterator[ChunkStat]]
    ) -> Iterator[ChunkStat]:
        listing = list_after(start_after)
        attempts = _Attempts(self._environment, self._retries, self._environment.monotonic())
        while True:
            try:
                for found in listing:
                    start_after = found.name
                    yield found
                    attempts.start()
                return
            except OF_SERVICE as error:
                if not isinstance(error, ChunkUnavailableError) or not attempts.another(error):
                    add_facts(error, self._place)
                    raise
            listing = list_after(start_after)


class _Attempts:
    """Counts the attempts of one call and waits between them."""

    def __init__(self, environment: Environment, retries: Retries, begun_s: float) -> None:
        self._environment = environment
        self._retries = retries
        self._made = 1
        self._until = begun_s + retries.deadline_s

    def start(self) -> None:
        """The next attempt is the first one."""
        self._made = 1
        self._until = self._environment.monotonic() + self._retries.deadline_s

    def another(self, error: ChunkUnavailableError) -> bool:
        """Wait for the attempt after ``error``; ``False``, at once, when there is none."""
        if isinstance(error, ChunkThrottledError) and not self._retries.throttled:
            return False
        pause_s = wait_s(self._environment, self._made, error)
        if self._made >= self._retries.attempts:
            return False
        if self._environment.monotonic() + pause_s > self._until:
            return False
        self._made += 1
        self._environment.pause(pause_s)
        return True
