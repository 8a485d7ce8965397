"""A relay that knows the requests of Kafka, and does harm to those that a test names."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from enum import Enum

from siltstone.testing.faults.tcp_relay import TcpRelay

PRODUCE = 0
FETCH = 1
DELETE_RECORDS = 21
WAIT_S = 60.0


class Harm(Enum):
    """What happens to a request. ``HOLD``: it is sent on when ``release_held`` is called."""

    CUT_BEFORE = "the connection is reset, and the broker never sees it"
    CUT_AFTER = "the broker answers, and the connection is reset instead"
    SWALLOW = "the broker answers, and nothing more is heard on this connection"
    HOLD = "it waits"


class KafkaRelay(TcpRelay):
    """Passes requests on one by one. ``upstream`` is set when the broker runs.

    Attributes:
        tls: what clients are spoken to with; ``None`` for none. The broker speaks none.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 1))
        self._guard = threading.Lock()
        self._harms: list[tuple[int, Harm]] = []
        self._released = threading.Event()
        self.is_holding = threading.Event()
        self.done: list[Harm] = []
        self.tls: ssl.SSLContext | None = None

    def harm(self, api_key: int, *harms: Harm) -> None:
        """Let the next requests of this kind come to harm, one each."""
        with self._guard:
            self._harms += [(api_key, harm) for harm in harms]

    def reset_harms(self) -> None:
        """Forget what was asked for and has not happened."""
        with self._guard:
            self._harms, self.done = [], []
        self._released.clear()
        self.is_holding.clear()

    def release_held(self) -> None:
        """Let what is held continue."""
        self._released.set()

    def serve(self, client: socket.socket) -> None:
        """Serve one connection; see ``TcpRelay``."""
        if self.tls is None:
            self._relay(client)
        else:
            with self.tls.wrap_socket(client, server_side=True) as secured:
                self._relay(secured)

    def _relay(self, client: socket.socket) -> None:
        server = self.connect()
        try:
            while request := _message(client):
                harm = self._harm_of(struct.unpack_from(">h", request, 4)[0])
                if harm is Harm.CUT_BEFORE:
                    self.reset(client)
                    return
                if harm is Harm.HOLD:
                    self.is_holding.set()
                    self._released.wait(WAIT_S)
                server.sendall(request)
                answer = _message(server)
                if harm is Harm.CUT_AFTER or not answer:
                    self.reset(client)
                    return
                if harm is Harm.SWALLOW:
                    while client.recv(1 << 16):
                        pass
                    return
                client.sendall(answer)
        finally:
            self.release(server)

    def _harm_of(self, api_key: int) -> Harm | None:
        with self._guard:
            for place, (key, harm) in enumerate(self._harms):
                if key == api_key:
                    del self._harms[place]
                    self.done.append(harm)
                    return harm
        return None


def _message(used: socket.socket) -> bytes:
    """A whole message with its length before it; nothing when the other end is through."""
    head = _exactly(used, 4)
    if len(head) < 4:
        return b""
    return head + _exactly(used, struct.unpack(">i", head)[0])


def _exactly(used: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = used.recv(min(count - len(parts), 1 << 20))
        if not part:
            return bytes(parts) if not parts else b""
        parts += part
    return bytes(parts)
