"""The newest state of one collection that this process knows, and how it is changed.

All handles of a process share it. Commands that wait at the same time run one after the other on
the same state and go as one entry. A command that is refused, or that finds nothing to do, may have
looked at an old state: its answer is told only after a look that began after the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from siltstone.collections.place import Place
from siltstone.collections.state.diffs import apply, diff_of
from siltstone.collections.state.next_state import next_state
from siltstone.collections.state.rollups import link_of
from siltstone.core.consensus import Committed, Opened, Progress, Taken, Tip
from siltstone.core.errors import ClosedError, OutcomeUnknownError, SiltstoneError
from siltstone.core.records.collection_state import CollectionState, decode_state

T = TypeVar("T")
Command = Callable[[CollectionState, int], tuple[CollectionState, T]]
"""From a state and milliseconds since 1970 to the next state and an answer; refuses by raising."""

JOINED_MAX: Final = 64
"""Commands of one entry."""

POLL_MIN_S: Final = 0.05
POLL_GROWTH: Final = 1.5

CERTAIN_EVERY_S: Final = 60.0
"""A poll that finds nothing proves nothing; a refresh after so many seconds does."""


@dataclass(slots=True, eq=False)
class _Request(Generic[T]):
    """A command that waits.

    Attributes:
        command: to be run.
        is_done: tells by a later state whether the command was committed: by the row of a writer.
            ``None`` means that the command may be repeated.
        answer: for the caller.
        began: the moment at which it was asked for.
    """

    command: Command[T]
    is_done: Callable[[CollectionState], bool | None] | None
    answer: asyncio.Future[T]
    began: int


class SharedState:
    """One collection as all handles of this process see it. Used on one loop only.

    Args:
        place: where it is.
        opened: what the consensus said of it.
        on_commit: called with the state before and after each entry of this process.

    Attributes:
        state: the newest that is known.
        own_readers: ids of readers of this process; their rows are never dropped by it.
        own_writers: names of writers of this process, in the same way.
    """

    def __init__(
        self,
        place: Place,
        opened: Opened,
        on_commit: Callable[[CollectionState, CollectionState], None],
    ) -> None:
        self._place = place
        self._on_commit = on_commit
        self.own_readers: set[int] = set()
        self.own_writers: set[str] = set()
        self._waiting: list[_Request[Any]] = []
        self._worker: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._watchers: set[asyncio.Future[None]] = set()
        self._moment = 0
        self._certain = 0
        self._is_closed = False
        self.state, self.tip = _advanced(None, opened)

    @property
    def id(self) -> bytes:
        """Of the collection, 16 bytes."""
        return self.tip.collection_id

    async def run(
        self,
        command: Command[T],
        is_done: Callable[[CollectionState], bool | None] | None = None,
    ) -> T:
        """Run a command on the newest state, and return its answer when that is durable.

        Args:
            command: pure; it may run several times, on newer and newer states.
            is_done: whether a state tells that the command was committed; ``None`` of it means that
                no state will tell. For commands that may not be repeated.

        Raises:
            OutcomeUnknownError: whether it was committed is not known.
            ChunkError: long-term storage did not answer; nothing was committed.
            ClosedError: the collection was closed.
            Exception: what the command raises on a state that is certainly the newest one.
        """
        self._check_open()
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._moment += 1
        self._waiting.append(_Request(command, is_done, answer, self._moment))
        if self._worker is None:
            self._worker = asyncio.ensure_future(self._work())
        return await answer

    async def refresh(self) -> CollectionState:
        """Return a state that was the newest one at a moment after this call."""
        self._check_open()
        self._moment += 1
        began = self._moment
        while self._certain < began:
            if self._looking is None:
                self._looking = asyncio.ensure_future(self._look())
            looking = self._looking
            await asyncio.shield(looking)
        return self.state

    async def wait_for(
        self, ready: Callable[[CollectionState], bool], timeout_s: float | None = None
    ) -> CollectionState:
        """Wait until a state is ready, and return it. Other processes are polled meanwhile.

        Raises:
            TimeoutError: none was in this time.
            ChunkError: long-term storage did not answer.
        """
        async with asyncio.timeout(timeout_s):
            pause_s = POLL_MIN_S
            certain_s = self._place.environment.monotonic()
            while not ready(self.state):
                self._check_open()
                seqno = self.state.seqno
                if await self._changed(pause_s):
                    pause_s = POLL_MIN_S
                    continue
                now_s = self._place.environment.monotonic()
                if now_s - certain_s >= CERTAIN_EVERY_S:
                    certain_s = now_s
                    await self.refresh()
                else:
                    await self._poll()
                longest_s = self._place.settings.poll_max_s
                is_new = self.state.seqno != seqno
                pause_s = POLL_MIN_S if is_new else min(pause_s * POLL_GROWTH, longest_s)
        return self.state

    async def close(self) -> None:
        """End what waits. What was committed stays committed. Idempotent."""
        self._is_closed = True
        for watcher in self._watchers:
            if not watcher.done():
                watcher.set_result(None)
        for task in (self._worker, self._looking):
            if task is not None:
                with suppress(SiltstoneError):
                    await task

    # --- one entry after the other ---

    async def _work(self) -> None:
        try:
            while self._waiting:
                await self._attempt()
        except BaseException as error:
            for request in self._waiting:
                _fail(request, error)
            self._waiting = []
            raise
        finally:
            self._worker = None

    async def _attempt(self) -> None:
        """Run the commands that wait on the newest state, and commit what they change."""
        self._waiting = [one for one in self._waiting if not one.answer.done()]
        now_ms = self._place.now_ms()
        before = after = self.state
        joined: list[tuple[_Request[Any], Any]] = []
        unsettled = False
        for request in self._waiting[:JOINED_MAX]:
            try:
                changed, answer = request.command(after, now_ms)
            except Exception as error:  # noqa: BLE001 - a refusal, of whatever kind
                if after is before and request.began <= self._certain:
                    _fail(request, error)
                unsettled = True
                continue
            if changed is not after:
                joined.append((request, answer))
                after = changed
            elif after is before and request.began <= self._certain:
                _tell(request, answer)
            else:
                unsettled = True
        if joined:
            await self._commit(before, after, joined, now_ms)
        elif unsettled and any(not one.answer.done() for one in self._waiting):
            try:
                await self.refresh()
            except SiltstoneError as error:
                for request in self._waiting:
                    _fail(request, error)

    async def _commit(
        self,
        before: CollectionState,
        after: CollectionState,
        joined: list[tuple[_Request[Any], Any]],
        now_ms: int,
    ) -> None:
        new = next_state(
            before, after, now_ms, own_readers=self.own_readers, own_writers=self.own_writers
        )
        diff = diff_of(before, new, actor=self._place.who)
        link = link_of(before, new)
        tip = self.tip
        self._moment += 1
        began = self._moment
        try:
            result = await self._place.ask(lambda: self._place.consensus.commit(tip, diff, link))
        except Exception as error:  # noqa: BLE001 - each caller gets it
            for request, _ in joined:
                _fail(request, error)
            return
        self._take(result.progress)
        self._certain = max(self._certain, began)
        if isinstance(result, Committed):
            for request, answer in joined:
                _tell(request, answer)
            self._on_commit(before, new)
        elif not isinstance(result, Taken):
            self._settle(joined)

    def _settle(self, joined: list[tuple[_Request[Any], Any]]) -> None:
        """Find out by the newest state whether an entry counted, which all of it did or nothing."""
        told = [one.is_done(self.state) for one, _ in joined if one.is_done is not None]
        if True in told:
            for request, answer in joined:
                _tell(request, answer)
        elif None in told:
            for request, _ in joined:
                if request.is_done is not None:
                    _fail(request, OutcomeUnknownError("whether the append counted is not known"))

    # --- news ---

    async def _look(self) -> None:
        try:
            self._moment += 1
            began, tip = self._moment, self.tip
            progress = await self._place.ask(lambda: self._place.consensus.refresh(tip))
            self._take(progress)
            self._certain = max(self._certain, began)
        finally:
            self._looking = None

    async def _poll(self) -> None:
        tip = self.tip
        progress = await self._place.ask(lambda: self._place.consensus.poll(tip))
        if progress is not None:
            self._take(progress)

    def _take(self, progress: Progress) -> None:
        if progress.tip.seqno <= self.tip.seqno:
            return  # Another call went as far meanwhile.
        self.state, self.tip = _advanced(self.state, progress)
        for watcher in self._watchers:
            if not watcher.done():
                watcher.set_result(None)

    async def _changed(self, pause_s: float) -> bool:
        """Wait for a newer state of this process; False if none came."""
        watcher: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watchers.add(watcher)
        sleep = asyncio.ensure_future(self._place.environment.sleep(pause_s))
        try:
            await asyncio.wait([watcher, sleep], return_when=asyncio.FIRST_COMPLETED)
            return watcher.done()
        finally:
            sleep.cancel()
            self._watchers.discard(watcher)

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("the collection was closed")


def _advanced(state: CollectionState | None, progress: Progress) -> tuple[CollectionState, Tip]:
    """Return the state to which ``progress`` leads, and its tip.

    It may lead there from an older state than ``state``, which has some of its diffs then.
    """
    if isinstance(progress, Opened):
        where = f"rollup {progress.rollup.seqno} of {progress.tip.collection_id.hex()}"
        state = decode_state(progress.state, where=where)
    assert state is not None, "diffs follow a state"
    for diff in progress.diffs:
        if diff.seqno > state.seqno:
            state = apply(state, diff)
    return state, progress.tip


def _tell(request: _Request[T], answer: T) -> None:
    if not request.answer.done():
        request.answer.set_result(answer)


def _fail(request: _Request[Any], error: BaseException) -> None:
    if not request.answer.done():
        request.answer.set_exception(error)
