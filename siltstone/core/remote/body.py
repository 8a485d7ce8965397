"""The body of an upload: the caller's buffers as they lie, sent in blocks, before a deadline."""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from siltstone.core.constants import KIB, Buffer
from siltstone.core.remote.deadline import Deadline

BLOCK_BYTES: Final = 256 * KIB
"""A socket's timeout is for one block, so a slow network needs no long one."""
SMALL_BYTES: Final = 64 * KIB
"""Copying this little costs less than a second packet."""


class Body:
    """Buffers as one file that is read once, or again from its beginning.

    ``read`` returns a part of a buffer, without a copy and of a length of its own; the SDK sends
    whatever it gets. ``read()`` returns the rest as ``bytes``, which only fakes ask for.
    """

    def __init__(self, buffers: Sequence[Buffer], deadline: Deadline) -> None:
        self._views = [memoryview(buffer).cast("B") for buffer in buffers if len(buffer)]
        self._ends = list(accumulate(len(view) for view in self._views))
        self._deadline = deadline
        self._position = 0

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def read(self, size: int | None = -1) -> bytes | memoryview:
        """The next bytes; none at the end."""
        self._deadline.check()
        if size is None or size < 0:
            rest = b"".join(iter(lambda: bytes(self.read(BLOCK_BYTES)), b""))
            return rest
        index = bisect_right(self._ends, self._position)
        if index == len(self._views):
            return b""
        view = self._views[index]
        begin = self._position - (self._ends[index] - len(view))
        block = view[begin : begin + BLOCK_BYTES]
        self._position += len(block)
        return block

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go elsewhere: the SDK reads a body once to sign it and once to send it."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: len(self)}[whence]
        self._position = start + offset
        return self._position

    def tell(self) -> int:
        """The position."""
        return self._position


def sendable(buffers: Sequence[Buffer], length: int, deadline: Deadline) -> bytes | Body:
    """What the SDK sends without copying more than a little."""
    if length <= SMALL_BYTES:
        return b"".join(buffers)
    return Body(_gathered(buffers), deadline)


def _gathered(buffers: Sequence[Buffer]) -> Sequence[Buffer]:
    """Join runs of small buffers, each of which would be a packet of its own."""
    gathered: list[Buffer] = []
    run: list[Buffer] = []
    length = 0
    for buffer in buffers:
        if run and length + len(buffer) > SMALL_BYTES:
            gathered.append(run[0] if len(run) == 1 else b"".join(run))
            run, length = [], 0
        run.append(buffer)
        length += len(buffer)
    gathered.append(run[0] if len(run) == 1 else b"".join(run))
    return gathered


def pieces(buffers: Sequence[Buffer], length: int, step: int) -> list[list[memoryview]]:
    """Cut buffers into runs of ``step`` bytes, the last one shorter, without a copy."""
    cut: list[list[memoryview]] = [[] for _ in range(-(-length // step))]
    position = 0
    for buffer in buffers:
        view = memoryview(buffer).cast("B") if len(buffer) else memoryview(b"")
        while len(view):
            take = min(len(view), step - position % step)
            cut[position // step].append(view[:take])
            view, position = view[take:], position + take
    return cut


def cut(buffers: Sequence[Buffer], start: int, length: int) -> list[memoryview]:
    """Return ``length`` bytes of ``buffers`` from ``start`` on, without a copy."""
    found: list[memoryview] = []
    for buffer in buffers:
        if not length:
            break
        if start >= len(buffer):
            start -= len(buffer)
            continue
        view = memoryview(buffer).cast("B")[start : start + length]
        found.append(view)
        start, length = 0, length - len(view)
    return found
