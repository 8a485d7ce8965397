"""The binding ``s3`` keeps the contract on a second server, which is another implementation."""

from __future__ import annotations

import pytest

from services.s3_server import S3Server
from siltstone.testing.chunk_storage_contract import ChunkService, ChunkStorageContract
from siltstone.testing.known_deviations import MINIO
from tests.support.services.s3_services import S3Service


@pytest.mark.slow
class TestMinio(ChunkStorageContract):
    missing = frozenset({"append", "seal"})
    deviations = MINIO

    @pytest.fixture
    def service(self, minio: S3Server) -> ChunkService:
        return S3Service(server=minio)
