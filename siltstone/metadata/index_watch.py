"""What look-ups in the local index are like: how long they take, and what its cache has."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from siltstone.core.metrics import INDEX_LOOK_UP, Metrics


class IndexWatch:
    """Gives each look-up to the metrics.

    Args:
        metrics: takes them.
        clock: monotonic seconds.

    Attributes:
        clock: see above.
    """

    def __init__(self, metrics: Metrics, clock: Callable[[], float]) -> None:
        self._metrics = metrics
        self.clock = clock

    def ended(self, kind: str, begun: float) -> None:
        """A look-up ended that began at ``begun``: a ``get`` of one row or a ``scan``."""
        self._metrics.observe(INDEX_LOOK_UP, self.clock() - begun, kind)


class CacheCounts(NamedTuple):
    """Blocks that look-ups asked for: found in the cache, and read from files."""

    hits: int
    misses: int


def cache_counts(statistics: str) -> CacheCounts:
    """Find the counts of the block cache in the statistics of RocksDB; 0 where there are none."""
    found = {}
    for line in statistics.splitlines():
        name, _, count = line.partition(" COUNT : ")
        found[name] = count
    hits, misses = (found.get(f"rocksdb.block.cache.{word}", "0") for word in ("hit", "miss"))
    return CacheCounts(int(hits), int(misses))
