"""A proxy between a client and an HTTP server; a script says what goes wrong in it.

It takes in each request whole, and each answer, before it passes on anything; so whether the server
saw a request, and whether it answered before a fault, is certain and not a matter of timing. Bytes
go through unchanged: signatures hold, since the client signs the address of the proxy. TLS does
not go through.
"""

from __future__ import annotations

import re
import socket
from contextlib import suppress
from dataclasses import dataclass

from siltstone.testing.faults.http_faults import (
    Answer,
    Fault,
    FlippedAnswer,
    FlippedRequest,
    HalfAnswer,
    HalfRequest,
    Hang,
    Plan,
    Reset,
    Rule,
    Trickle,
)
from siltstone.testing.faults.http_messages import (
    Message,
    MessageReader,
    canned_answer,
    with_flipped_byte,
)
from siltstone.testing.faults.tcp_relay import TcpRelay


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request that came from the client, whole.

    Attributes:
        method: of HTTP.
        target: path and query.
        body_bytes: length of its body, as it was sent.
        fault: what happened to it; ``None`` for nothing.
    """

    method: str
    target: str
    body_bytes: int
    fault: Fault | None


class FaultProxy(TcpRelay):
    """Passes requests on, but for those that the plan is about.

    Args:
        upstream: host and port of the server.
    """

    def __init__(self, upstream: tuple[str, int]) -> None:
        self._plan = Plan()
        self._requests: list[Request] = []
        super().__init__(upstream)

    @property
    def endpoint(self) -> str:
        """Its URL."""
        return f"http://{self.address}"

    @property
    def requests(self) -> tuple[Request, ...]:
        """All requests since the beginning, or since ``forget``, in the order of their arrival."""
        with self._lock:
            return tuple(self._requests)

    @property
    def is_used_up(self) -> bool:
        """Whether every fault of the plan has happened."""
        return self._plan.is_used_up

    def plan(self, *rules: Rule) -> None:
        """Follow these rules from now on, and no others."""
        self._plan = Plan(*rules)

    def count(self, method: str = "", target: str = "") -> int:
        """How many requests there were with this method, and this pattern in path and query."""
        return sum(
            method in ("", request.method) and re.search(target, request.target) is not None
            for request in self.requests
        )

    def forget(self) -> None:
        """Forget the requests so far."""
        with self._lock:
            self._requests.clear()

    def serve(self, client: socket.socket) -> None:
        """Serve one connection: a request, its answer or its fault, and so on."""
        reader = MessageReader(client)
        goes_on = True
        while goes_on:
            request = reader.request()
            if request is None:
                return
            method, target, _ = request.first_line
            fault = self._plan.next_fault(method, target)
            seen = Request(method=method, target=target, body_bytes=len(request.body), fault=fault)
            with self._lock:
                self._requests.append(seen)
            goes_on = self._handle(client, request, method, fault)

    def _handle(
        self, client: socket.socket, request: Message, method: str, fault: Fault | None
    ) -> bool:
        """Give the client what it is to get; return whether its connection continues."""
        match fault:
            case Reset(after_effect=False):
                self.reset(client)
                return False
            case HalfRequest():
                self._send_half(request)
                self.reset(client)
                return False
            case Hang(after_effect=False):
                _wait_for_end(client)
                return False
            case Answer(after_effect=False):
                return _give(client, _made_up(fault, method))
            case FlippedRequest():
                request = with_flipped_byte(request)
            case _:
                pass
        try:
            answer = self._ask(request, method)
        except OSError:
            # As if there were no proxy: the server is not there, or gave no whole answer.
            self.reset(client)
            return False
        return self._answer(client, answer, method, fault)

    def _answer(
        self, client: socket.socket, answer: Message, method: str, fault: Fault | None
    ) -> bool:
        """Pass on what the server answered, or what becomes of it on its way."""
        match fault:
            case Reset():
                self.reset(client)
                return False
            case Hang():
                _wait_for_end(client)
                return False
            case Answer():
                return _give(client, _made_up(fault, method))
            case HalfAnswer():
                client.sendall(_half(answer))
                return False
            case FlippedAnswer():
                return _give(client, with_flipped_byte(answer))
            case Trickle(block_bytes=size, pause_s=pause):
                content = answer.head + answer.body
                for start in range(0, len(content), size):
                    if self._closing.wait(pause):
                        return False
                    client.sendall(content[start : start + size])
                return not answer.is_last
            case _:
                return _give(client, answer)

    def _ask(self, request: Message, method: str) -> Message:
        """Ask the server, on a connection of its own, so that none is ever found to be stale."""
        server = self.connect()
        try:
            # A server may refuse a body that it has not read, and say so.
            with suppress(OSError):
                server.sendall(request.head + request.body)
            return MessageReader(server).answer(method)
        finally:
            self.release(server)

    def _send_half(self, request: Message) -> None:
        with suppress(OSError):
            server = self.connect()
            try:
                server.sendall(_half(request))
            finally:
                self.release(server)


def _half(message: Message) -> bytes:
    if not message.body:
        return message.head[: len(message.head) // 2]
    return message.head + message.body[: len(message.body) // 2]


def _made_up(fault: Answer, method: str) -> Message:
    return canned_answer(fault.status, fault.headers, fault.body, method=method)


def _give(client: socket.socket, answer: Message) -> bool:
    client.sendall(answer.head + answer.body)
    return not answer.is_last


def _wait_for_end(client: socket.socket) -> None:
    """Wait until the client closes, and take in what it sends until then."""
    while client.recv(1 << 16):
        pass
