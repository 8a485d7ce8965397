"""The services that the binding ``s3`` runs on here, each with a view from outside.

``moto`` is in this process and takes no time, but checks neither checksums nor signatures. The real
servers are those of ``services``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from services.s3_server import KEY_ID, REGION, SECRET, S3Server
from siltstone.bindings.s3.chunk_storage import S3ChunkStorage
from siltstone.bindings.s3.settings import S3Settings
from siltstone.core.chunk_storage import ChunkStorage
from tests.support.services.local_services import as_it_is
from tests.support.services.raw_s3 import RawS3

MISSING = frozenset({"append", "seal"})
"""Optional verbs that S3 lacks."""


def options_of(server: S3Server, bucket: str, **more: Any) -> dict[str, Any]:
    """Settings of the binding, as they stand in a file."""
    options: dict[str, Any] = {
        "bucket": bucket,
        "endpoint": server.endpoint,
        "insecure": server.certificate is None,
        "path_style": True,
        "region": REGION,
        "access_key_id": server.key_id,
        "secret_access_key": server.secret,
    }
    return options | more


def settings_of(server: S3Server, bucket: str, **more: Any) -> S3Settings:
    """Settings of the binding, checked."""
    return S3Settings.model_validate(options_of(server, bucket, **more))


def new_bucket(server: S3Server) -> tuple[str, RawS3]:
    """Make a bucket that was never used."""
    name = f"b-{os.urandom(6).hex()}"
    raw = RawS3(server.endpoint, name, server.key_id, server.secret)
    raw.make_bucket()
    return name, raw


@dataclass(kw_only=True)
class S3Service:
    """A bucket of a real server; seen from outside by plain HTTP."""

    server: S3Server
    more: dict[str, Any] = field(default_factory=dict)
    wrap: Callable[[ChunkStorage], ChunkStorage] = as_it_is

    def __post_init__(self) -> None:
        self.bucket, self.raw = new_bucket(self.server)
        self.settings = settings_of(self.server, self.bucket, **self.more)

    def open(self) -> ChunkStorage:
        return self.wrap(S3ChunkStorage(self.settings))

    def outside_read(self, name: str) -> bytes | None:
        return self.raw.read(self.settings.folder + name)

    def outside_names(self) -> list[str]:
        folder = self.settings.folder
        return [key[len(folder) :] for key in self.raw.keys(folder)]

    def outside_write(self, name: str, content: bytes) -> None:
        self.raw.write(self.settings.folder + name, content)

    def stop(self) -> None:
        self.server.kill()

    def start(self) -> None:
        if not self.server.is_running:
            self.server.start()


@dataclass(kw_only=True)
class MotoService:
    """A bucket in this process; seen from outside by looking into the fake."""

    more: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        from moto.s3.models import s3_backends

        self.bucket = f"b-{os.urandom(6).hex()}"
        self._backend: Any = s3_backends["123456789012"]["aws"]
        self._backend.create_bucket(self.bucket, REGION)
        self.settings = S3Settings.model_validate(
            {
                "bucket": self.bucket,
                "region": REGION,
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
