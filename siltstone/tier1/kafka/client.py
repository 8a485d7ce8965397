"""One client of Kafka: its connections, its thread, and the end of each call.

The parts of kafka-python below its producer and consumer: connections, sign-on, and the codecs of
requests. What is repeated, and with which bytes, is decided by the caller.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from kafka import errors as kafka_errors
from kafka.net.selector import NetworkSelector

from siltstone.core.constants import MIB
from siltstone.core.remote.deadline import Deadline, DeadlineError
from siltstone.tier1.kafka.signing_on import Connections

CLIENT_ID: Final = "siltstone"
ANSWER_BYTES_MAX: Final = 64 * MIB
ATTEMPT_S: Final = 5.0
"""A broker that is silent for this long is asked again, or another one if that leads by now."""
PAUSE_S: Final = 0.005
PAUSE_MAX_S: Final = 0.2
STOP_S: Final = 5.0
SIGNED_ON_SHARE: Final = 0.8
"""Of the time that a signing-on is good for, what is used."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Socket:
    """A connection that was taken out of the client, which closes it at its own end.

    Attributes:
        sock: the connection, signed on, with nothing on its way.
        life_s: seconds that the signing-on is good for; ``None`` when it does not end.
        versions: of requests, that the broker knows.
    """

    sock: socket.socket
    life_s: float | None
    versions: Any


class Client:
    """Thread-safe. After any error it is dropped: nothing may depend on what it thinks.

    Args:
        options: of ``KafkaConnectionManager``, with credentials.
    """

    _taken: list[socket.socket] | None = None
    """``None`` where requests are carried otherwise, and no connection can be taken out."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._net = NetworkSelector(client_id=CLIENT_ID)
        self.manager = Connections(
            self._net,
            client_id=CLIENT_ID,
            reconnect_backoff_ms=20,
            reconnect_backoff_max_ms=500,
            receive_message_max_bytes=ANSWER_BYTES_MAX,
            **options,
        )
        self._taken = []
        self._net.start()
        self._is_ready = False
        self._is_closed = False

    def run(self, call: Callable[[], Awaitable[T]], deadline: Deadline) -> T:
        """Run ``call`` on the client's thread. It ends by the deadline, whatever the client does.

        Raises:
            DeadlineError: it did not end; its effect is unknown.
            Exception: whatever ``call`` raised.
        """
        ended = threading.Event()
        results: list[T] = []
        failures: list[BaseException] = []

        async def work() -> None:
            try:
                if not self._is_ready:
                    await self._find_brokers(deadline)
                    self._is_ready = True
                results.append(await call())
            except GeneratorExit:
                failures.append(kafka_errors.KafkaConnectionError("the client was closed"))
            except (TypeError, AttributeError, LookupError, ValueError, struct.error) as error:
                strange = kafka_errors.KafkaProtocolError(f"an answer that means nothing: {error}")
                strange.__cause__ = error
                failures.append(strange)
            except BaseException as error:  # noqa: BLE001 - the waiting caller gets it
                failures.append(error)
            finally:
                ended.set()

        self._net.call_soon_threadsafe(work)
        # A little more than the deadline, at which what is inside ends by itself.
        if not ended.wait(deadline.left_s() + 0.5):
            raise DeadlineError("the client did not answer")
        if failures:
            raise failures[0]
        return results[0]

    async def _find_brokers(self, deadline: Deadline) -> None:
        left_ms = deadline.left_s() * 1000
        try:
            await self.manager.wait_for(self.manager.bootstrap_async(left_ms), left_ms)
        except kafka_errors.KafkaTimeoutError as error:
            raise (self.manager.failure or error) from error

    async def ask(self, request: Any, node: int | None, deadline: Deadline) -> Any:
        """Send one request, once, and return the answer. Runs on the client's thread."""
        if self._is_closed:
            # Not one that would be repeated: nothing closes a connection that is made from here on.
            raise kafka_errors.IllegalStateError("the client was closed")
        attempt_s = min(deadline.left_s(), ATTEMPT_S)
        sent = self.manager.send(request, node_id=node, request_timeout_ms=attempt_s * 1000)
        return await self.manager.wait_for(sent, attempt_s * 1000)

    async def repeat(self, attempt: Callable[[], Awaitable[T]], deadline: Deadline) -> T:
        """Call ``attempt`` until it succeeds, fails for good, or there is no time."""
        pause_s = PAUSE_S
        while True:
            try:
                return await attempt()
            except kafka_errors.UnknownBrokerIdError as error:
                failure: kafka_errors.KafkaError = error
            except kafka_errors.KafkaError as error:
                if not error.retriable:
                    raise
                failure = error
            try:
                left_s = deadline.left_s()
            except DeadlineError:
                raise failure from None
            await self._net.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, PAUSE_MAX_S)

    def take_socket(self, node: int, deadline: Deadline) -> Socket | None:
        """Connect to a broker, sign on, and take the connection out of the client.

        ``None`` where that is not to be had. Raises like ``run``.
        """
        if self._taken is None:
            return None

        async def take() -> Socket:
            connection = await self.manager.signed_on(node)
            lifetime_ms = connection._reauth.session_lifetime_ms
            transport = connection.transport
            sock, transport._sock = transport._sock, None
            connection.close()
            self._keep(sock)
            return Socket(
                sock=sock,
                life_s=lifetime_ms / 1000 * SIGNED_ON_SHARE if lifetime_ms else None,
                versions=connection.broker_version_data,
            )

        return self.run(take, deadline)

    def _keep(self, sock: socket.socket) -> None:
        """Close it when the client is closed, or at once."""
        assert self._taken is not None, "a client that took a connection"
        self._taken = [one for one in self._taken if one.fileno() >= 0]
        self._taken.append(sock)
        if self._is_closed:
            sock.close()
            raise kafka_errors.IllegalStateError("the client was closed")

    def close(self) -> None:
        """End all connections and the thread. It waits for no broker that does not answer."""
        self._is_closed = True
        for sock in self._taken or ():
            sock.close()
        ended = threading.Event()

        async def end() -> None:
            # With an error where something is on its way, which would be waited for otherwise.
            gone = kafka_errors.KafkaConnectionError("the client was closed")
            for connection in list(self.manager._conns.values()):
                connection.close(gone if connection.in_flight_requests else None)
            self.manager.close()
            ended.set()

        with suppress(Exception):
            self._net.call_soon_threadsafe(end)
            ended.wait(STOP_S)
        with suppress(Exception):
            self._net.stop(STOP_S * 1000)
        with suppress(Exception):
            self._net.close()
