"""A port without TLS, as of a broker without it: the error says what to look at."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from siltstone.core.errors import LogError
from siltstone.tier1.kafka.fenced_log import KafkaFencedLog
from siltstone.tier1.kafka.settings import KafkaLogSettings


@pytest.fixture(params=[1, 1 << 16], ids=["reset", "ended"])
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    """Ends each connection after it has read a part or all of the request, like a broker."""
    heard: int = request.param
    listener = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(heard)

    thread = threading.Thread(target=answer)
    thread.start()
    yield int(listener.getsockname()[1])
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def told(port: int, deadline_s: float) -> str:
    """The error of a look at the log."""
    settings = KafkaLogSettings(servers=[f"127.0.0.1:{port}"], topic="t", deadline_s=deadline_s)
    log = KafkaFencedLog(settings, 0)
    with pytest.raises(LogError) as caught:
        log.newest_epoch()
    log.close()
    return str(caught.value)


def test_a_port_without_tls_is_told(port: int) -> None:
    """A paused machine gets no answer before a deadline, so longer ones are tried."""
    answers = (told(port, 0.5 * 2**doubled) for doubled in range(8))
    assert any("may speak no TLS on this port: look at servers" in answer for answer in answers)
