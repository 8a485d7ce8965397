"""How large the files of an epoch are: small at first, then as large as what comes in asks for.

Times decide about sizes and about zeros, never about what is safe.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from siltstone.core.constants import KIB

FIRST_BYTES: Final = 64 * KIB
"""First file of an epoch: all that most short lives write, such as that of one append."""

SPARE_BYTES_MIN: Final = 256 * KIB
"""Every later file: the reserve of a log that holds little; see ``RESERVE_PART``."""

FACTOR: Final = 4
"""A file is at most this many times as large as the one before."""

RESERVE_PART: Final = 8
"""A spare file has at least this part of what the log holds. Rows that say what was flushed go to
it when the disk is full, and they are far smaller than what they speak of."""

HELD_S: Final = 10.0
"""A file takes at least what comes in this many seconds, if it may be that large."""

FILLED_S: Final = 60.0
"""A file gets zeros in advance if it would be full within this many seconds."""

_WINDOW_S: Final = 10.0
"""The rate is that of the last one or two of these."""

_SHORTEST_S: Final = 1.0
"""What was appended in less time counts as appended in this time: a burst is no rate."""


class Growth:
    """The sizes of one epoch's files. Not thread-safe, but a torn look costs no more than room.

    Attributes:
        held_bytes: size of all files whose frames the log keeps.

    Args:
        file_bytes: the largest size, a multiple of 4 KiB.
        monotonic: the clock, in seconds.
    """

    def __init__(self, file_bytes: int, monotonic: Callable[[], float]) -> None:
        self.held_bytes = 0
        self._file_bytes = file_bytes
        self._monotonic = monotonic
        self._appended = 0
        self._older = self._newer = (monotonic(), 0)

    @property
    def free_of_zeros(self) -> int:
        """How many bytes an epoch appends before any zeros are written."""
        return self._file_bytes // 8

    def note(self, appended: int) -> None:
        """Take notice of how many bytes the epoch appended so far, the next frame included."""
        self._appended = appended

    def look(self, appended: int) -> None:
        """Note the bytes so far, and let the rate forget old ones; now and then, by one thread."""
        self._appended = appended
        now = self._monotonic()
        if now - self._newer[0] >= _WINDOW_S:
            self._older, self._newer = self._newer, (now, appended)

    def forget(self, size: int) -> None:
        """Take notice of a truncated file of ``size`` bytes, which may have been void."""
        self.held_bytes = max(0, self.held_bytes - size)

    def next_bytes(self, newest_bytes: int) -> int:
        """The size of the file that comes after one of ``newest_bytes``."""
        wanted = min(self._step(self._per_s() * HELD_S), FACTOR * newest_bytes)
        return min(max(wanted, self.reserve_bytes()), self._file_bytes)

    def reserve_bytes(self) -> int:
        """The smallest size of a spare file for what the log holds."""
        return self._step(self.held_bytes / RESERVE_PART)

    def is_worth_zeros(self, size: int) -> bool:
        """Whether a file of ``size`` bytes would be full soon."""
        return self._per_s() * FILLED_S >= size

    def _per_s(self) -> float:
        time, before = self._older
        return (self._appended - before) / max(_SHORTEST_S, self._monotonic() - time)

    def _step(self, wanted: float) -> int:
        size = SPARE_BYTES_MIN
        while size < wanted:
            size *= FACTOR
        return min(size, self._file_bytes)


def first_bytes(file_bytes: int) -> int:
    """The size of an epoch's first file, where ``file_bytes`` is the largest one."""
    return min(FIRST_BYTES, file_bytes)
