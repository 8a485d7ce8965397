"""The binding ``nfs`` keeps the contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from siltstone.testing.chunk_checks.abilities import SealChecks
from siltstone.testing.chunk_checks.deletes import DeleteChecks
from siltstone.testing.chunk_checks.lists import ListChecks
from siltstone.testing.chunk_checks.model import ModelChecks
from siltstone.testing.chunk_checks.overwrites import OverwriteChecks
from siltstone.testing.chunk_checks.reads import ReadChecks, StatChecks
from siltstone.testing.chunk_checks.stops import StopChecks
from siltstone.testing.chunk_checks.subject import ChunkSubject
from siltstone.testing.chunk_checks.writes import CreateChecks, WriteChecks
from siltstone.testing.chunk_storage_contract import ChunkService, ChunkStorageContract
from siltstone.testing.faults.file_layer import FileLayer
from siltstone.testing.faults.power_cut import PowerCut
from tests.support.services.local_services import FolderService, StoppableFolder


class TestNfs(ChunkStorageContract):
    missing = frozenset({"concat"})
    listed_count = 2_500

    @pytest.fixture
    def service(self, disk_path: Path) -> ChunkService:
        return FolderService(root=disk_path / "chunks")


class ThroughTheLayers(ChunkSubject):
    """The layers of the test kit change nothing while nothing is injected."""

    missing = frozenset({"concat"})

    @pytest.fixture
    def service(self, tmp_path: Path) -> ChunkService:
        return StoppableFolder(root=tmp_path / "chunks", layer=FileLayer(PowerCut(tmp_path)))


class TestNfsThroughTheLayers(
    ThroughTheLayers,
    CreateChecks,
    WriteChecks,
    OverwriteChecks,
    DeleteChecks,
    ReadChecks,
    StatChecks,
    ListChecks,
    SealChecks,
    StopChecks,
    ModelChecks,
):
    """Every call that a layer passes on."""


@pytest.mark.soak
class TestNfsThroughTheLayersWholly(ThroughTheLayers, ChunkStorageContract):
    """All of it."""
