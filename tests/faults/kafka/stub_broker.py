"""A broker of a few lines, whose answers are what a test says."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

METADATA = 3
API_VERSIONS = 18
UNSUPPORTED_VERSION = 35
ENDS_S = 120.0

Answer = Callable[[int, int, bytes], bytes | None]
"""Takes kind and version of a request and what follows its head; returns the body of the answer."""


@contextmanager
def stub_broker(answer: Callable[[int], Answer]) -> Iterator[int]:
    """Serve one connection after another with ``answer(port)``; yield the port."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                with client, suppress(OSError):
                    _converse(client, answer(port))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield port
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(ENDS_S)


def _converse(client: socket.socket, answer: Answer) -> None:
    client.settimeout(ENDS_S)
    while head := client.recv(4, socket.MSG_WAITALL):
        (length,) = struct.unpack(">i", head)
        request = client.recv(length, socket.MSG_WAITALL)
        kind, version, number = struct.unpack_from(">hhi", request)
        body = answer(kind, version, request[8:])
        if body is None:
            return
        client.sendall(struct.pack(">ii", len(body) + 4, number) + body)


def versions(known: dict[int, int], version: int) -> bytes:
    """The answer of an old broker to a question for versions: up to which it knows each kind."""
    error = UNSUPPORTED_VERSION if version else 0
    listed = b"".join(struct.pack(">hhh", kind, 0, most) for kind, most in known.items())
    return struct.pack(">hi", error, len(known)) + listed


def metadata(port: int, topic: bytes = b"") -> bytes:
    """Version 1 of where the one broker is, and that a topic is not there."""
    host = b"127.0.0.1"
    broker = struct.pack(">ih", 1, len(host)) + host + struct.pack(">ih", port, -1)
    unknown = struct.pack(">hh", 3, len(topic)) + topic + struct.pack(">?i", False, 0)
    topics = struct.pack(">i", 1) + unknown if topic else struct.pack(">i", 0)
    return struct.pack(">i", 1) + broker + struct.pack(">i", 1) + topics
