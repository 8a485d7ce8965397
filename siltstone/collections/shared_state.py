"""The newest state of one collection that this process knows, and how it is changed.

All handles of a process share it. Commands that wait at the same time run one after the other on
the same state and go as one entry. A command that is refused, or that finds nothing to do, may have
looked at an old state: its answer is told only after a look that began after the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from siltstone.collections.lost_races import LostRaces
from siltstone.collections.place import CollectionPlace
from siltstone.collections.state.diffs import diff_of
from siltstone.collections.state.next_state import next_state
from siltstone.collections.state.rollups import link_of
from siltstone.collections.state_progress import advanced, grown_bytes
from siltstone.core.consensus import Committed, Opened, Progress, Taken
from siltstone.core.constants import KIB
from siltstone.core.errors import ClosedError, OutcomeUnknownError, SiltstoneError
from siltstone.core.records.collection_state import CollectionState
from siltstone.core.storage.late_work import forget

T = TypeVar("T")
Command = Callable[[CollectionState, int], tuple[CollectionState, T]]
"""From a state and milliseconds since 1970 to the next state and an answer; refuses by raising."""

Settle = Callable[[CollectionState], T | None]
"""What a command answered, by a later state; ``None`` where that shows that it was not committed.

Raises ``OutcomeUnknownError`` where the state does not tell, and what else the caller is to hear.
"""

JOINED_MAX: Final = 64
"""Commands of one entry."""

JOINED_BYTES: Final = 64 * KIB
"""Of the batches of one entry, about: what the next entries repeat is no longer."""

RACES_MAX: Final = 2
"""Commits one after the other that others were ahead of. Each brings one entry of theirs for three
requests; after so many a refresh brings all of them."""

POLL_MIN_S: Final = 0.05
POLL_GROWTH: Final = 1.25
"""So the next poll comes after a quarter of the time that has been silent, about: what is appended
each 0.4 s in another process is seen within 0.1 s."""

CERTAIN_EVERY_S: Final = 60.0
"""A poll that finds nothing proves nothing; a refresh after so many seconds does."""


@dataclass(slots=True, eq=False)
class _Request(Generic[T]):
    """A command that waits.

    Attributes:
        command: to be run.
        settle: see ``Settle``; ``None`` means that the command may be repeated.
        answer: for the caller.
        began: the moment at which it was asked for.
    """

    command: Command[T]
    settle: Settle[T] | None
    answer: asyncio.Future[T]
    began: int


_Joined = list[tuple[_Request[Any], Any]]
"""Commands of one entry, each with its answer."""


class SharedState:
    """One collection as all handles of this process see it. Used on one loop only.

    Args:
        place: where it is.
        opened: what the consensus said of it.
        on_commit: called with the state before and after each entry of this process.

    Attributes:
        state: the newest that is known.
        tip: the same for the consensus.
        own_readers: ids of readers of this process; their rows are never dropped by it.
        own_writers: names of writers of this process, in the same way.
    """

    def __init__(
        self,
        place: CollectionPlace,
        opened: Opened,
        on_commit: Callable[[CollectionState, CollectionState], None],
    ) -> None:
        self.place = place
        self._on_commit = on_commit
        self.own_readers: set[int] = set()
        self.own_writers: set[str] = set()
        self._waiting: list[_Request[Any]] = []
        self._worker: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._polling: asyncio.Task[None] | None = None
        self._polled_s = -1.0
        self._watchers: set[asyncio.Future[None]] = set()
        self._moment = 0
        self._certain = 0
        self._certain_s = place.environment.monotonic()
        self._meter = place.meter(opened.tip.collection_id)
        self._lost = LostRaces(self._meter)
        self._is_closed = False
        self.state, self.tip = advanced(None, opened)

    @property
    def id(self) -> bytes:
        """Of the collection, 16 bytes."""
        return self.tip.collection_id

    @property
    def certain_age_s(self) -> float:
        """Seconds since a moment at which the state was certainly the newest one."""
        return self.place.environment.monotonic() - self._certain_s

    async def run(self, command: Command[T], settle: Settle[T] | None = None) -> T:
        """Run a command on the newest state, and return its answer when that is durable.

        Args:
            command: pure but for notes for ``settle``; it may run several times, on newer and newer
                states.
            settle: for a command that may not be repeated. Asked if neither its own entry nor
                another one is there any more, and only a state can tell.

        Raises:
            OutcomeUnknownError: whether it was committed is not known.
            ChunkError: long-term storage did not answer; nothing was committed.
            ClosedError: the collection was closed.
            Exception: what the command raises on a state that is certainly the newest one.
        """
        self._check_open()
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._moment += 1
        self._waiting.append(_Request(command, settle, answer, self._moment))
        if self._worker is None:
            self._worker = asyncio.ensure_future(self._work())
        return await answer

    async def refresh(self) -> CollectionState:
        """Return a state that was the newest one at a moment after this call.

        Raises:
            ChunkError: long-term storage did not answer.
            ClosedError: the collection was closed.
        """
        self._check_open()
        return await self._newest()

    async def _newest(self) -> CollectionState:
        """Refresh; also for what was asked for before ``close``."""
        self._moment += 1
        began = self._moment
        while self._certain < began:
            if self._looking is None:
                self._looking = asyncio.ensure_future(self._look())
                self._looking.add_done_callback(forget)
            await asyncio.shield(self._looking)
        return self.state

    async def wait_for(
        self,
        ready: Callable[[CollectionState], bool],
        timeout_s: float | None = None,
        *,
        leased: bool = False,
    ) -> CollectionState:
        """Wait until a state is ready, and return it. Other processes are polled meanwhile.

        Args:
            ready: whether a state is what is waited for.
            timeout_s: how long to wait; ``None`` for ever.
            leased: a lease is renewed meanwhile, which finds what polls do not see.

        Raises:
            TimeoutError: none was in this time.
            ChunkError: long-term storage did not answer.
            ClosedError: the collection was closed.
        """
        clock = self.place.environment.monotonic
        began_s, pause_s = clock(), POLL_MIN_S
        async with asyncio.timeout(timeout_s):
            while not ready(self.state):
                self._check_open()
                batches, paused_s = self.state.batches, clock()
                if not await self._changed(pause_s):
                    if not leased and clock() - max(began_s, self._certain_s) >= CERTAIN_EVERY_S:
                        await self.refresh()
                    elif max(self._polled_s, self._certain_s) <= paused_s:
                        await self._poll()  # Otherwise another one of this process looked just now.
                is_new = self.state.batches is not batches  # A renewal of a lease is no news.
                longest_s = self.place.settings.poll_max_s
                pause_s = POLL_MIN_S if is_new else min(pause_s * POLL_GROWTH, longest_s)
        return self.state

    async def close(self) -> None:
        """End what waits. What was asked for before is done first. Idempotent."""
        self._is_closed = True
        self._wake()
        tasks = {task for task in (self._worker, self._looking, self._polling) if task is not None}
        if tasks:
            await asyncio.wait(tasks)

    # --- one entry after the other ---

    async def _work(self) -> None:
        try:
            while self._still_waiting():
                await self._attempt()
        except Exception as error:
            if not self._fail_all(error):
                raise
        finally:
            for request in self._waiting:
                request.answer.cancel()
            self._waiting = []
            self._worker = None

    def _still_waiting(self) -> bool:
        """Forget commands that were answered; return whether others are left."""
        self._waiting = [one for one in self._waiting if not one.answer.done()]
        return bool(self._waiting)

    async def _attempt(self) -> None:
        """Run the commands that wait on the newest state, and commit what they change."""
        pause_s = self._lost.pause_s(self.place.environment.random())
        if pause_s:
            await self.place.environment.sleep(pause_s)
        if self._lost.count >= RACES_MAX and not await self._refreshed():
            return
        self._still_waiting()
        now_ms = self.place.now_ms()
        before = self.state
        after, joined = self._joined(before, now_ms)
        if joined:
            await self._commit(before, after, joined, now_ms)
        elif any(not one.answer.done() for one in self._waiting[:JOINED_MAX]):
            await self._refreshed()

    def _joined(self, before: CollectionState, now_ms: int) -> tuple[CollectionState, _Joined]:
        """Run commands one after the other; tell those that need no entry, if that is certain."""
        after = before
        joined: _Joined = []
        for request in self._waiting[:JOINED_MAX]:
            is_certain = after is before and request.began <= self._certain
            try:
                changed, answer = request.command(after, now_ms)
            except Exception as error:  # noqa: BLE001 - a refusal, of whatever kind
                if is_certain:
                    _fail(request, error)
                continue
            if changed is not after:
                joined.append((request, answer))
                after = changed
                if grown_bytes(before, after) >= JOINED_BYTES:
                    break
            elif is_certain:
                _tell(request, answer)
        return after, joined

    async def _refreshed(self) -> bool:
        """Look what is the newest state; fail all that waits if that cannot be had."""
        try:
            await self._newest()
        except SiltstoneError as error:
            self._fail_all(error)
            return False
        return True

    async def _commit(
        self, before: CollectionState, after: CollectionState, joined: _Joined, now_ms: int
    ) -> None:
        new = next_state(
            before, after, now_ms, own_readers=self.own_readers, own_writers=self.own_writers
        )
        diff = diff_of(before, new, actor=self.place.who)
        link = link_of(before, new)
        tip = self.tip
        began, began_s = self._next_moment()
        try:
            result = await self.place.commit(tip, diff, link)
        except Exception as error:  # noqa: BLE001 - each caller gets it
            for request, _ in joined:
                _fail(request, error)
            return
        try:
            self._take(result.progress, new if isinstance(result, Committed) else None)
        except SiltstoneError as error:
            for request, _ in joined:
                _fail(request, error if isinstance(result, Taken) else _unreadable(error))
            return
        if isinstance(result, Taken):
            # It leads to the next entry alone, which may be far from the newest.
            self._lost.note_lost(self.place.environment.monotonic() - began_s)
            return
        self._lost.note_won()
        self._note_certain(began, began_s)
        if isinstance(result, Committed):
            for request, answer in joined:
                _tell(request, answer)
            self._on_commit(before, new)
        else:
            self._settle(joined)

    def _settle(self, joined: _Joined) -> None:
        """Tell by the newest state what became of commands; the others run again."""
        for request, _ in joined:
            if request.settle is None:
                continue
            try:
                answer = request.settle(self.state)
            except SiltstoneError as error:
                _fail(request, error)
            else:
                if answer is not None:
                    _tell(request, answer)

    def _fail_all(self, error: Exception) -> bool:
        """Fail all that waits; return whether anything did."""
        is_any = self._still_waiting()
        for request in self._waiting:
            _fail(request, error)
        return is_any

    # --- news ---

    async def _look(self) -> None:
        try:
            began, began_s = self._next_moment()
            tip = self.tip
            self._take(await self.place.ask(lambda: self.place.consensus.refresh(tip)))
            self._note_certain(began, began_s)
        finally:
            self._looking = None

    async def _poll(self) -> None:
        if self._polling is None:
            self._polled_s = self.place.environment.monotonic()
            self._polling = asyncio.ensure_future(self._ask_for_news())
            self._polling.add_done_callback(forget)
        await asyncio.shield(self._polling)

    async def _ask_for_news(self) -> None:
        try:
            tip = self.tip
            progress = await self.place.ask(lambda: self.place.consensus.poll(tip))
            if progress is not None:
                self._take(progress)
        finally:
            self._polling = None

    def _next_moment(self) -> tuple[int, float]:
        """A moment after all that was asked for until now, and its time."""
        self._moment += 1
        return self._moment, self.place.environment.monotonic()

    def _note_certain(self, moment: int, moment_s: float) -> None:
        """Say that the state was the newest one at a moment, or later."""
        self._lost.count = 0
        self._certain = max(self._certain, moment)
        self._certain_s = max(self._certain_s, moment_s)

    def _take(self, progress: Progress, committed: CollectionState | None = None) -> None:
        if progress.tip.seqno <= self.tip.seqno:
            return  # Another call went as far meanwhile.
        self.state, self.tip = advanced(self.state, progress, committed)
        self._meter.show(self.state)
        self._wake()

    def _wake(self) -> None:
        for watcher in self._watchers:
            if not watcher.done():
                watcher.set_result(None)

    async def _changed(self, pause_s: float) -> bool:
        """Wait for a newer state of this process; False if none came."""
        watcher: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watchers.add(watcher)
        sleep = asyncio.ensure_future(self.place.environment.sleep(pause_s))
        try:
            await asyncio.wait([watcher, sleep], return_when=asyncio.FIRST_COMPLETED)
            return watcher.done()
        finally:
            sleep.cancel()
            self._watchers.discard(watcher)

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("the collection was closed")


def _unreadable(error: SiltstoneError) -> OutcomeUnknownError:
    unknown = OutcomeUnknownError("entries were read that make no sense", reason=str(error))
    unknown.__cause__ = error
    return unknown


def _tell(request: _Request[T], answer: T) -> None:
    if not request.answer.done():
        request.answer.set_result(answer)


def _fail(request: _Request[Any], error: Exception) -> None:
    if not request.answer.done():
        request.answer.set_exception(error)
