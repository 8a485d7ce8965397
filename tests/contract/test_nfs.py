"""The binding ``nfs`` keeps the contract."""

from __future__ import annotations

from pathlib import Path

import pytest

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


class TestNfsThroughTheLayers(ChunkStorageContract):
    """The layers of the test kit change nothing while nothing is injected."""

    missing = frozenset({"concat"})

    @pytest.fixture
    def service(self, tmp_path: Path) -> ChunkService:
        return StoppableFolder(root=tmp_path / "chunks", layer=FileLayer(PowerCut(tmp_path)))
