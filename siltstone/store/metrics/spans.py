"""Spans of OpenTelemetry, if its SDK is installed: traces of an application show storage."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import Any


class Spans:
    """Makes spans with the tracer that the application set up.

    Args:
        tracer: of OpenTelemetry.
        wall: seconds since 1970.
    """

    def __init__(self, tracer: Any, wall: Callable[[], float]) -> None:
        self._tracer = tracer
        self._wall = wall

    def around(self, name: str, **facts: str | int) -> AbstractContextManager[Any]:
        """Return a span that is the parent of what begins inside; it notes an error that leaves."""
        found: AbstractContextManager[Any] = self._tracer.start_as_current_span(
            name, attributes=_attributes(facts)
        )
        return found

    def ended(self, name: str, seconds: float, **facts: str | int) -> None:
        """Note what ended now and took ``seconds``, below the span of its caller."""
        end_ns = int(self._wall() * 1e9)
        start_ns = end_ns - int(seconds * 1e9)
        span = self._tracer.start_span(name, attributes=_attributes(facts), start_time=start_ns)
        span.end(end_time=end_ns)


def find_spans(wall: Callable[[], float]) -> Spans | None:
    """Return spans of this process's tracer; ``None`` where no SDK is installed."""
    try:
        if find_spec("opentelemetry.sdk") is None:
            return None
    except ModuleNotFoundError:
        return None
    from opentelemetry import trace

    return Spans(trace.get_tracer("siltstone"), wall)


def _attributes(facts: dict[str, str | int]) -> dict[str, str | int]:
    return {f"siltstone.{name}": value for name, value in facts.items()}
