"""Metrics for Prometheus, and spans for OpenTelemetry where its SDK is installed.

The extra ``metrics`` brings ``prometheus-client``. Nothing here is imported while metrics are off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final
from weakref import WeakKeyDictionary

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from siltstone.core.constants import KIB
from siltstone.core.metrics import (
    METRICS,
    OPERATION,
    OPERATION_BYTES,
    OPERATION_RATE,
    RATE_BYTES_MIN,
    Metric,
    MetricKind,
    Metrics,
    Scale,
)
from siltstone.store.metrics.spans import Spans

BUCKETS_S: Final = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0,
)  # fmt: skip
LOOK_UP_BUCKETS_S: Final = (
    0.000002, 0.000005, 0.00001, 0.00002, 0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005,
    0.01, 0.05, 0.25,
)  # fmt: skip
RATE_BUCKETS: Final = tuple(float(4**power * 64 * KIB) for power in range(9))
"""From 64 KiB to 4 GiB a second."""

BUCKETS: Final = {
    Scale.CALLS: BUCKETS_S,
    Scale.LOOK_UPS: LOOK_UP_BUCKETS_S,
    Scale.RATES: RATE_BUCKETS,
}

Instrument = Counter | Gauge | Histogram

_instruments: WeakKeyDictionary[CollectorRegistry, dict[Metric, Instrument]] = WeakKeyDictionary()


def instruments(registry: CollectorRegistry) -> dict[Metric, Instrument]:
    """Return the instruments of all metrics; a registry has them once, for all stores."""
    found = _instruments.get(registry)
    if found is None:
        found = _instruments[registry] = {metric: _made(metric, registry) for metric in METRICS}
    return found


def _made(metric: Metric, registry: CollectorRegistry) -> Instrument:
    labels = ("store", "container", *metric.labels)
    if metric.kind is MetricKind.COUNTER:
        return Counter(metric.name, metric.text, labels, registry=registry)
    if metric.kind is MetricKind.GAUGE:
        return Gauge(metric.name, metric.text, labels, registry=registry)
    buckets = BUCKETS[metric.scale]
    return Histogram(metric.name, metric.text, labels, registry=registry, buckets=buckets)


class PrometheusMetrics(Metrics):
    """Keeps the measurements of one container, or of the collections, in a registry.

    Args:
        store: uuid of the store.
        container: its index, or ``collections``.
        clock: monotonic seconds.
        spans: where traces go; ``None`` without an SDK.
        registry: the process's own unless another one is given.
    """

    enabled = True

    def __init__(
        self,
        store: str,
        container: int | str,
        clock: Callable[[], float],
        spans: Spans | None = None,
        registry: CollectorRegistry = REGISTRY,
    ) -> None:
        self._owner = (store, str(container))
        self._clock = clock
        self._spans = spans
        self._instruments = instruments(registry)
        self._gauges: set[tuple[Metric, tuple[str, ...]]] = set()

    def add(self, metric: Metric, amount: float, *labels: str) -> None:
        """See ``Metrics.add``."""
        counter = self._instruments[metric]
        assert isinstance(counter, Counter), metric.name
        counter.labels(*self._owner, *labels).inc(amount)

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        """See ``Metrics.observe``."""
        histogram = self._instruments[metric]
        assert isinstance(histogram, Histogram), metric.name
        histogram.labels(*self._owner, *labels).observe(value)

    def set(self, metric: Metric, value: float, *labels: str) -> None:
        """See ``Metrics.set``."""
        gauge = self._instruments[metric]
        assert isinstance(gauge, Gauge), metric.name
        gauge.labels(*self._owner, *labels).set(value)
        self._gauges.add((metric, labels))

    @contextmanager
    def span(self, name: str, **facts: str | int) -> Iterator[None]:
        """See ``Metrics.span``."""
        if self._spans is None:
            yield
            return
        with self._spans.around(name, container=self._owner[1], **facts):
            yield

    def ended(self, name: str, seconds: float, **facts: str | int) -> None:
        """See ``Metrics.ended``."""
        if self._spans is not None:
            self._spans.ended(name, seconds, container=self._owner[1], **facts)

    @contextmanager
    def timed(self, operation: str, *, segments: str = "user", length: int = 0) -> Iterator[None]:
        """See ``Metrics.timed``."""
        start = self._clock()
        try:
            with self.span(f"siltstone.{operation}", segments=segments):
                yield
        finally:
            took_s = self._clock() - start
            self.observe(OPERATION, took_s, operation, segments)
        if length:
            self.add(OPERATION_BYTES, length, operation, segments)
        if length >= RATE_BYTES_MIN and took_s > 0:
            self.observe(OPERATION_RATE, length / took_s, operation, segments)

    def close(self) -> None:
        """See ``Metrics.close``: gauges go, counters and histograms stay."""
        for metric, labels in self._gauges:
            with suppress(KeyError):
                self._instruments[metric].remove(*self._owner, *labels)
        self._gauges.clear()
