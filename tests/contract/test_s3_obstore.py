"""The binding ``s3`` keeps the contract on a real server while obstore reads."""

from __future__ import annotations

import pytest

from services.s3_server import SECRET, S3Server
from siltstone.testing.chunk_checks.reads import ReadChecks, StatChecks
from siltstone.testing.chunk_storage_contract import ChunkService, ChunkStorageContract
from siltstone.testing.known_deviations import VERSITYGW
from tests.support.services.s3_services import MISSING, S3Service


class TestReads(ReadChecks, StatChecks):
    """The verbs that obstore takes part in, below a prefix."""

    missing = MISSING
    deviations = VERSITYGW
    secrets = (SECRET,)

    @pytest.fixture
    def service(self, versitygw: S3Server) -> ChunkService:
        return S3Service(server=versitygw, more={"transport": "obstore", "prefix": "stores/one"})


@pytest.mark.soak
class TestWhole(ChunkStorageContract):
    """All of it, whether or not obstore takes part in it."""

    missing = MISSING
    deviations = VERSITYGW
    secrets = (SECRET,)
    listed_count = 1_025

    @pytest.fixture
    def service(self, versitygw: S3Server) -> ChunkService:
        return S3Service(server=versitygw, more={"transport": "obstore"})
