"""What would be lost with tier 1: bytes of frames that nothing durable elsewhere covers. No I/O."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

BUCKET_S = 1.0


@dataclass(slots=True)
class _Bucket:
    time_s: float
    last_index: int
    size: int


class Exposure:
    """Counts the appended bytes of the frames from the safe index on, second by second.

    An upper bound: a frame counts as long as any frame of its second is needed.
    """

    __slots__ = ("_buckets", "size")

    def __init__(self) -> None:
        self._buckets: deque[_Bucket] = deque()
        self.size = 0

    def add(self, index: int, size: int, time_s: float) -> None:
        """Count a frame: its index, its appended bytes, and when it was made."""
        self.size += size
        if self._buckets and time_s - self._buckets[-1].time_s < BUCKET_S:
            bucket = self._buckets[-1]
            bucket.last_index = index
            bucket.size += size
        else:
            self._buckets.append(_Bucket(time_s, index, size))

    def cover(self, safe_index: int) -> None:
        """Forget frames below ``safe_index``: long-term storage has all that they brought."""
        while self._buckets and self._buckets[0].last_index < safe_index:
            self.size -= self._buckets.popleft().size

    def since(self, now_s: float) -> float:
        """When the oldest frame that counts was made; ``now_s`` when there is none."""
        return self._buckets[0].time_s if self._buckets else now_s
