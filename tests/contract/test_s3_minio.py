"""The binding ``s3`` keeps the contract on a second server, which is another implementation."""

from __future__ import annotations

import pytest

from services.s3_server import S3Server
from siltstone.testing.chunk_checks.abilities import ConcatChecks
from siltstone.testing.chunk_checks.deletes import DeleteChecks
from siltstone.testing.chunk_checks.lists import ListChecks
from siltstone.testing.chunk_checks.names import NameChecks
from siltstone.testing.chunk_checks.races import RaceChecks
from siltstone.testing.chunk_checks.subject import ChunkSubject
from siltstone.testing.chunk_checks.whole_creates import WholeChecks
from siltstone.testing.chunk_checks.writes import CreateChecks
from siltstone.testing.chunk_storage_contract import ChunkService, ChunkStorageContract
from siltstone.testing.known_deviations import MINIO
from tests.support.services.s3_services import MISSING, S3Service


class OnMinio(ChunkSubject):
    """A bucket of this server."""

    missing = MISSING
    deviations = MINIO

    @pytest.fixture
    def service(self, minio: S3Server) -> ChunkService:
        return S3Service(server=minio)


@pytest.mark.slow
class TestMinio(
    OnMinio,
    CreateChecks,
    WholeChecks,
    DeleteChecks,
    ListChecks,
    NameChecks,
    RaceChecks,
    ConcatChecks,
):
    """What servers do in their own way: conditions, races, keys and their order, copies of parts.

    The rest is the code of the binding, and ``test_s3.py`` has all of it on the first server.
    """


@pytest.mark.soak
class TestMinioWholly(OnMinio, ChunkStorageContract):
    """All of it."""
