"""Metrics that keep what they are told."""

from __future__ import annotations

from collections import Counter, defaultdict

from siltstone.core.metrics import Metric, Metrics


class Recorder(Metrics):
    """Keeps every measurement as it came."""

    enabled = True

    def __init__(self) -> None:
        self.sums: Counter[tuple[str, ...]] = Counter()
        self.now: dict[tuple[str, ...], float] = {}
        self.values: defaultdict[str, list[float]] = defaultdict(list)

    def add(self, metric: Metric, amount: float, *labels: str) -> None:
        assert amount >= 0, "a counter only grows"
        self.sums[metric.name, *labels] += int(amount)

    def set(self, metric: Metric, value: float, *labels: str) -> None:
        self.now[metric.name, *labels] = value

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        self.values[metric.name].append(value)
