"""The binding ``s3`` keeps the contract on a second server, which is another implementation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from services.s3_server import S3Server
from siltstone.bindings.s3.chunk_storage import S3ChunkStorage
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.testing.chunk_storage_contract import ChunkService, ChunkStorageContract
from tests.contract.raw_s3 import RawS3
from tests.faults.s3.bucket import new_bucket, settings_of


@dataclass(kw_only=True)
class BucketOf:
    server: S3Server
    more: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.bucket = new_bucket(self.server)
        self.raw = RawS3(self.server.endpoint, self.bucket, self.server.key_id, self.server.secret)

    def open(self) -> ChunkStorage:
        return S3ChunkStorage(settings_of(self.server, self.bucket, **self.more))

    def outside_read(self, name: str) -> bytes | None:
        return self.raw.read(name)

    def outside_names(self) -> list[str]:
        return self.raw.keys()

    def outside_write(self, name: str, content: bytes) -> None:
        self.raw.write(name, content)


@pytest.mark.slow
class TestMinio(ChunkStorageContract):
    missing = frozenset({"append", "seal"})

    @pytest.fixture
    def service(self, minio: S3Server) -> ChunkService:
        return BucketOf(server=minio)
