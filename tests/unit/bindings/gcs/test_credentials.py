"""A service account: tokens are fetched, and renewed after a refusal without a second try.

The authority that issues the tokens is a small server of these tests.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from siltstone.bindings.gcs.chunk_storage import GcsChunkStorage
from siltstone.core.errors import ChunkAccessDeniedError, ChunkError, Outcome
from tests.support.stubs.gcs_stub import Stub, refusal


class Authority(ThreadingHTTPServer):
    """Issues numbered tokens.

    Attributes:
        given: how many so far.
        status: of its answers.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.given = 0
        self.status = 200

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/token"


class Handler(BaseHTTPRequestHandler):
    server: Authority

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.given += 1
        told: dict[str, Any] = {"error": "invalid_grant", "error_description": "canary-said"}
        if self.server.status == 200:
            token = f"canary-token-{self.server.given}"
            told = {"access_token": token, "expires_in": 3600, "token_type": "Bearer"}
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(told).encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def authority() -> Iterator[Authority]:
    with Authority() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def private_key() -> str:
    made = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    return made.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    ).decode()


@pytest.fixture
def storage(
    stub: Stub, authority: Authority, private_key: str, tmp_path: Path
) -> Iterator[GcsChunkStorage]:
    file = tmp_path / "key.json"
    told = {
        "type": "service_account",
        "client_email": "somebody@example.invalid",
        "private_key": private_key,
        "token_uri": authority.address,
    }
    file.write_text(json.dumps(told), encoding="utf-8")
    stub.store("a", b"abc")
    storage = GcsChunkStorage(stub.settings(credentials_file=file))
    yield storage
    storage.close()


def tokens(stub: Stub) -> list[str]:
    return [request.headers["authorization"].rpartition("-")[2] for request in stub.asked]


def test_a_token_serves_many_requests(
    stub: Stub, authority: Authority, storage: GcsChunkStorage
) -> None:
    for _ in range(3):
        storage.stat("a")
        storage.read_into("a", 0, bytearray(3))
    assert tokens(stub) == ["1"] * 6
    assert authority.given == 1


def test_a_token_that_is_refused_is_renewed_for_the_next_request(
    stub: Stub, storage: GcsChunkStorage
) -> None:
    storage.create("b", [b"x"])
    stub.asked.clear()
    for what, call in (
        ("create", lambda: storage.create("c", [b"x"])),
        ("stat", lambda: storage.stat("a")),
        ("delete", lambda: storage.delete("a")),
    ):
        stub.fail(what, refusal(401, "authError"))
        with pytest.raises(ChunkAccessDeniedError, match="credentials") as caught:
            call()
        assert caught.value.outcome is Outcome.NOT_APPLIED
    assert tokens(stub) == ["1", "2", "3"], "nothing is sent again"
    storage.create("c", [b"x"])
    assert tokens(stub)[-1] == "4"
    assert stub.contents() == {"a": b"abc", "b": b"x", "c": b"x"}


@pytest.mark.parametrize("status", [400, 401, 403])
def test_without_a_token_nothing_is_asked(
    stub: Stub, authority: Authority, storage: GcsChunkStorage, status: int
) -> None:
    authority.status = status
    for call in (
        lambda: storage.create("c", [b"x"]),
        lambda: storage.delete("a"),
        lambda: storage.read_into("a", 0, bytearray(3)),
    ):
        with pytest.raises(ChunkError, match="cannot be renewed") as caught:
            call()
        assert caught.value.outcome is Outcome.NOT_APPLIED
        assert "canary" not in str(caught.value)
    assert stub.asked == []


def test_an_authority_that_is_not_there(
    stub: Stub, authority: Authority, storage: GcsChunkStorage
) -> None:
    authority.server_close()
    with pytest.raises(ChunkError) as caught:
        storage.create("c", [b"x"])
    assert caught.value.outcome is Outcome.NOT_APPLIED
    assert stub.asked == []
