"""Consensus over objects of real servers: what a service decides, and not a consensus.

``test_nfs_mount.py`` has the same between two mounts of NFS.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from services.azurite import Azurite
from services.hdfs import Hdfs
from services.s3_server import S3Server
from siltstone.testing.chunk_checks.subject import ChunkService
from siltstone.testing.consensus_checks.late_creates import LateCreateChecks
from siltstone.testing.consensus_checks.races import ConsensusRaceChecks
from siltstone.testing.consensus_checks.subject import ConsensusSubject
from siltstone.testing.consensus_contract import ConsensusContract, ConsensusService
from tests.support.services.azure_services import AzureService
from tests.support.services.consensus_places import ObjectPlace
from tests.support.services.gcs_services import on_stub
from tests.support.services.hdfs_services import HdfsService
from tests.support.services.s3_services import S3Service
from tests.support.stubs.gcs_stub import Stub
from tests.support.stubs.gcs_stub_server import serving


class Served(ConsensusSubject):
    """A place on a server: few callers and lines, since each call takes its time."""

    callers = 3
    lines = 4
    model_runs = 3

    @pytest.fixture
    def chunks(self) -> ChunkService:
        raise NotImplementedError("a subclass gives the fixture 'chunks'")

    @pytest.fixture
    def service(self, chunks: ChunkService) -> Iterator[ConsensusService]:
        with closing(ObjectPlace(chunks=chunks)) as place:
            yield place


class OnS3(Served):
    @pytest.fixture
    def chunks(self, versitygw: S3Server) -> ChunkService:
        return S3Service(server=versitygw)


class OnMinio(Served):
    @pytest.fixture
    def chunks(self, minio: S3Server) -> ChunkService:
        return S3Service(server=minio)


class OnGcs(Served):
    """The stub: the server that others wrote heeds no condition of a delete."""

    @pytest.fixture
    def chunks(self) -> Iterator[ChunkService]:
        with serving() as server:
            yield on_stub(server.use(Stub()))


class OnAzure(Served):
    @pytest.fixture
    def chunks(self, azurite: Azurite) -> ChunkService:
        return AzureService(server=azurite)


class OnBlocks(Served):
    """Where chunks are block blobs, as entries always are."""

    @pytest.fixture
    def chunks(self, azurite: Azurite) -> ChunkService:
        return AzureService(server=azurite, more={"blobs": "block"})


class OnHdfs(Served):
    @pytest.fixture
    def chunks(self, hdfs: Hdfs) -> ChunkService:
        return HdfsService(server=hdfs)


class TestS3(OnS3, ConsensusRaceChecks, LateCreateChecks):
    """Who wins, and what lands late."""


class TestMinio(OnMinio, ConsensusRaceChecks, LateCreateChecks):
    """The same."""


class TestGcs(OnGcs, ConsensusRaceChecks, LateCreateChecks):
    """The same."""


class TestAzure(OnAzure, ConsensusRaceChecks, LateCreateChecks):
    """The same."""


class TestHdfs(OnHdfs, ConsensusRaceChecks, LateCreateChecks):
    """The same."""


@pytest.mark.soak
class TestS3Wholly(OnS3, ConsensusContract):
    """All of it."""


@pytest.mark.soak
class TestMinioWholly(OnMinio, ConsensusContract):
    """All of it."""


@pytest.mark.soak
class TestGcsWholly(OnGcs, ConsensusContract):
    """All of it."""


@pytest.mark.soak
class TestAzureWholly(OnAzure, ConsensusContract):
    """All of it."""


@pytest.mark.soak
class TestBlocksWholly(OnBlocks, ConsensusContract):
    """All of it."""


@pytest.mark.soak
class TestHdfsWholly(OnHdfs, ConsensusContract):
    """All of it."""
