"""The binding ``hdfs`` keeps the contract, on a real NameNode with a real DataNode."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from services.hdfs import Hdfs
from siltstone.testing.chunk_checks.abilities import SealChecks, SpaceChecks
from siltstone.testing.chunk_checks.closes import CloseChecks
from siltstone.testing.chunk_checks.declarations import CapabilityChecks
from siltstone.testing.chunk_checks.deletes import DeleteChecks
from siltstone.testing.chunk_checks.model import ModelChecks
from siltstone.testing.chunk_checks.names import NameChecks
from siltstone.testing.chunk_checks.outcomes import OutcomeChecks
from siltstone.testing.chunk_checks.processes import ProcessChecks
from siltstone.testing.chunk_checks.reads import ReadChecks, StatChecks
from siltstone.testing.chunk_checks.stops import StopChecks
from siltstone.testing.chunk_checks.subject import ChunkSubject
from siltstone.testing.chunk_checks.whole_creates import WholeChecks
from siltstone.testing.chunk_checks.writes import CreateChecks, WriteChecks
from siltstone.testing.chunk_storage_contract import ChunkService, ChunkStorageContract
from siltstone.testing.known_deviations import HDFS
from tests.support.services.hdfs_services import Door, HdfsService, StoppableHdfsService, new_folder

ONCE = frozenset({"concat", "append"})
GROWING = frozenset({"concat"})


@pytest.fixture(scope="module")
def door(hdfs: Hdfs) -> Iterator[Door]:
    """One for all, since a client is kept for each address."""
    with Door(("127.0.0.1", hdfs.rpc_port)) as door:
        yield door


class Once(ChunkSubject):
    """Chunks that are written once."""

    missing = ONCE
    deviations = HDFS
    name_bytes_max = 1_024 - len(new_folder()) - 1
    model_runs = 4

    @pytest.fixture
    def service(self, hdfs: Hdfs) -> ChunkService:
        return HdfsService(server=hdfs)


class TestHdfs(
    Once,
    CapabilityChecks,
    CreateChecks,
    WholeChecks,
    ReadChecks,
    StatChecks,
    DeleteChecks,
    SealChecks,
    SpaceChecks,
    NameChecks,
    CloseChecks,
    OutcomeChecks,
    ProcessChecks,
    ModelChecks,
):
    """All verbs; the model lists as well."""


@pytest.mark.soak
class TestHdfsWholly(Once, ChunkStorageContract):
    """All of it, with very many listings."""


class Growing(ChunkSubject):
    """Chunks that are appended to."""

    missing = GROWING
    deviations = HDFS

    @pytest.fixture
    def service(self, hdfs: Hdfs) -> ChunkService:
        return HdfsService(server=hdfs, more={"unsafe_append": True})


class TestGrowing(Growing, WriteChecks):
    """What differs from chunks that are written once; the rest is the same code."""


@pytest.mark.soak
class TestGrowingWholly(Growing, ChunkStorageContract):
    """All of it."""

    name_bytes_max = 1_024 - len(new_folder()) - 1


class TestHdfsThroughADoor(StopChecks):
    """Through a door that can make it silent, because to end and start it takes too long."""

    missing = GROWING
    # The SDK may take a connection for a whole one while it still learns that it was reset.
    tries_after_stop = 2

    @pytest.fixture
    def service(self, hdfs: Hdfs, door: Door) -> ChunkService:
        return StoppableHdfsService(server=hdfs, door=door, more={"unsafe_append": True})
