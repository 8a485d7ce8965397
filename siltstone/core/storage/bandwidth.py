"""How many bytes a second may move: a bucket of tokens that may be in debt.

A call that moves bytes waits until the debt of the calls before is paid, then moves at full speed
and leaves a debt. So calls go in the order in which they came, none waits for its own size, and the
rate holds over any time but the first.
"""

from __future__ import annotations

import threading
from typing import Any, Final

from siltstone.core.constants import KIB
from siltstone.core.environment import Environment
from siltstone.core.errors import ChunkError

BURST_S: Final = 1.0
"""What was not used in this much time may be used at once."""
SMALL_BYTES: Final = 64 * KIB
SMALL_WAIT_S: Final = 0.1
"""A call that moves this little waits no longer than this; what it moves is paid by large ones."""


class BandwidthError(ChunkError):
    """The call was not sent: more bytes wait than the settings let move. It has no effect, ever.

    Attributes:
        retry_after_s: seconds until those before it have been moved.
    """

    def __init__(self, *, chunk: str, operation: str, retry_after_s: float, **facts: Any) -> None:
        super().__init__(
            "not sent: too many bytes wait for the bandwidth that is allowed",
            chunk=chunk,
            operation=operation,
            retry_after_s=round(retry_after_s, 3),
            **facts,
        )
        self.retry_after_s = retry_after_s


class Bandwidth:
    """A rate that several clients share. Thread-safe.

    Args:
        environment: gives time.
        rate: bytes a second; at least 1.
        small_wait_s: what a small call waits at most; where no caller waits for one, there need be
            no such limit.
    """

    def __init__(
        self, environment: Environment, rate: int, small_wait_s: float = SMALL_WAIT_S
    ) -> None:
        self._environment = environment
        self._rate = rate
        self._small_wait_s = small_wait_s
        self._lock = threading.Lock()
        self._paid_at = float("-inf")

    def wait_s(self, length: int, longest_s: float = float("inf")) -> float | None:
        """Take this many bytes, and return the seconds to wait before they move.

        ``None`` when that is more than ``longest_s``: nothing was taken, see ``debt_s``.
        """
        with self._lock:
            now = self._environment.monotonic()
            paid_at = max(self._paid_at, now - BURST_S)
            wait_s = max(0.0, paid_at - now)
            if length <= SMALL_BYTES:
                wait_s = min(wait_s, self._small_wait_s)
            if wait_s > longest_s:
                return None
            self._paid_at = paid_at + length / self._rate
            return wait_s

    def debt_s(self) -> float:
        """Seconds until all that was taken is paid for."""
        with self._lock:
            return max(0.0, self._paid_at - self._environment.monotonic())
