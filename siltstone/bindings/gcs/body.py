"""The body of an upload: the caller's buffers as they lie, sent in blocks, before a deadline."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final

from siltstone.core.words import KIB, Buffer

BLOCK_BYTES: Final = 256 * KIB
"""A socket's timeout is for one block, so a slow network needs no long one."""
SMALL_BYTES: Final = 64 * KIB
"""Copying so little costs less than a second packet."""


class DeadlineError(TimeoutError):
    """A call did not end in time."""


class Deadline:
    """When a call ends, whatever comes in between."""

    __slots__ = ("_end",)

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def check(self) -> None:
        """Raise ``DeadlineError`` when it has passed."""
        self.left()

    def left(self) -> float:
        """Seconds that are left, above 0. Raises ``DeadlineError`` when there are none."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise DeadlineError("the call did not end before its deadline")
        return left


class Body:
    """Buffers as a body of known length that may be sent again from its beginning."""

    def __init__(self, buffers: Sequence[Buffer], deadline: Deadline) -> None:
        self._views = [memoryview(buffer).cast("B") for buffer in buffers if len(buffer)]
        self._deadline = deadline

    def __len__(self) -> int:
        return sum(map(len, self._views))

    def __iter__(self) -> Iterator[bytes | memoryview]:
        """Yield the bytes in blocks; small neighbours are joined, large ones are not copied."""
        run: list[memoryview] = []
        length = 0
        for view in self._views:
            if run and length + len(view) > SMALL_BYTES:
                yield self._joined(run)
                run, length = [], 0
            if len(view) <= SMALL_BYTES:
                run.append(view)
                length += len(view)
                continue
            for begin in range(0, len(view), BLOCK_BYTES):
                self._deadline.check()
                yield view[begin : begin + BLOCK_BYTES]
        if run:
            yield self._joined(run)

    def _joined(self, run: Sequence[memoryview]) -> bytes | memoryview:
        self._deadline.check()
        return run[0] if len(run) == 1 else b"".join(run)


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
