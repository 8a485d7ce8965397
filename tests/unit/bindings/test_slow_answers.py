"""Answers that come byte by byte, each in time, and would never end: every call has an end."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from siltstone.bindings.azure.chunk_storage import AzureChunkStorage
from siltstone.bindings.azure.settings import AzureSettings
from siltstone.bindings.gcs.chunk_storage import GcsChunkStorage
from siltstone.bindings.gcs.settings import GcsSettings
from siltstone.bindings.hdfs.settings import HdfsSettings
from siltstone.bindings.hdfs.web import read_open_file
from siltstone.bindings.s3.chunk_storage import S3ChunkStorage
from siltstone.bindings.s3.settings import S3Settings
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import ChunkUnavailableError
from siltstone.core.remote.deadline import Deadline, DeadlineError
from siltstone.testing.faults.tcp_relay import TcpRelay

DEADLINE_S = 0.3
HEADS = {
    "status": b"",
    "head": b"HTTP/1.1 200 OK\r\n",
    "body": b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n",
    "range": b"HTTP/1.1 206 OK\r\nContent-Length: 9000\r\nContent-Range: bytes 0-8999/9000\r\n\r\n",
}


class Slow(TcpRelay):
    """A server that begins an answer and continues it byte by byte until the client closes."""

    def __init__(self, head: bytes) -> None:
        self._head = head
        super().__init__(("127.0.0.1", 0))

    def serve(self, client: socket.socket) -> None:
        client.recv(1 << 16)
        client.sendall(self._head)
        while not self._closing.wait(DEADLINE_S / 30):
            client.sendall(b"x")


@pytest.fixture(params=HEADS)
def slow(request: pytest.FixtureRequest) -> Iterator[Slow]:
    server = Slow(HEADS[request.param])
    yield server
    with suppress(OSError):
        server.close()


@pytest.fixture(params=["s3", "gcs", "azure"])
def storage(request: pytest.FixtureRequest, slow: Slow) -> Iterator[ChunkStorage]:
    options: dict[str, Any] = {
        "insecure": True,
        "deadline_s": DEADLINE_S,
        "read_timeout_s": 60,
        "endpoint": f"http://{slow.address}",
    }
    made: ChunkStorage
    if request.param == "s3":
        options |= {"bucket": "box", "region": "r", "path_style": True}
        options |= {"access_key_id": "id", "secret_access_key": "secret"}
        made = S3ChunkStorage(S3Settings.model_validate(options))
    elif request.param == "gcs":
        options |= {"bucket": "box", "anonymous": True}
        made = GcsChunkStorage(GcsSettings.model_validate(options))
    else:
        options["endpoint"] += "/some"
        options |= {"container": "box", "account": "some", "account_key": "c2VjcmV0"}
        made = AzureChunkStorage(AzureSettings.model_validate(options))
    yield made
    made.close()


CALLS: dict[str, Callable[[ChunkStorage], object]] = {
    "read_into": lambda storage: storage.read_into("one", 0, bytearray(9000)),
    "list": lambda storage: list(storage.list()),
    "delete": lambda storage: storage.delete("one"),
    "create": lambda storage: storage.create("one", [b"content"]),
}


@pytest.mark.parametrize("call", CALLS)
def test_no_answer_keeps_a_call_for_ever(storage: ChunkStorage, call: str) -> None:
    with pytest.raises(ChunkUnavailableError):
        CALLS[call](storage)


def test_nor_does_one_of_webhdfs(slow: Slow) -> None:
    settings = HdfsSettings.model_validate(
        {
            "namenode": "hdfs://nn:8020",
            "path": "/a",
            "webhdfs": f"http://{slow.address}",
            "insecure": True,
        }
    )
    with pytest.raises((ChunkUnavailableError, DeadlineError)):
        read_open_file(
            settings, "one", "/a/one", 0, memoryview(bytearray(9000)), Deadline(DEADLINE_S)
        )
