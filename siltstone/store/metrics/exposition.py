"""The metrics of this process over HTTP, for a Prometheus that fetches them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from threading import Thread

from siltstone.core.environment import Environment
from siltstone.core.errors import SettingsError
from siltstone.core.metrics import NO_METRICS, Metrics
from siltstone.core.packages import install_hint

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    """What is measured, and where it is shown.

    Attributes:
        enabled: measure at all.
        port: of the HTTP server; ``None`` for none.
        address: where it listens.
    """

    enabled: bool = False
    port: int | None = None
    address: str = "127.0.0.1"


def container_metrics(
    settings: MetricsSettings, store: str, container: int | str, environment: Environment
) -> Metrics:
    """Return where the measurements of a container go.

    Raises:
        SettingsError: they are on, and what keeps them is not installed.
    """
    if not settings.enabled:
        return NO_METRICS
    try:
        from siltstone.store.metrics.prometheus_metrics import PrometheusMetrics
    except ImportError as error:
        raise SettingsError(f"metrics.enabled: {error}; try: {install_hint('metrics')}") from error
    from siltstone.store.metrics.spans import find_spans

    clock, spans = environment.monotonic, find_spans(environment.time)
    return PrometheusMetrics(store, container, clock, spans)


def expose(settings: MetricsSettings) -> Callable[[], None]:
    """Show the metrics of this process, if a port is set; return what ends that.

    A port that is taken is reported in the log and harms nothing else: another process of this
    machine may use the same settings.
    """
    if not settings.enabled or settings.port is None:
        return lambda: None
    from prometheus_client import start_http_server

    try:
        server, thread = start_http_server(settings.port, addr=settings.address)
    except OSError as error:
        logger.warning(
            "metrics are not shown: address=%s port=%d %s",
            settings.address,
            settings.port,
            error.strerror or error,
        )
        return lambda: None

    def end() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    # The server looks for its end twice a second, and the loop must not wait for that.
    return Thread(target=end, name="siltstone-metrics-end").start
