"""Brokers that are not there, are silent, or talk nonsense: every call ends, with a reason."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

import siltstone
from services.kafka import Kafka
from siltstone.core.errors import CapabilityError, ClosedError, LogError, OutcomeUnknownError
from siltstone.tier1.kafka.fenced_log import KafkaFencedLog
from tests.faults.kafka.log_case import LINEAGE
from tests.faults.kafka.stub_broker import (
    API_VERSIONS,
    METADATA,
    Answer,
    metadata,
    stub_broker,
    versions,
)
from tests.support.services.kafka_services import CONTAINER, new_topic, options_of, settings_of

DEADLINE_S = 0.5
ENDS_S = 120.0
"""Far above the deadline, for a machine that is busy; far below what waits for ever."""

CALLS: dict[str, Callable[[KafkaFencedLog], object]] = {
    "claim": lambda log: log.claim(
        lineage=LINEAGE, new=True, above=0, takeover=False, owner="first"
    ),
    "newest_epoch": lambda log: log.newest_epoch(),
    "holder": lambda log: log.holder(),
    "read": lambda log: log.open_read().end(),
    "fence_all": lambda log: log.fence_all(),
    "set_aside": lambda log: log.set_aside(),
}


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """It takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


@pytest.fixture
def nonsense() -> Iterator[socket.socket]:
    """It answers whatever it is sent with the head of an HTTP answer."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                with client, suppress(OSError):
                    client.recv(4096)
                    client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    thread = threading.Thread(target=serve)
    thread.start()
    yield listener
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(ENDS_S)


def ends_with_a_reason(port: int, name: str) -> None:
    settings = settings_of(f"127.0.0.1:{port}", "topic", deadline_s=DEADLINE_S)
    with closing(KafkaFencedLog(settings, CONTAINER)) as log:
        begun = time.monotonic()
        with pytest.raises(LogError, match="topic=topic-3"):
            CALLS[name](log)
        assert time.monotonic() - begun < ENDS_S


@pytest.mark.parametrize("name", CALLS)
def test_a_broker_that_is_silent(silent: socket.socket, name: str) -> None:
    ends_with_a_reason(silent.getsockname()[1], name)


@pytest.mark.parametrize("name", ["claim", "read"])
def test_a_broker_that_is_not_there(silent: socket.socket, name: str) -> None:
    port = silent.getsockname()[1]
    silent.close()
    ends_with_a_reason(port, name)


@pytest.mark.parametrize("name", ["claim", "read"])
def test_a_server_of_something_else(nonsense: socket.socket, name: str) -> None:
    ends_with_a_reason(nonsense.getsockname()[1], name)


def old_broker(port: int) -> Answer:
    """One of a time before topics were described and frames counted."""

    def answer(kind: int, version: int, rest: bytes) -> bytes | None:
        if kind == API_VERSIONS:
            return versions({0: 2, 1: 2, 2: 1, METADATA: 1, API_VERSIONS: 0}, version)
        if kind == METADATA:
            return metadata(port, b"topic-3" if b"topic-3" in rest else b"")
        return None

    return answer


def babbler(port: int) -> Answer:
    """One whose answers are of the right length and mean nothing, once it is known."""
    honest = old_broker(port)

    def answer(kind: int, version: int, rest: bytes) -> bytes | None:
        if kind == API_VERSIONS:
            return versions({METADATA: 1, 32: 0, API_VERSIONS: 0}, version)
        if b"topic-3" in rest:
            return b"\xff" * 30
        return honest(kind, version, rest)

    return answer


def test_a_broker_that_is_too_old() -> None:
    with stub_broker(old_broker) as port:
        settings = settings_of(f"127.0.0.1:{port}", "topic", deadline_s=ENDS_S)
        with closing(KafkaFencedLog(settings, CONTAINER)) as log:
            begun = time.monotonic()
            with pytest.raises(CapabilityError, match=r"too old: Kafka 2\.4 or newer is needed"):
                CALLS["claim"](log)
            assert time.monotonic() - begun < ENDS_S


@pytest.mark.parametrize("name", ["claim", "holder", "read"])
def test_a_broker_whose_answers_mean_nothing(name: str) -> None:
    with stub_broker(babbler) as port:
        ends_with_a_reason(port, name)


def test_a_name_that_is_no_host() -> None:
    settings = settings_of("nowhere.invalid:9092", "topic", deadline_s=DEADLINE_S)
    with closing(KafkaFencedLog(settings, CONTAINER)) as log, pytest.raises(LogError):
        log.holder()


def test_a_store_opens_again_when_the_broker_is_back(
    new_kafka: Kafka, kafka_plugin: None, tmp_path: Path
) -> None:
    options = options_of(
        new_kafka.endpoint, new_topic(), servers=new_kafka.endpoint, deadline_s=2.0
    )
    file = siltstone.init(tmp_path / "store", log="kafka", log_options=options)
    with siltstone.open(file) as store:
        segment = store.create("a")
        segment.append(b"before")
        new_kafka.kill()
        with pytest.raises((OutcomeUnknownError, ClosedError)):
            segment.append(b"?")
        new_kafka.start()
        until, unknown = time.monotonic() + ENDS_S, 0
        while True:
            try:
                segment.append(b";")
                break
            except (OutcomeUnknownError, ClosedError) as error:
                assert time.monotonic() < until
                unknown += isinstance(error, OutcomeUnknownError)
                time.sleep(0.05)
        found = segment.read(0, 100)
        assert re.fullmatch(rb"before\??;{1,%d}" % (unknown + 1), found)
