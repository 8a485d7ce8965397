"""The error of a service that asks for fewer requests, apart from those that mean no answer."""

from __future__ import annotations

from typing import Any

from siltstone.core.errors import ChunkUnavailableError, Outcome


class ChunkThrottledError(ChunkUnavailableError):
    """The service answered that it gets too many requests: send fewer, and this one again later.

    Attributes:
        retry_after_s: seconds that the service asks to wait; ``None`` where it does not say.
    """

    def __init__(
        self,
        message: str,
        *,
        chunk: str,
        operation: str,
        outcome: Outcome = Outcome.NOT_APPLIED,
        retry_after_s: float | None = None,
        **facts: Any,
    ) -> None:
        super().__init__(
            message,
            chunk=chunk,
            operation=operation,
            outcome=outcome,
            retry_after_s=retry_after_s,
            **facts,
        )
        self.retry_after_s = retry_after_s
