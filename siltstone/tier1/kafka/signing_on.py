"""The connections of a client: why one could not be made is known, and what no try would change."""

from __future__ import annotations

import socket
import ssl
from typing import Any, Final

from kafka import errors as kafka_errors
from kafka.net.connection import KafkaConnection
from kafka.net.manager import KafkaConnectionManager

from siltstone.tier1.kafka.errors import TlsError

NO_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST"})
"""What OpenSSL says of a port that speaks something else."""
REFUSALS: Final = (
    TlsError,
    kafka_errors.SaslAuthenticationFailedError,
    kafka_errors.UnsupportedSaslMechanismError,
    kafka_errors.IllegalSaslStateError,
)


class Connections(KafkaConnectionManager):  # type: ignore[misc]
    """Ends its search for a first broker when all of them refuse, which it would repeat otherwise.

    Attributes:
        failure: of the newest connection that failed; ``None`` without any.
    """

    def __init__(self, net: Any, **options: Any) -> None:
        self.failure: Exception | None = None
        self._refused: dict[Any, Exception] = {}
        super().__init__(net, **options)

    def get_connection(self, node_id: Any, *choices: Any, **more: Any) -> Any:
        """The connection to a node, an attempt to make one included."""
        first = [node.node_id for node in self.cluster.bootstrap_brokers()]
        if node_id in first and all(node in self._refused for node in first):
            raise self._refused[node_id]
        known = self._conns.get(node_id)
        connection = super().get_connection(node_id, *choices, **more)
        if connection is not known:
            connection.init_future.add_errback(lambda error: self._failed(node_id, error))
            connection.close_future.add_errback(lambda error: self._failed(node_id, error))
        return connection

    def _failed(self, node_id: Any, error: Exception) -> None:
        self.failure = error
        if isinstance(error, REFUSALS):
            self._refused[node_id] = error

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        try:
            transport = await super()._build_transport(node, timeout_at=timeout_at)
        except BaseException as error:
            _close_sockets(error)
            cause = error if isinstance(error, ssl.SSLError) else error.__context__
            if isinstance(cause, ssl.SSLError) and _is_final(error, cause):
                raise TlsError(_told(cause)) from error
            raise
        _hear_last_words(transport)
        return transport

    async def signed_on(self, node: int) -> Any:
        """Make one more connection to a broker, which is for the caller, and sign on."""
        broker = self.cluster.broker_metadata(node)
        if broker is None:
            raise kafka_errors.UnknownBrokerIdError(node)
        connection = KafkaConnection(
            self._net, node_id=node, broker_version_data=self.broker_version_data, **self.config
        )
        connection.connection_made(await self._build_transport(broker))
        await connection.initialize()
        return await connection


def _hear_last_words(transport: Any) -> None:
    """Let what came ahead of the end be read, such as why credentials are refused."""
    receive = transport._sock_recv
    ends: list[Exception] = []

    def received() -> tuple[bytes, Exception | None]:
        if ends:
            return b"", ends[0]
        data, end = receive()
        if data and end is not None:
            ends.append(end)
            end = None
        return data, end

    transport._sock_recv = received


def _is_final(error: BaseException, cause: ssl.SSLError) -> bool:
    """Whether a later attempt would end like this one: our files are wrong, or their answer is."""
    wrong = isinstance(cause, ssl.SSLCertVerificationError) or cause.reason in NO_TLS
    return wrong or error is cause


def _told(cause: ssl.SSLError) -> str:
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"the certificate of the broker was not accepted: {cause.verify_message}"
    if cause.reason in NO_TLS:
        return "the broker does not speak TLS on this port"
    return f"the certificates cannot be used: {cause.reason or cause}"


def _close_sockets(error: BaseException) -> None:
    """Close those of an attempt to connect that failed, which would stay open for a while."""
    trace = error.__traceback__
    while trace is not None:
        found = trace.tb_frame.f_locals
        for used in (found.get("sock"), getattr(found.get("transport"), "_sock", None)):
            if isinstance(used, socket.socket):
                used.close()
        trace = trace.tb_next
