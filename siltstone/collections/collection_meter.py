"""What one process measures of one collection. Costs a few additions for each entry."""

from __future__ import annotations

from siltstone.core import metrics as m
from siltstone.core.records.collection_state import CollectionState


class CollectionMeter:
    """Counts what this process does, and shows how much the newest known state has.

    Args:
        metrics: where it goes.
        collection_id: 16 bytes.
    """

    def __init__(self, metrics: m.Metrics, collection_id: bytes) -> None:
        self._metrics = metrics
        self._label = collection_id.hex()

    def count(self, metric: m.Metric, amount: int = 1) -> None:
        """Let a counter of collections grow."""
        self._metrics.add(metric, amount, self._label)

    def show(self, state: CollectionState) -> None:
        """Set the gauges to what this state has."""
        if self._metrics.enabled:
            self._metrics.set(m.COLLECTION_BATCHES, len(state.batches.items), self._label)
            self._metrics.set(m.COLLECTION_PARTS, state.batches.part_count, self._label)
