"""A chunk storage that fails as a test wants it: applied or not, reported or not.

The model: a call may have its effect or not, and its caller may learn of it or not: four outcomes.
A fifth: a half of its effect. Which call has which is the ``Plan``. What may not fail: a call has
its effect once at most, and ``close``. Nothing is random here; a plan may be.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeVar

from siltstone.core.chunk_storage import Buffer, ChunkStorage
from siltstone.core.errors import ChunkUnavailableError, Outcome
from siltstone.core.storage.optional_verbs import create_from
from siltstone.core.storage.wrapper import WrappedChunkStorage

T = TypeVar("T")
Hook = Callable[[str, str], None]


class Fate(Enum):
    """The fate of one call: whether it was applied, and what its caller is told.

    ``DONE``: applied, and so reported. ``REFUSED``: not applied, and so reported (``NOT_APPLIED``).
    ``LOST_REPLY``: applied, but its caller gets a failure (``UNKNOWN``). ``LOST_CALL``: not
    applied, and its caller cannot know (``UNKNOWN``). ``TORN``: of a create or a write the first
    half is applied, of anything else, such as a whole create, nothing, and its caller cannot know
    (``UNKNOWN``).
    """

    DONE = "done"
    REFUSED = "refused"
    LOST_REPLY = "lost reply"
    LOST_CALL = "lost call"
    TORN = "torn"


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageCall:
    """One call as it was made.

    Attributes:
        number: 1 for the first call of the wrapper, whatever the operation.
        operation: the verb.
        name: the chunk, the target of a concat, or the prefix of a listing.
    """

    number: int
    operation: str
    name: str


class Plan(Protocol):
    """Decides the fate of each call."""

    def __call__(self, call: StorageCall) -> Fate:
        """Return what becomes of ``call``."""
        ...


def all_done(call: StorageCall) -> Fate:
    """The plan under which nothing fails."""
    return Fate.DONE


def fail_number(number: int, fate: Fate, operation: str | None = None) -> Plan:
    """Return the plan that gives ``fate`` to one call.

    Args:
        number: which one, 1 being the first; of ``operation`` if that is given, else of all.
        fate: what becomes of it.
        operation: count calls of this verb only.
    """
    lock = threading.Lock()
    seen = 0

    def plan(call: StorageCall) -> Fate:
        nonlocal seen
        if operation not in (None, call.operation):
            return Fate.DONE
        with lock:
            seen += 1
            return fate if seen == number else Fate.DONE

    return plan


class FaultyChunkStorage(WrappedChunkStorage):
    """Delegates everything to ``inner``, with the fate that ``plan`` gives to each call.

    Thread-safe. Hooks run on the caller's thread, outside of any lock; what they raise comes out of
    the call. A listing is one call, made when it is asked for its first chunk.

    Attributes:
        calls: every call so far, in the order of their numbers.
        plan: decides; may be replaced at any time.
        before: called as ``before(operation, name)`` ahead of the inner call.
        after: called alike when the inner call returned, before its caller gets the answer.
    """

    def __init__(
        self,
        inner: ChunkStorage,
        plan: Plan = all_done,
        *,
        before: Hook | None = None,
        after: Hook | None = None,
    ) -> None:
        super().__init__(inner)
        self.plan = plan
        self.before = before or _ignore
        self.after = after or _ignore
        self.calls: list[StorageCall] = []
        self._lock = threading.Lock()

    def create(self, name: str, buffers: Sequence[Buffer]) -> None:
        """``ChunkStorage.create``."""
        self._fated(
            "create",
            name,
            lambda: self.inner.create(name, buffers),
            torn=lambda: self.inner.create(name, _half(buffers)),
        )

    def create_from(self, name: str, length: int, pieces: Iterable[Buffer]) -> None:
        """``create_from`` of ``optional_verbs``."""
        self._fated(
            "create",
            name,
            lambda: create_from(self.inner, name, length, pieces),
            torn=lambda: self.inner.create(name, _half([bytes(piece) for piece in pieces])),
        )

    def write(self, name: str, offset: int, buffers: Sequence[Buffer]) -> None:
        """``ChunkStorage.write``."""
        self._fated(
            "write",
            name,
            lambda: self.inner.write(name, offset, buffers),
            torn=lambda: self.inner.write(name, offset, _half(buffers)),
        )

    def _call(self, operation: str, name: str, action: Callable[[], T]) -> T:
        return self._fated(operation, name, action)

    def _fated(
        self,
        operation: str,
        name: str,
        action: Callable[[], T],
        *,
        torn: Callable[[], object] | None = None,
    ) -> T:
        with self._lock:
            call = StorageCall(number=len(self.calls) + 1, operation=operation, name=name)
            self.calls.append(call)
        fate = self.plan(call)
        self.before(operation, name)
        if fate is Fate.TORN and torn is not None:
            torn()
        if fate in (Fate.REFUSED, Fate.LOST_CALL, Fate.TORN):
            raise _failure(call, fate)
        result = action()
        self.after(operation, name)
        if fate is Fate.LOST_REPLY:
            raise _failure(call, fate)
        return result


def _failure(call: StorageCall, fate: Fate) -> ChunkUnavailableError:
    return ChunkUnavailableError(
        f"injected: {fate.value}",
        chunk=call.name,
        operation=call.operation,
        outcome=Outcome.NOT_APPLIED if fate is Fate.REFUSED else Outcome.UNKNOWN,
        number=call.number,
    )


def _half(buffers: Sequence[Buffer]) -> list[bytes]:
    whole = b"".join(buffers)
    return [whole[: (len(whole) + 1) // 2]]


def _ignore(operation: str, name: str) -> None:
    """The hook that does nothing."""
