"""An end to every answer to the SDK, which has timeouts for silence alone."""

from __future__ import annotations

from typing import Any

from siltstone.core.remote.timed_answers import TimedAnswers, TimedSocket, timed_pools


class _Timed(TimedAnswers):
    sock: Any

    def _handle_expect_response(self, message_body: Any) -> None:
        """The SDK itself reads whether it shall continue with the body of a request."""
        connection = self.sock
        timed = self.sock = TimedSocket(connection, self.answer_s)
        try:
            super()._handle_expect_response(message_body)  # type: ignore[misc]
        finally:
            if self.sock is timed:  # else it was closed
                self.sock = connection


def time_answers(client: Any, seconds: float) -> None:
    """Give each answer to a client this long, and a second more for each MiB of it."""
    pools = client._endpoint.http_session._pool_classes_by_scheme
    pools.update(timed_pools(pools, seconds, _Timed))
