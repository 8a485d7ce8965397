"""Threads for calls that may never return: none of them keeps the process from ending.

Threads are used again: what an SDK does for a new one takes as long as a small read.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

IDLE_MAX: Final = 16
"""At most this many threads of this process wait for work."""

_Job = tuple[Callable[[], None], Callable[[], None] | None]

_idle: list[SimpleQueue[_Job]] = []
"""Those that wait."""

# A fork does not copy the threads.
os.register_at_fork(after_in_child=_idle.clear)


def start_thread(work: Callable[[], None], tell: Callable[[], None] | None = None) -> None:
    """Run ``work``, then ``tell``, neither of which raises, on a thread that nothing waits for.

    The code that is told finds the thread free.
    """
    try:
        queue = _idle.pop()
    except IndexError:
        queue = SimpleQueue()
        threading.Thread(target=_serve, args=(queue,), name="siltstone-spare", daemon=True).start()
    queue.put((work, tell))


def _serve(queue: SimpleQueue[_Job]) -> None:
    is_kept = True
    while is_kept:
        work, tell = queue.get()
        work()
        del work  # a thread that waits keeps nothing alive
        is_kept = len(_idle) < IDLE_MAX
        if is_kept:
            # Before ``tell``: else the next call of the code that is told makes one more thread.
            _idle.append(queue)
        if tell is not None:
            tell()
        del tell
