"""The gate of joint commits: for a moment none is assigned, so that all before it can be flushed.

A *joint* commit has parts that go to long-term storage by different flushes: bytes of a segment,
and with them updates of tables or bytes of another segment. A cut of the table log at which each
of them is whole does not come by itself while they go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class JointGate:
    """Lets joint commits pass, except while a flush of the table log chooses where to end.

    Who closes it opens it soon, whatever happens. So no one who waits needs a deadline.
    """

    __slots__ = ("_holders", "_opened")

    def __init__(self) -> None:
        self._opened = asyncio.Event()
        self._opened.set()
        self._holders = 0

    @property
    def is_open(self) -> bool:
        """Whether a joint commit may be assigned in this step of the loop."""
        return self._opened.is_set()

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Keep it closed for the time of a ``with``, which its owner bounds."""
        self._holders += 1
        self._opened.clear()
        try:
            yield
        finally:
            self._holders -= 1
            if not self._holders:
                self._opened.set()

    def release(self) -> None:
        """Let all pass that wait now: the owner has ended, and tells them so."""
        self._opened.set()

    async def passed(self) -> None:
        """Wait until it opens. It may be closed again when the caller continues."""
        await self._opened.wait()
