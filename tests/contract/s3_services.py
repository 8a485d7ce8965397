"""The services that the binding ``s3`` runs on here, each with a view from outside.

``moto`` is in this process and takes no time, but checks neither checksums nor signatures. The real
server is ``versitygw``; where it was not built, its tests are skipped with that reason.
"""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from siltstone.bindings.s3.chunk_storage import S3ChunkStorage
from siltstone.bindings.s3.settings import S3Settings
from siltstone.core.chunk_storage import ChunkStorage
from tests.contract.raw_s3 import RawS3
from tests.contract.services import as_it_is

KEY_ID = "test-key-id"
SECRET = "canary-secret-access-key"
VERSITYGW = Path.home() / ".cache/siltstone/services/versitygw-v1.8.0/versitygw"


@dataclass(frozen=True)
class Server:
    """A server that runs.

    Attributes:
        endpoint: its URL.
        folder: where it keeps its buckets.
    """

    endpoint: str
    folder: Path


@contextmanager
def versitygw(folder: Path, *flags: str, scheme: str = "http") -> Iterator[Server]:
    """Run the server in ``folder`` on a free port of the loopback."""
    if not VERSITYGW.is_file():
        pytest.skip("versitygw is not built here: no real S3 server")
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port = place.getsockname()[1]
    (folder / "buckets").mkdir(parents=True)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [VERSITYGW, "--port", f"127.0.0.1:{port}", "--quiet", *flags, "posix",
             str(folder / "buckets")],
            env={"ROOT_ACCESS_KEY": KEY_ID, "ROOT_SECRET_KEY": SECRET, "HOME": str(folder)},
            stdout=log,
            stderr=log,
        )  # fmt: skip
    try:
        _wait_for(port, process)
        yield Server(f"{scheme}://127.0.0.1:{port}", folder / "buckets")
    finally:
        process.kill()
        process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        assert process.poll() is None, "the server ended at once"
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return
        except OSError:
            time.sleep(0.02)
    raise AssertionError("the server does not listen")


def settings(endpoint: str, bucket: str, **more: Any) -> S3Settings:
    """Settings for a server on this machine."""
    values: dict[str, Any] = {
        "bucket": bucket,
        "endpoint": endpoint,
        "insecure": endpoint.startswith("http://"),
        "path_style": True,
        "region": "us-east-1",
        "access_key_id": KEY_ID,
        "secret_access_key": SECRET,
    }
    return S3Settings.model_validate(values | more)


def new_bucket(server: Server) -> tuple[str, RawS3]:
    """Make a bucket that nobody used."""
    name = f"b-{os.urandom(6).hex()}"
    raw = RawS3(server.endpoint, name, KEY_ID, SECRET)
    raw.make_bucket()
    return name, raw


@dataclass(kw_only=True)
class S3Service:
    """A bucket of a real server; seen from outside by plain HTTP."""

    server: Server
    more: dict[str, Any] = field(default_factory=dict)
    wrap: Callable[[ChunkStorage], ChunkStorage] = as_it_is

    def __post_init__(self) -> None:
        self.bucket, self.raw = new_bucket(self.server)
        self.settings = settings(self.server.endpoint, self.bucket, **self.more)

    def open(self) -> ChunkStorage:
        return self.wrap(S3ChunkStorage(self.settings))

    def outside_read(self, name: str) -> bytes | None:
        return self.raw.read(self.settings.folder + name)

    def outside_names(self) -> list[str]:
        folder = self.settings.folder
        return [key[len(folder) :] for key in self.raw.keys(folder)]

    def outside_write(self, name: str, content: bytes) -> None:
        self.raw.write(self.settings.folder + name, content)


@dataclass(kw_only=True)
class MotoService:
    """A bucket in this process; seen from outside by looking into the fake."""

    more: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        from moto.s3.models import s3_backends

        self.bucket = f"b-{os.urandom(6).hex()}"
        self._backend: Any = s3_backends["123456789012"]["aws"]
        self._backend.create_bucket(self.bucket, "us-east-1")
        self.settings = S3Settings.model_validate(
            {
                "bucket": self.bucket,
                "region": "us-east-1",
                "access_key_id": KEY_ID,
                "secret_access_key": SECRET,
                **self.more,
            }
        )

    def open(self) -> ChunkStorage:
        return S3ChunkStorage(self.settings)

    def outside_read(self, name: str) -> bytes | None:
        found = self._backend.get_object(self.bucket, self.settings.folder + name)
        return None if found is None else bytes(found.value)

    def outside_names(self) -> list[str]:
        folder = self.settings.folder
        keys = list(self._backend.buckets[self.bucket].keys)
        return [key[len(folder) :] for key in keys if key.startswith(folder)]

    def outside_write(self, name: str, content: bytes) -> None:
        self._backend.put_object(self.bucket, self.settings.folder + name, content)


def answers(endpoint: str) -> bool:
    """Whether something speaks HTTP there."""
    connection = http.client.HTTPConnection(endpoint.partition("://")[2], timeout=2)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status < 500
    except OSError:
        return False
    finally:
        connection.close()
