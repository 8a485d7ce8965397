"""Several processes on one virtual clock, whose steps come in an order that a seed chooses.

Each of them may be stopped, resumed, and may die. All of them share one loop. A ``Process`` is
the environment of whatever was started in it, and every task knows its process. A process that is
stopped makes no step, and its timers wait; one that died never reaches anything outside again. A
service may carry out a call that either of them had on its way.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast

from siltstone.core.environment import Pool
from siltstone.core.errors import OutcomeUnknownError
from siltstone.testing.virtual_time import START_S, Clock, VirtualLoop
from tests.support.simulation.stepping import Steps

T = TypeVar("T")

_PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)
_CALLER: ContextVar[Process | None] = ContextVar("caller", default=None)

_CANCELS_MAX = 1_000

_HELD_BACK = 0.5
"""Share of the calls in progress that a process that stops has not sent off yet."""


def current_process() -> Process | None:
    """The process whose step or blocking call this is, if it is one's."""
    return _PROCESS.get() or _CALLER.get()


class ProcessLoop(VirtualLoop):
    """A loop that makes one step at a time, any of those that are possible.

    Args:
        clock: the time.
        chance: chooses the step.
    """

    def __init__(self, clock: Clock, chance: random.Random) -> None:
        super().__init__(clock)
        self._chance = chance

    def _run_once(self) -> None:
        """Make one step; let the time pass when none is possible. Replaces that of the base."""
        loop = cast("Any", self)
        ready = loop._ready
        scheduled = loop._scheduled
        if not ready:
            while scheduled and scheduled[0]._cancelled:
                heapq.heappop(scheduled)._scheduled = False
            if not scheduled:
                waiting = "\n".join(_where(task) for task in asyncio.all_tasks(self))
                raise RuntimeError(
                    f"virtual time is stopped: every task waits and no timer is set\n{waiting}"
                )
            self._virtual_clock.now = max(self._virtual_clock.now, scheduled[0]._when)
        end = self._virtual_clock.now + loop._clock_resolution
        while scheduled and scheduled[0]._when < end:
            timer = heapq.heappop(scheduled)
            timer._scheduled = False
            ready.append(timer)
        last = len(ready) - 1
        if last:
            chosen = int(self._chance.random() * (last + 1))
            ready[chosen], ready[last] = ready[last], ready[chosen]
        handle = ready.pop()
        if handle._cancelled:
            return
        process = handle._context.get(_PROCESS)
        if process is not None and process.stopped:
            process._held.append(handle)
        else:
            handle._run()

    def _new_task(
        self,
        loop: asyncio.AbstractEventLoop,
        coroutine: Any,
        *,
        context: Context | None = None,
        **choices: Any,
    ) -> Any:
        task: Any = super()._new_task(loop, coroutine, context=context, **choices)
        task.process = _PROCESS.get() if context is None else context.get(_PROCESS)
        return task

    def release(self, handles: list[Any]) -> None:
        """Make steps possible again that were held back."""
        cast("Any", self)._ready.extend(handles)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """How long one blocking call takes.

    Attributes:
        before_s: seconds until it has its effect.
        after_s: seconds from then until its caller hears of it.
    """

    before_s: float
    after_s: float


class Process:
    """One process: an ``Environment`` for what runs in it, and its life.

    Attributes:
        name: in traces.
        stopped: whether it is stopped.
        dead: whether it died.

    Args:
        name: see above; with the seed, it is what the process's chance begins with.
        clock: the time that it shares with others.
        seed: of the world.
        delays: what a blocking call costs, by its pool.
        outlives: whether a call of a pool that is on its way takes effect although the process died
            meanwhile; asked when it would.
        steps: whether the calls of a pool are made in steps, so that others come between.
    """

    def __init__(
        self,
        name: str,
        clock: Clock,
        seed: int,
        *,
        delays: Callable[[Pool, random.Random], Delays],
        outlives: Callable[[Pool], bool],
        steps: Callable[[Pool], bool] = lambda pool: False,
    ) -> None:
        self.name = name
        self.stopped = False
        self.dead = False
        self.chance = random.Random(f"{seed}/{name}")
        self._clock = clock
        self._delays = delays
        self._outlives = outlives
        self._makes_steps = steps
        self._stepping: dict[Steps, None] = {}
        self._held: list[Any] = []
        self._threads: list[Callable[[], None]] = []
        self._lines: dict[Pool, _Line] = {}
        self._unanswered: dict[_Call, None] = {}
        # Of no process: what it asked for continues while it is stopped.
        self._outside = Context()
        self._outside.run(_CALLER.set, self)

    # --- the environment --------------------------------------------------------------------------

    def time(self) -> float:
        """Seconds since 1970."""
        return START_S + self._clock.now

    def monotonic(self) -> float:
        """Seconds since the world began."""
        return self._clock.now

    async def sleep(self, seconds: float) -> None:
        """Wait for that much virtual time."""
        if self.dead:
            raise asyncio.CancelledError
        await asyncio.sleep(seconds)

    def pause(self, seconds: float) -> None:
        """Let the time pass: a blocking call runs inline, so the whole world waits with it."""
        self._clock.now += seconds

    def random_bytes(self, count: int) -> bytes:
        """The next bytes of the seed."""
        return self.chance.randbytes(count)

    def uuid(self) -> bytes:
        """The next sixteen bytes of the seed."""
        return self.chance.randbytes(16)

    def random(self) -> float:
        """The next number of the seed in [0, 1)."""
        return self.chance.random()

    def run_blocking(self, pool: Pool, call: Callable[[], T]) -> asyncio.Future[T]:
        """Run ``call`` outside of the process, at most ``pool.threads`` of a pool at a time.

        Raises:
            OutcomeUnknownError: the process is dead, so no caller hears it.
        """
        self._check_alive()
        line = self._lines.get(pool)
        if line is None:
            line = self._lines[pool] = _Line(free=pool.threads)
        made = _Call(self, pool, line, call)
        self._unanswered[made] = None
        if line.free:
            line.free -= 1
            made.begin()
        else:
            line.waiting.append(made)
        return made.answer

    def _check_alive(self) -> None:
        if self.dead:
            raise OutcomeUnknownError("the process is dead", process=self.name)

    def close(self) -> None:
        """End nothing: calls in progress end with their loop."""

    # --- life -------------------------------------------------------------------------------------

    def start(self, work: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
        """Run ``work`` in this process."""
        context = copy_context()
        context.run(_PROCESS.set, self)
        return asyncio.get_running_loop().create_task(work, name=name, context=context)

    def stop(self) -> None:
        """Stop from now on, as a machine does that is suspended."""
        self.stopped = True

    def resume(self) -> None:
        """Continue where it was stopped."""
        self.stopped = False
        threads, self._threads = self._threads, []
        for resume in threads:
            resume()
        held, self._held = self._held, []
        cast("ProcessLoop", asyncio.get_running_loop()).release(held)

    def end_steps(self) -> None:
        """Let no call make another step."""
        while self._stepping:
            self._stepping.popitem()[0].end()

    async def die(self) -> None:
        """End every task without any effect on what is outside."""
        self.dead = True
        self.end_steps()
        for call in list(self._unanswered):
            call.give_up()
        self.resume()
        for _ in range(_CANCELS_MAX):
            mine = self._tasks()
            if not mine:
                return
            for task in mine:
                task.cancel()
            await asyncio.wait(mine, timeout=1e-3)
        raise AssertionError(f"tasks of a dead process do not end: {self._tasks()}")

    def stuck(self) -> str:
        """Where each task waits, for a person."""
        return "\n".join(_where(task) for task in self._tasks())

    def _tasks(self) -> list[asyncio.Task[Any]]:
        every: list[Any] = list(asyncio.all_tasks())
        return sorted((task for task in every if task.process is self), key=hash)


def _where(task: asyncio.Task[Any]) -> str:
    """The calls in which a task waits."""
    found: list[str] = []
    coroutine: Any = task.get_coro()
    while getattr(coroutine, "cr_frame", None) is not None:
        found.append(f"{coroutine.cr_code.co_qualname}:{coroutine.cr_frame.f_lineno}")
        coroutine = coroutine.cr_await
    return f"{task.get_name()}: {' > '.join(found)}"


class _Line:
    """The threads of a pool, and the calls that wait for one."""

    __slots__ = ("free", "waiting")

    def __init__(self, free: int) -> None:
        self.free = free
        self.waiting: deque[_Call] = deque()


class _Call:
    """A blocking call on its way: begun, in effect, answered."""

    __slots__ = (
        "_after_s",
        "_call",
        "_error",
        "_line",
        "_loop",
        "_pool",
        "_process",
        "_result",
        "answer",
    )

    def __init__(self, process: Process, pool: Pool, line: _Line, call: Callable[[], Any]) -> None:
        self._process = process
        self._pool = pool
        self._line = line
        self._call = call
        self._loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[Any] = self._loop.create_future()
        self._after_s = 0.0
        self._result: Any = None
        self._error: BaseException | None = None

    def begin(self) -> None:
        """A thread takes it; that of a stopped process does so later."""
        process = self._process
        if process.stopped:
            process._threads.append(self.begin)
            return
        if process.dead:
            self._fail()
            return
        delays = process._delays(self._pool, process.chance)
        self._after_s = delays.after_s
        self._later(delays.before_s, self._arrive)

    def _later(self, seconds: float, what: Callable[[], None]) -> None:
        self._loop.call_later(seconds, what, context=self._process._outside)

    def _arrive(self) -> None:
        """It is about to take effect, unless the process had not sent it off."""
        process = self._process
        if process.stopped and process.chance.random() < _HELD_BACK:
            process._threads.append(self._take_effect)
        else:
            self._take_effect()

    def _take_effect(self) -> None:
        process = self._process
        if process.dead and not process._outlives(self._pool):
            self._fail()
            return
        if process._makes_steps(self._pool):
            steps = Steps(self._call, process._outside.copy())
            process._stepping[steps] = None
            self._step(steps)
            return
        try:
            self._result = self._call()
        except BaseException as error:  # noqa: BLE001 - told to the caller
            self._error = error
        self._later(self._after_s, self._return)

    def _step(self, steps: Steps) -> None:
        """Make the next step, unless the process is stopped and has to make it itself."""
        process = self._process
        if process.dead:
            self._fail()
        elif process.stopped and not steps.is_sent:
            process._threads.append(partial(self._step, steps))
        elif steps.resume():
            self._later(steps.pause_s, partial(self._step, steps))
        else:
            process._stepping.pop(steps, None)
            self._result, self._error = steps.result, steps.error
            self._later(self._after_s, self._return)

    def _return(self) -> None:
        if self._process.dead:
            self._fail()
            return
        if not self.answer.done():
            if self._error is None:
                self.answer.set_result(self._result)
            else:
                self.answer.set_exception(self._error)
                # No caller need hear it.
                self.answer.exception()
        self._leave()

    def give_up(self) -> None:
        """No caller waits for an answer any more; what is on its way continues."""
        if not self.answer.done():
            self.answer.set_exception(OutcomeUnknownError("the process is dead"))
            self.answer.exception()

    def _fail(self) -> None:
        self.give_up()
        self._leave()

    def _leave(self) -> None:
        """The thread takes the next call."""
        self._process._unanswered.pop(self, None)
        line = self._line
        if line.waiting:
            line.waiting.popleft().begin()
        else:
            line.free += 1
