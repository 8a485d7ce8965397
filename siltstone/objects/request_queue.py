"""Requests that wait for a batch, in the order of their calls, and a bound on what they hold.

Those beyond the bound stand in line, as appends do under back-pressure: until there is room, or
their time is over.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from siltstone.core.constants import KIB, MIB
from siltstone.core.errors import BackPressureError
from siltstone.objects.changes import PutRequest
from siltstone.objects.entries import EntriesRequest

if TYPE_CHECKING:
    from siltstone.objects.batch import Waiting
    from siltstone.objects.changes import NumberRequest, Request

QUEUE_BYTES: Final = 64 * MIB
"""What requests may hold that wait for a batch: the next eight frames. More makes nothing faster,
and is lost with the process."""

REQUEST_BYTES: Final = KIB
"""About what a request takes in addition to its value and its metadata."""


class _InLine(NamedTuple):
    """A request for which there was no room, and until when it waits for that."""

    waiting: Waiting
    due_s: float


class RequestQueue:
    """Requests of one keyspace, oldest first. Used on the loop of its store.

    Args:
        keyspace: its name, for messages.
        deadline_s: how long a request stands in line.
        bound: bytes with which no more is taken, at least 1.

    Attributes:
        taken: the requests that were taken, oldest first, to be looked at; none only when none is
            in line.
        held_bytes: their bytes.
    """

    def __init__(self, keyspace: str, deadline_s: float, bound: int = QUEUE_BYTES) -> None:
        self._keyspace = keyspace
        self._deadline_s = deadline_s
        self._bound = bound
        self.taken: deque[Waiting] = deque()
        self._line: deque[_InLine] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self.held_bytes = 0

    def __len__(self) -> int:
        """How many were taken."""
        return len(self.taken)

    def __iter__(self) -> Iterator[Waiting]:
        return chain(self.taken, (each.waiting for each in self._line))

    @property
    def is_long(self) -> bool:
        """Whether requests wait for room, or will soon: three quarters of the bound are held."""
        return 4 * self.held_bytes >= 3 * self._bound

    def append(self, waiting: Waiting) -> None:
        """Take a request, or let it stand in line.

        Its future fails with ``BackPressureError`` when there is no room in time.
        """
        if self.held_bytes < self._bound:  # then there is no line
            self.taken.append(waiting)
            self.held_bytes += waiting.size
            return
        due_s = asyncio.get_running_loop().time() + self._deadline_s
        self._line.append(_InLine(waiting, due_s))
        if self._timer is None:
            self._wait()

    def popleft(self) -> Waiting:
        """Give the oldest away, which makes room."""
        waiting = self.taken.popleft()
        self.held_bytes -= waiting.size
        if self._line:
            self._let_in()
        return waiting

    def put_back(self, waiting: Sequence[Waiting]) -> None:
        """Take requests again, in their order, before all others; they had their place already."""
        self.taken.extendleft(reversed(waiting))
        self.held_bytes += sum(each.size for each in waiting)

    def clear(self) -> None:
        """Forget all of them."""
        self.taken.clear()
        self._line.clear()
        self.held_bytes = 0
        self._wait()

    def _let_in(self) -> None:
        while self._line and self.held_bytes < self._bound:
            waiting = self._line.popleft().waiting
            if not waiting.future.done():  # else its caller went away
                self.taken.append(waiting)
                self.held_bytes += waiting.size
        self._wait()

    def _wait(self) -> None:
        """Wake when the time of the first in line is over; those after it have more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._line:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(self._line[0].due_s, self._refuse_late)

    def _refuse_late(self) -> None:
        now_s = asyncio.get_running_loop().time()
        while self._line and self._line[0].due_s <= now_s:
            future = self._line.popleft().waiting.future
            if not future.done():
                future.set_exception(self._refusal())
                future.exception()  # a caller that went away has heard it
        self._wait()

    def _refusal(self) -> BackPressureError:
        return BackPressureError(
            "requests of a keyspace stay at their bound",
            keyspace=self._keyspace,
            bound=self._bound,
            deadline_s=self._deadline_s,
        )


def request_bytes(request: Request | EntriesRequest | NumberRequest) -> int:
    """About how many bytes of memory a request holds."""
    if type(request) is PutRequest:
        return REQUEST_BYTES + len(request.value) + len(request.metadata)
    if isinstance(request, EntriesRequest):
        return REQUEST_BYTES + request.held_bytes
    return REQUEST_BYTES
