"""How errors of the client become errors of the log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kafka import errors as kafka_errors

from siltstone.core.errors import CapabilityError, LogError, SiltstoneError
from siltstone.core.remote.deadline import DeadlineError


class TlsError(kafka_errors.KafkaError):  # type: ignore[misc]
    """No connection with TLS, and none that a second attempt would make."""

    retriable = False


ADVICE = (
    (TlsError, "look at ca_bundle, certificate and insecure, and at the host names in servers"),
    (kafka_errors.UnsupportedSaslMechanismError, "look at mechanism"),
    (kafka_errors.IllegalSaslStateError, "the broker takes no credentials on this port"),
    (kafka_errors.SaslAuthenticationFailedError, "look at username, password and mechanism"),
    (
        kafka_errors.TopicAuthorizationFailedError,
        "the user needs READ, WRITE, DESCRIBE, DESCRIBE_CONFIGS and DELETE on the topic",
    ),
    (
        kafka_errors.GroupAuthorizationFailedError,
        "the user needs READ on the consumer group of the topic's name",
    ),
    (
        kafka_errors.ClusterAuthorizationFailedError,
        "the user needs WRITE on the topic, and IDEMPOTENT_WRITE where brokers are before 3.0",
    ),
    (kafka_errors.UnsupportedVersionError, "the broker is too old: Kafka 2.4 or newer is needed"),
)


@contextmanager
def translated(operation: str, topic: str, servers: str) -> Iterator[None]:
    """Turn errors of the client into ``LogError``, whose outcome is unknown; all of them.

    ``servers`` are those of the settings, for people.
    """
    try:
        yield
    except (SiltstoneError, ValueError, TypeError):
        raise
    except Exception as error:
        raise log_error(operation, topic, servers, error) from error


@contextmanager
def refusals(topic: str, servers: str) -> Iterator[None]:
    """Turn what no second try would change into ``CapabilityError``, which says what would.

    For calls that change nothing.
    """
    try:
        yield
    except tuple(kind for kind, _ in ADVICE) as error:
        raise CapabilityError(
            "the broker refused",
            topic=topic,
            servers=servers,
            reason=reason(error),
            advice=_advice(error),
        ) from error


def log_error(operation: str, topic: str, servers: str, error: Exception) -> LogError:
    """Return the error of the contract for one of the client."""
    if isinstance(error, DeadlineError):
        return LogError(
            "the log did not answer in time", operation=operation, topic=topic, servers=servers
        )
    return LogError(
        "Kafka log failed",
        operation=operation,
        topic=topic,
        servers=servers,
        reason=reason(error),
        advice=_advice(error),
    )


def deleted(topic: str, start: int) -> LogError:
    """The error of an owner that did not delete what is gone."""
    return LogError("records were deleted by another program", topic=topic, start=start)


def _advice(error: Exception) -> str | None:
    if isinstance(error, kafka_errors.KafkaConnectionError) and "Handshake failed" in str(error):
        return "the broker may speak no TLS on this port: look at servers and insecure"
    if isinstance(error, kafka_errors.InvalidReplicationFactorError):
        return "there are fewer brokers than copies: for a trial on one set single_broker"
    if isinstance(error, kafka_errors.KafkaConnectionError):
        return "look at servers, and whether a broker runs there"
    return next((advice for kind, advice in ADVICE if isinstance(error, kind)), None)


def reason(error: Exception) -> str:
    """What happened, for people; it contains no secret."""
    text = str(error)
    name = type(error).__name__
    return repr(text if name in text else f"{name}: {text}")
