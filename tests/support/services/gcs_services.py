"""The services that the binding ``gcs`` runs on here, each with a view from outside.

The stub heeds every condition as the service's documentation has it. The real server,
fake-gcs-server, was written by others and shows that requests are understood; it heeds the
condition of an upload and no other.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from services.fake_gcs import FakeGcs
from siltstone.bindings.gcs.chunk_storage import GcsChunkStorage
from siltstone.bindings.gcs.settings import GcsSettings
from siltstone.core.chunk_storage import ChunkStorage
from tests.support.services.local_services import as_it_is
from tests.support.services.raw_gcs import RawGcs
from tests.support.stubs.gcs_stub import Stub

TOKEN = "canary-token"


def settings(endpoint: str, bucket: str, **more: Any) -> GcsSettings:
    """Settings for a server on this machine."""
    values: dict[str, Any] = {
        "bucket": bucket, "endpoint": endpoint, "insecure": True, "anonymous": True,
    }  # fmt: skip
    return GcsSettings.model_validate(values | more)


def new_bucket(endpoint: str) -> RawGcs:
    """Make a bucket that was never used."""
    raw = RawGcs(endpoint, f"b-{os.urandom(6).hex()}")
    raw.make_bucket()
    return raw


@dataclass(kw_only=True)
class GcsService:
    """A bucket; seen from outside by plain HTTP."""

    raw: RawGcs
    endpoint: str
    more: dict[str, Any] = field(default_factory=dict)
    wrap: Callable[[ChunkStorage], ChunkStorage] = as_it_is

    def __post_init__(self) -> None:
        self.settings = settings(self.endpoint, self.raw.bucket, **self.more)

    def open(self) -> ChunkStorage:
        return self.wrap(GcsChunkStorage(self.settings))

    def outside_read(self, name: str) -> bytes | None:
        return self.raw.read(self.settings.folder + name)

    def outside_names(self) -> list[str]:
        folder = self.settings.folder
        return [key[len(folder) :] for key in self.raw.keys(folder)]

    def outside_write(self, name: str, content: bytes) -> None:
        self.raw.write(self.settings.folder + name, content)


@dataclass(kw_only=True)
class StubService(GcsService):
    """The only bucket of a stub, which can be stopped."""

    stub: Stub

    def stop(self) -> None:
        self.stub.is_stopped = True

    def start(self) -> None:
        self.stub.is_stopped = False


def on_stub(stub: Stub, **more: Any) -> StubService:
    more = {"token": TOKEN, "anonymous": False} | more
    raw = RawGcs(stub.endpoint, stub.bucket)
    return StubService(raw=raw, endpoint=stub.endpoint, more=more, stub=stub)


def on_fake(server: FakeGcs, **more: Any) -> GcsService:
    more = {"unsafe_without_preconditions": True} | more
    return GcsService(raw=new_bucket(server.endpoint), endpoint=server.endpoint, more=more)
