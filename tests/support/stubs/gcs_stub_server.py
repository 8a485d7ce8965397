"""The stub of the service as a server on the loopback, with TLS where a certificate is given."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from services.certificates import Certificate
from tests.support.stubs.gcs_stub import BreakError, HalfError, Reply, Request, Stub


class StubServer(ThreadingHTTPServer):
    """Answers as the stub that it is given, and then as another one.

    Args:
        certificate: the server's own; none for plain HTTP.

    Attributes:
        stub: who answers the requests that begin now.
    """

    request_queue_size = 128
    daemon_threads = True

    def __init__(self, certificate: Certificate | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.stub = Stub()
        self._certificate = certificate
        self.endpoint = f"{'https' if certificate else 'http'}://127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def use(self, stub: Stub) -> Stub:
        """Let a stub answer from now on."""
        stub.endpoint = self.endpoint
        self.stub = stub
        return stub

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Agree on TLS in the thread of the connection."""
        if self._certificate is None:
            super().finish_request(request, client_address)
            return
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._certificate.chain, self._certificate.key)
        with context.wrap_socket(request, server_side=True) as agreed:
            super().finish_request(agreed, client_address)

    def handle_error(self, *_: Any) -> None:
        """A client that went away is part of many tests."""


class Handler(BaseHTTPRequestHandler):
    """Reads a request, and writes what the stub answers."""

    server: StubServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _handle(self) -> None:
        parts = urlsplit(self.path)
        values = parse_qs(parts.query, keep_blank_values=True)
        query = {name: found[0] for name, found in values.items()}
        what = _what(self.command, parts.path, query)
        place = parts.path.partition("/b/")[2]
        bucket, _, key = place.partition("/o")
        key = unquote(key.removeprefix("/").removesuffix("/compose"))
        length = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(length)
        if len(body) < length or self._is_cut_off():
            self.close_connection = True
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            reply = self.server.stub.answer(Request(what, key, query, headers, body), bucket)
        except BreakError:
            self.close_connection = True
            return
        except HalfError as half:
            self._send(half.args[0], half=True)
            self.close_connection = True
            return
        self._send(reply)

    def _is_cut_off(self) -> bool:
        """Whether the client has ended its side; a head that ends so may be half of one."""
        if isinstance(self.connection, ssl.SSLSocket):
            return False
        try:
            return not self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False

    def _send(self, reply: Reply, *, half: bool = False) -> None:
        headers = {name.lower(): value for name, value in reply.headers.items()}
        if reply.status != 204:
            headers.setdefault("content-length", str(len(reply.body)))
        self.send_response(reply.status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body[: len(reply.body) // 2] if half else reply.body)

    do_GET = do_PUT = do_POST = do_DELETE = _handle  # noqa: N815

    def log_message(self, *_: Any) -> None:
        pass


def _what(method: str, path: str, query: dict[str, str]) -> str:
    if path.startswith("/upload/"):
        if method == "POST":
            return {"multipart": "create", "resumable": "begin"}[query["uploadType"]]
        return {"PUT": "piece", "DELETE": "cancel"}[method]
    if path.endswith("/compose"):
        return "compose"
    if path.startswith("/download/"):
        return "read"
    if method == "DELETE":
        return "delete"
    return "list" if path.endswith("/o") else "stat"


@contextmanager
def serving(certificate: Certificate | None = None) -> Iterator[StubServer]:
    """A server on a free port of the loopback, which stubs may use one after the other."""
    server = StubServer(certificate)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
