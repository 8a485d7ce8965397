"""Blocking calls that their caller can give up: each is made on a thread of its own.

A call to the operating system that hangs, as on a mount whose server is gone, cannot be ended from
outside. So a caller that must not hang with it lets another thread make it, and leaves when its
time is over. The call continues, and what it does later is for no caller. The time is that of the
machine: a thread waits for it, which lives on no other.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, Generic, TypeVar

from siltstone.core.pauses import current_stop
from siltstone.core.spare_threads import start_thread

T = TypeVar("T")

END_S: Final = 5.0
"""How long a caller that ends something waits for what should end at once."""


LOOK_S: Final = 1.0
"""How often a time is looked at again that may become shorter, too."""


class LateError(Exception):
    """The call did not end in time. It continues, and nothing waits for it."""


class _Answer(Generic[T]):
    """What becomes of a call.

    Attributes:
        ended: held until the call has ended.
        value: what it returned.
        error: what it raised; ``None`` when it returned.
    """

    __slots__ = ("ended", "error", "value")

    value: T

    def __init__(self) -> None:
        # An ``Event`` takes ten times as long to make.
        self.ended = threading.Lock()
        self.ended.acquire()
        self.error: BaseException | None = None

    def run(self, call: Callable[[], T]) -> None:
        """Make the call."""
        try:
            self.value = call()
        except BaseException as error:  # noqa: BLE001 - its caller is told
            self.error = error

    def tell(self, ended: Callable[[], None]) -> None:
        """Say that the call has ended."""
        ended()
        self.ended.release()

    def wait(self, left_s: Callable[[], float]) -> None:
        """Wait for its end while there is time. Raises ``LateError``."""
        while not self.ended.acquire(timeout=min(max(0.0, left_s()), LOOK_S)):
            if left_s() <= 0:
                raise LateError


def bounded(
    call: Callable[[], T],
    left_s: Callable[[], float],
    ended: Callable[[], None] = lambda: None,
) -> T:
    """Return what ``call`` returns, or raise what it raises.

    A caller that is interrupted waits as well, so that it never continues while the call still
    runs; one that is interrupted again does not.

    Args:
        call: what is done, on another thread.
        left_s: how many seconds it still has; asked again and again, since it may get more.
        ended: called on that thread when the call has ended, also long after its time.

    Raises:
        LateError: it did not end in time.
    """
    answer, stop = _Answer[T](), current_stop()
    work = call if stop is None else partial(stop.run, call)
    start_thread(partial(answer.run, work), partial(answer.tell, ended))
    try:
        answer.wait(left_s)
    except LateError:
        raise
    except BaseException:
        answer.wait(left_s)
        raise
    error = answer.error
    if error is None:
        return answer.value
    try:
        raise error
    finally:
        # What it raises holds this frame, and must not be held by it: buffers would stay.
        del answer, error


def within(seconds: float) -> Callable[[], float]:
    """A time for ``bounded`` that begins now."""
    until = time.monotonic() + seconds
    return lambda: until - time.monotonic()


async def off_loop(call: Callable[[], None]) -> None:
    """Run what blocks for a moment to its end, on another thread than the loop's.

    For the end of what has threads of its own; a call to a service belongs to an environment.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    answer = _Answer[None]()

    def tell() -> None:
        with suppress(RuntimeError):  # the loop was closed, so nothing waits
            loop.call_soon_threadsafe(_settle, done, answer.error)

    start_thread(partial(answer.run, call), tell)
    await done


def _settle(done: asyncio.Future[Any], error: BaseException | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
