"""The binding ``s3`` keeps the contract, on a fake in this process and on a real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from moto import mock_aws

from siltstone.testing.chunk_storage_contract import ChunkService, ChunkStorageContract
from tests.contract.s3_services import MotoService, S3Service, Server, versitygw

MISSING = frozenset({"append", "seal"})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with versitygw(tmp_path_factory.mktemp("versitygw")) as running:
        yield running


class TestMoto(ChunkStorageContract):
    missing = MISSING

    @pytest.fixture
    def service(self) -> Iterator[ChunkService]:
        with mock_aws():
            yield MotoService()


class TestVersitygw(ChunkStorageContract):
    missing = MISSING
    listed_count = 1_025

    @pytest.fixture
    def service(self, server: Server) -> ChunkService:
        return S3Service(server=server)


class TestVersitygwInParts(ChunkStorageContract):
    """Below a prefix, and with parts for all that is larger than a letter or two."""

    missing = MISSING

    @pytest.fixture
    def service(self, server: Server) -> ChunkService:
        return S3Service(server=server, more={"prefix": "stores/one", "put_bytes_max": 3})
