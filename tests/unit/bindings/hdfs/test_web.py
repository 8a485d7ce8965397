"""Reading by WebHDFS: exactly what was asked for, in time, and never from TLS to plain HTTP."""

from __future__ import annotations

import http.server
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from services.certificates import Authority
from siltstone.bindings.hdfs.settings import HdfsSettings
from siltstone.bindings.hdfs.web import look_at_web, read_open_file, room_told
from siltstone.core.errors import ChunkUnavailableError
from siltstone.core.remote.deadline import Deadline, DeadlineError

CONTENT = bytes(range(256)) * 20
TOKEN = "canary-of-web"

Answer = Callable[[http.server.BaseHTTPRequestHandler, dict[str, str]], None]


class Stub(http.server.ThreadingHTTPServer):
    """A NameNode and a DataNode at one address."""

    daemon_threads = True
    request_queue_size = 128  # none of many connections at once is refused

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that disconnect are not reported."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.scheme = "http"
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.location = ""
        self.data: Answer | None = None
        self.status: object = {}

    @property
    def endpoint(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Stub

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        self.server.asked.append((unquote(parts.path), query))
        if query["op"] == "GETFILESTATUS":
            self.answer(200, json.dumps({"FileStatus": {}}).encode())
        elif query["op"] == "GETSTATUS":
            self.answer(200, json.dumps(self.server.status).encode())
        elif "datanode" not in query:
            self.send_response(307)
            where = self.server.location or self.server.endpoint
            self.send_header("Location", f"{where}{self.path}&datanode=true")
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif self.server.data is not None:
            self.server.data(self, query)
        else:
            begin = int(query["offset"])
            self.answer(200, CONTENT[begin : begin + int(query["length"])])

    def answer(self, status: int, body: bytes, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def running(authority: Authority | None = None, **certificate: Any) -> Iterator[Stub]:
    with Stub() as stub:
        if authority is not None:
            files = authority.certificate(**certificate)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(files.chain, files.key)
            # The handshake belongs to the thread of the connection, which closes the socket it got.
            stub.socket = context.wrap_socket(
                stub.socket, server_side=True, do_handshake_on_connect=False
            )
            stub.scheme = "https"
        thread = threading.Thread(target=stub.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield stub
        finally:
            stub.shutdown()
            thread.join()


@pytest.fixture
def stub() -> Iterator[Stub]:
    with running() as stub:
        yield stub


def settings(*endpoints: str, **more: Any) -> HdfsSettings:
    options = {"namenode": "hdfs://n:1", "path": "/s", "webhdfs": endpoints, "insecure": True}
    return HdfsSettings.model_validate(options | more)


def read(chosen: HdfsSettings, offset: int, length: int, seconds: float = 20) -> bytes:
    buffer = bytearray(length)
    read_open_file(chosen, "a b", "/s/a b", offset, memoryview(buffer), Deadline(seconds))
    return bytes(buffer)


def test_a_range_comes_by_two_requests(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_USER_NAME", "alice")
    assert read(settings(stub.endpoint), 300, 1_000) == CONTENT[300:1_300]
    assert [path for path, _ in stub.asked] == ["/webhdfs/v1/s/a b"] * 2
    assert stub.asked[0][1] == {
        "op": "OPEN", "offset": "300", "length": "1000", "user.name": "alice"
    }  # fmt: skip


def test_a_token_takes_the_place_of_a_user(stub: Stub) -> None:
    read(settings(stub.endpoint, webhdfs_token=TOKEN), 0, 1)
    assert stub.asked[0][1]["delegation"] == TOKEN
    assert "user.name" not in stub.asked[0][1]


def half(handler: Any, query: dict[str, str]) -> None:
    handler.answer(200, b"x", length=int(query["length"]))


def short(handler: Any, query: dict[str, str]) -> None:
    handler.answer(200, b"x")


def more_than_asked(handler: Any, query: dict[str, str]) -> None:
    handler.answer(200, bytes(int(query["length"]) + 1))


def refused(handler: Any, query: dict[str, str]) -> None:
    handler.answer(403, b'{"RemoteException": {"exception": "IOException"}}')


def reset(handler: Any, query: dict[str, str]) -> None:
    raise ConnectionResetError


@pytest.mark.parametrize("wrong", [half, short, more_than_asked, refused, reset])
def test_what_is_not_the_range_is_no_answer(stub: Stub, wrong: Answer) -> None:
    stub.data = wrong
    with pytest.raises(ChunkUnavailableError) as caught:
        read(settings(stub.endpoint, webhdfs_token=TOKEN), 0, 100)
    assert TOKEN not in f"{caught.value}{caught.value.__cause__}"


def test_the_next_namenode_is_asked(stub: Stub) -> None:
    assert read(settings("http://127.0.0.1:9", stub.endpoint), 0, 10) == CONTENT[:10]


def test_a_silent_server_is_given_up(stub: Stub) -> None:
    waiting = threading.Event()

    def silent(handler: Any, _: dict[str, str]) -> None:
        waiting.wait(30)

    stub.data = silent
    try:
        with pytest.raises((ChunkUnavailableError, DeadlineError)):
            read(settings(stub.endpoint), 0, 10, seconds=0.2)
    finally:
        waiting.set()


def test_a_redirection_twice_is_not_followed(stub: Stub) -> None:
    def again(handler: Any, _: dict[str, str]) -> None:
        handler.send_response(307)
        handler.send_header("Location", f"{stub.endpoint}/elsewhere?op=OPEN")
        handler.end_headers()

    stub.data = again
    with pytest.raises(ChunkUnavailableError):
        read(settings(stub.endpoint), 0, 10)
    assert len(stub.asked) == 2


def test_opening_looks_for_webhdfs(stub: Stub) -> None:
    assert look_at_web(settings(stub.endpoint), Deadline(10)) is None
    assert look_at_web(settings("http://127.0.0.1:9", stub.endpoint), Deadline(10)) is None
    wrong = look_at_web(settings("http://127.0.0.1:9"), Deadline(10))
    assert wrong is not None
    assert "ConnectionRefusedError" in wrong


def test_tls_is_believed_with_a_certificate_only(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    authority = Authority(tmp_path / "authority")
    another = Authority(tmp_path_factory.mktemp("another"))
    secure = {"insecure": False, "webhdfs_token": TOKEN}
    with running(authority) as stub:
        trusting = settings(stub.endpoint, ca_bundle=authority.bundle, **secure)
        assert read(trusting, 5, 100) == CONTENT[5:105]
        for more in ({}, {"ca_bundle": another.bundle}):
            stub.asked.clear()
            with pytest.raises(ChunkUnavailableError):
                read(settings(stub.endpoint, **secure, **more), 0, 1)
            assert stub.asked == []
        with running() as plain:
            stub.location = plain.endpoint
            with pytest.raises(ChunkUnavailableError):
                read(trusting, 0, 1)
            assert plain.asked == []
    for certificate in ({"is_expired": True}, {"hosts": ["elsewhere.example"]}):
        with running(authority, **certificate) as stub:
            with pytest.raises(ChunkUnavailableError):
                read(settings(stub.endpoint, ca_bundle=authority.bundle, **secure), 0, 1)
            assert stub.asked == []


def test_no_datanode_is_not_a_full_disk(stub: Stub) -> None:
    chosen = settings(stub.endpoint)
    assert room_told(chosen, Deadline(10)) is None
    stub.status = {"FsStatus": {"capacity": 10, "remaining": 0}}
    assert room_told(chosen, Deadline(10)) == 0
    stub.status = {"FsStatus": {"capacity": 0, "remaining": 0}}
    with pytest.raises(ChunkUnavailableError, match="no DataNode"):
        room_told(chosen, Deadline(10))
