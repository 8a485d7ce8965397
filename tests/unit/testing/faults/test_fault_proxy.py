"""The proxy does what its plan says, and nothing else, to a server of the standard library."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from siltstone.testing.faults import tcp_relay
from siltstone.testing.faults.fault_proxy import FaultProxy
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
from siltstone.testing.faults.tcp_relay import TcpRelay

BODY = bytes(range(256)) * 4


class Keeper(BaseHTTPRequestHandler):
    """Keeps what is put, and returns it; a body that is not whole is not kept."""

    protocol_version = "HTTP/1.1"
    kept: dict[str, bytes]
    lock: threading.Lock

    def do_PUT(self) -> None:
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while length := int(self.rfile.readline(), 16):
                body += self.rfile.read(length + 2)[:-2]
            self.rfile.readline()
        else:
            length = int(self.headers["Content-Length"])
            body = self.rfile.read(length)
            if len(body) < length:
                self.close_connection = True
                return
        with self.lock:
            self.kept[self.path] = body
        self._answer(200, b"kept")

    def do_GET(self) -> None:
        with self.lock:
            body = self.kept.get(self.path)
        self._answer(404 if body is None else 200, body or b"")

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_OLD(self) -> None:
        """An answer that ends with the connection."""
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"until the end")
        self.close_connection = True

    def do_CHUNKS(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"4;x=y\r\nsome\r\n5\r\nthing\r\n0\r\nT: t\r\n\r\n")

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def kept() -> dict[str, bytes]:
    return {}


@pytest.fixture
def proxy(kept: dict[str, bytes]) -> Iterator[FaultProxy]:
    handler = type("Handler", (Keeper,), {"kept": kept, "lock": threading.Lock()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    with FaultProxy(("127.0.0.1", server.server_port)) as made:
        yield made
    server.shutdown()
    server.server_close()
    thread.join()


class Client(http.client.HTTPConnection):
    def __init__(self, proxy: FaultProxy, timeout: float = 10) -> None:
        super().__init__(proxy.address, timeout=timeout)

    def ask(self, method: str, target: str, body: Any = None, **headers: str) -> tuple[int, bytes]:
        self.request(method, target, body, headers)
        answer = self.getresponse()
        return answer.status, answer.read()


@pytest.fixture
def client(proxy: FaultProxy) -> Iterator[Client]:
    made = Client(proxy)
    yield made
    made.close()


def test_without_a_plan_everything_goes_through(
    proxy: FaultProxy, client: Client, kept: dict[str, bytes]
) -> None:
    assert client.ask("PUT", "/a?x=1", BODY) == (200, b"kept")
    first = client.sock
    assert client.ask("GET", "/a?x=1") == (200, BODY)
    assert client.ask("HEAD", "/a?x=1") == (200, b"")
    assert client.ask("GET", "/b") == (404, b"")
    assert client.sock is first
    assert kept == {"/a?x=1": BODY}
    assert [(seen.method, seen.target, seen.body_bytes) for seen in proxy.requests] == [
        ("PUT", "/a?x=1", len(BODY)),
        ("GET", "/a?x=1", 0),
        ("HEAD", "/a?x=1", 0),
        ("GET", "/b", 0),
    ]
    assert (proxy.count(), proxy.count("GET"), proxy.count("GET", "^/a")) == (4, 2, 1)
    proxy.forget()
    assert proxy.count() == 0


def test_chunks_go_through_in_both_directions(client: Client, kept: dict[str, bytes]) -> None:
    assert client.ask("PUT", "/a", iter([b"one", b"two"])) == (200, b"kept")
    assert kept == {"/a": b"onetwo"}
    assert client.ask("CHUNKS", "/") == (200, b"something")
    assert client.ask("OLD", "/") == (200, b"until the end")


def test_a_client_that_waits_for_leave_gets_it(proxy: FaultProxy, kept: dict[str, bytes]) -> None:
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as plain:
        plain.sendall(b"PUT /a HTTP/1.1\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
        assert plain.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        plain.sendall(b"abc")
        assert plain.recv(100).startswith(b"HTTP/1.1 200")
    assert kept == {"/a": b"abc"}


@pytest.mark.parametrize(
    ("fault", "has_effect"),
    [
        (Reset(after_effect=False), False),
        (Reset(after_effect=True), True),
        (HalfRequest(), False),
    ],
)
def test_a_reset_comes_before_or_after_the_effect(
    proxy: FaultProxy, client: Client, kept: dict[str, bytes], fault: Fault, has_effect: bool
) -> None:
    proxy.plan(Rule(fault=fault, method="PUT"))
    with pytest.raises(ConnectionResetError):
        client.ask("PUT", "/a", BODY)
    assert kept == ({"/a": BODY} if has_effect else {})
    assert [seen.fault for seen in proxy.requests] == [fault]
    client.close()
    assert client.ask("PUT", "/a", b"again") == (200, b"kept")


def test_half_an_answer(proxy: FaultProxy, client: Client, kept: dict[str, bytes]) -> None:
    kept["/a"] = BODY
    proxy.plan(Rule(fault=HalfAnswer()))
    with pytest.raises(http.client.IncompleteRead) as caught:
        client.ask("GET", "/a")
    assert caught.value.partial == BODY[: len(BODY) // 2]


def test_half_an_answer_without_a_body(proxy: FaultProxy, client: Client) -> None:
    proxy.plan(Rule(fault=HalfAnswer()))
    client.request("HEAD", "/a")
    # This client accepts a partial head as a whole one, so only the status can be relied on.
    assert client.getresponse().headers.get("Content-Length") is None


@pytest.mark.parametrize("after_effect", [False, True])
def test_an_answer_that_is_made_up(
    proxy: FaultProxy, client: Client, kept: dict[str, bytes], after_effect: bool
) -> None:
    slow = Answer(status=503, headers={"Retry-After": "3"}, body=b"slow", after_effect=after_effect)
    proxy.plan(Rule(fault=slow, times=2))
    client.request("PUT", "/a", BODY)
    answer = client.getresponse()
    assert (answer.status, answer.headers["Retry-After"], answer.read()) == (503, "3", b"slow")
    assert kept == ({"/a": BODY} if after_effect else {})
    assert client.ask("HEAD", "/a") == (503, b"")
    assert client.ask("PUT", "/a", b"x") == (200, b"kept")


@pytest.mark.parametrize("after_effect", [False, True])
def test_a_request_that_hangs(
    proxy: FaultProxy, kept: dict[str, bytes], after_effect: bool
) -> None:
    proxy.plan(Rule(fault=Hang(after_effect=after_effect)))
    client = Client(proxy, timeout=0.3)
    with pytest.raises(TimeoutError):
        client.ask("PUT", "/a", BODY)
    client.close()
    until = time.monotonic() + 60
    while after_effect and not kept and time.monotonic() < until:
        time.sleep(0.001)
    assert kept == ({"/a": BODY} if after_effect else {})


def test_one_bit_is_flipped(proxy: FaultProxy, client: Client, kept: dict[str, bytes]) -> None:
    proxy.plan(
        Rule(fault=FlippedRequest(), method="PUT", times=2),
        Rule(fault=FlippedAnswer(), method="GET"),
        Rule(fault=FlippedAnswer(), method="CHUNKS"),
    )
    client.ask("PUT", "/a", BODY)
    assert _bits_between(kept["/a"], BODY) == 1
    client.ask("PUT", "/a", iter([BODY, BODY]))
    assert _bits_between(kept["/a"], BODY + BODY) == 1
    kept["/a"] = BODY
    assert _bits_between(client.ask("GET", "/a")[1], BODY) == 1
    assert client.ask("GET", "/a") == (200, BODY)
    assert _bits_between(client.ask("CHUNKS", "/")[1], b"something") == 1


def test_an_answer_that_trickles(proxy: FaultProxy, client: Client, kept: dict[str, bytes]) -> None:
    kept["/a"] = BODY
    proxy.plan(Rule(fault=Trickle(block_bytes=100, pause_s=0.001)))
    assert client.ask("GET", "/a") == (200, BODY)


def test_closing_ends_what_waits(proxy: FaultProxy) -> None:
    proxy.plan(
        Rule(fault=Trickle(block_bytes=1, pause_s=1000)), Rule(fault=Hang(after_effect=True))
    )
    others = set(threading.enumerate())
    clients = [Client(proxy) for _ in range(3)]
    for client in clients:
        client.request("GET", "/a")
    while proxy.count() < 3:
        proxy._closing.wait(0.001)
    proxy.close()
    for client in clients:
        client.close()
    left = set(threading.enumerate()) - others
    assert not [thread for thread in left if thread.name.startswith("relay-")]


def test_a_server_that_is_not_there_is_a_reset(proxy: FaultProxy) -> None:
    with socket.create_server(("127.0.0.1", 0)) as place:
        nowhere = place.getsockname()
    with FaultProxy(nowhere) as other:
        client = Client(other)
        with pytest.raises(ConnectionResetError):
            client.ask("GET", "/a")
        client.close()


def test_a_rule_is_about_a_method_and_a_pattern() -> None:
    fault = Reset(after_effect=False)
    plan = Plan(Rule(fault=fault, method="PUT", target=r"[?&]partNumber=2\b", skip=1, times=2))
    asked = [("GET", "2"), ("PUT", "2"), ("PUT", "1"), ("PUT", "2"), ("PUT", "21"), ("PUT", "2")]
    found = [plan.next_fault(method, f"/k?a=b&partNumber={part}") for method, part in asked]
    assert found == [None, None, None, fault, None, fault]
    assert plan.is_used_up


def test_a_request_is_counted_by_each_rule_that_lets_it_pass() -> None:
    one, two = Reset(after_effect=False), Reset(after_effect=True)
    plan = Plan(Rule(fault=one, skip=2), Rule(fault=two, skip=1, times=1))
    found = [plan.next_fault("GET", "/") for _ in range(4)]
    assert found == [None, two, one, None]
    assert plan.is_used_up


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.settimeout(60)
        yield made


@contextmanager
def connected(
    listener: socket.socket, relay: TcpRelay
) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A client and its server, which has received a request."""
    with (
        socket.create_connection(("127.0.0.1", relay.port), timeout=60) as client,
        listener.accept()[0] as server,
    ):
        client.sendall(b"ask")
        assert server.recv(10) == b"ask"
        yield client, server


def test_plain_bytes_are_relayed(listener: socket.socket) -> None:
    with (
        TcpRelay(listener.getsockname()) as relay,
        connected(listener, relay) as (client, server),
    ):
        client.shutdown(socket.SHUT_WR)
        assert server.recv(10) == b""
        server.sendall(b"answer")
        server.close()
        assert client.recv(10) == b"answer"
        assert client.recv(10) == b""


def test_connections_can_be_cut(listener: socket.socket) -> None:
    with TcpRelay(listener.getsockname()) as relay:
        for _ in range(2):
            with connected(listener, relay) as (client, _):
                relay.cut()
                with pytest.raises(ConnectionResetError):
                    client.recv(10)


def test_a_cut_resets_however_soon_a_thread_wakes(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare = tcp_relay._prepare_reset

    def slow(used: socket.socket) -> None:
        time.sleep(0.02)  # a thread that was woken earlier would close its sockets meanwhile
        prepare(used)

    monkeypatch.setattr(tcp_relay, "_prepare_reset", slow)
    with TcpRelay(listener.getsockname()) as relay:
        for _ in range(8):  # the two sockets come in any order
            with connected(listener, relay) as (client, server):
                client.shutdown(socket.SHUT_WR)  # so the end of the other direction ends everything
                assert server.recv(10) == b""
                relay.cut()
                with pytest.raises(ConnectionResetError):
                    client.recv(10)


def test_closing_waits_for_threads_that_are_about_to_end(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(threading.Thread):
        def run(self) -> None:
            super().run()
            time.sleep(0.02)

    with TcpRelay(listener.getsockname()) as relay:
        monkeypatch.setattr(threading, "Thread", Slow)  # the threads of connections
        with socket.create_connection(("127.0.0.1", relay.port), timeout=60) as client:
            server, _ = listener.accept()
            server.close()
            assert client.recv(10) == b""
        while relay._sockets:
            time.sleep(0.001)
    name = f"relay-{id(relay):x}"
    assert not [thread for thread in threading.enumerate() if thread.name == name]


def test_what_comes_just_after_a_cut_is_not_relayed(listener: socket.socket) -> None:
    with (
        TcpRelay(listener.getsockname()) as relay,
        connected(listener, relay) as (client, server),
    ):
        with relay._lock:  # the state of a cut before it wakes the threads of sockets
            relay._cut.update(relay._sockets)
        client.sendall(b"late")
        server.settimeout(0.5)
        with pytest.raises(TimeoutError):
            server.recv(10)
        relay.cut()
        with pytest.raises(ConnectionResetError):
            client.recv(10)


def _bits_between(one: bytes, other: bytes) -> int:
    assert len(one) == len(other)
    return sum((a ^ b).bit_count() for a, b in zip(one, other, strict=True))
