"""An end to every answer, however slowly it comes.

The timeouts of a socket are for one operation each, so an answer whose bytes trickle, or a service
that sends blanks to keep a connection, would keep a call for ever. Here each read of the socket is
preceded by a look at when the answer has to be there. Transports made of ``http.client``, as nearly
all are, get their connections from here.
"""

from __future__ import annotations

import io
import socket
import time
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from siltstone.core.remote.deadline import DeadlineError
from siltstone.core.remote.remote_client import RATE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from http.client import HTTPResponse


class TimedStream(io.RawIOBase):
    """What comes from a socket within a number of seconds, and one more for each MiB that came.

    Attributes:
        connection: the socket.
    """

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        self.connection = connection
        self._raw = connection.makefile("rb", buffering=0)
        self._patience_s = self._set_s = connection.gettimeout() or seconds
        self._end = time.monotonic() + seconds

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Take what has come. Raises ``DeadlineError``, or ``TimeoutError`` after silence."""
        left_s = self._end - time.monotonic()
        if left_s <= 0:
            raise DeadlineError("the answer did not come before its deadline")
        wanted_s = min(left_s, self._patience_s)
        if wanted_s != self._set_s:
            self.connection.settimeout(wanted_s)
            self._set_s = wanted_s
        count = self._raw.readinto(buffer)
        self._end += (count or 0) / RATE
        return count

    def close(self) -> None:
        """Let go of the socket."""
        self._raw.close()
        super().close()


class TimedAnswers:
    """A part of a connection's class: its answers come in time, or are a ``DeadlineError``.

    Attributes:
        answer_s: seconds that an answer may take, not counting those for its bytes.
    """

    answer_s: float
    response_class: Any

    def getresponse(self) -> Any:
        """See ``http.client``."""
        made = self.response_class
        self.response_class = partial(_answer, made, self.answer_s)
        try:
            return super().getresponse()  # type: ignore[misc]
        finally:
            self.response_class = made


class TimedSocket:
    """A socket, what comes from which is a ``TimedStream``."""

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        self._connection = connection
        self._seconds = seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def makefile(self, _mode: str, buffering: int = -1) -> io.RawIOBase | io.BufferedReader:
        """See ``socket``; for reading."""
        stream = TimedStream(self._connection, self._seconds)
        return io.BufferedReader(stream) if buffering else stream


def _answer(
    made: Callable[..., HTTPResponse], seconds: float, connection: socket.socket, **options: Any
) -> HTTPResponse:
    return made(TimedSocket(connection, seconds), **options)


def timed_pools(
    pools: Mapping[str, Any], seconds: float, part: Any = TimedAnswers
) -> dict[str, Any]:
    """Make pools of ``urllib3``, by scheme, of connections whose answers are timed."""
    return {scheme: _timed_pool(pool, seconds, part) for scheme, pool in pools.items()}


@cache
def _timed_pool(pool: Any, seconds: float, part: Any) -> Any:
    connection = pool.ConnectionCls
    if issubclass(connection, TimedAnswers):
        return pool
    timed = type(connection.__name__, (part, connection), {"answer_s": seconds})
    return type(pool.__name__, (pool,), {"ConnectionCls": timed})


class TimedAdapter:
    """A part of the class of an adapter of ``requests``: its connections have timed answers.

    Args:
        answer_s: see ``TimedAnswers``.
        options: of the other part.
    """

    def __init__(self, answer_s: float, **options: Any) -> None:
        self._answer_s = answer_s
        super().__init__(**options)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """See ``requests``."""
        super().init_poolmanager(*args, **kwargs)  # type: ignore[misc]
        self._time(self.poolmanager)  # type: ignore[attr-defined]

    def proxy_manager_for(self, proxy: Any, **kwargs: Any) -> Any:
        """See ``requests``."""
        manager = super().proxy_manager_for(proxy, **kwargs)  # type: ignore[misc]
        self._time(manager)
        return manager

    def _time(self, manager: Any) -> None:
        manager.pool_classes_by_scheme = timed_pools(manager.pool_classes_by_scheme, self._answer_s)
