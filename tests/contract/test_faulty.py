"""The wrapper that injects faults keeps the contract while it injects none."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.testing.chunk_storage_contract import ChunkService, ChunkStorageContract
from siltstone.testing.faulty_chunk_storage import FaultyChunkStorage
from tests.contract.services import BucketService, FolderService

WRAPPERS = [FaultyChunkStorage]


class TestFaultyMemory(ChunkStorageContract):
    @pytest.fixture
    def service(self) -> ChunkService:
        return BucketService(wrap=FaultyChunkStorage)


class TestFaultyNfs(ChunkStorageContract):
    missing = frozenset({"concat"})

    @pytest.fixture
    def service(self, tmp_path: Path) -> ChunkService:
        return FolderService(root=tmp_path / "chunks", wrap=FaultyChunkStorage)


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_wrapper_defines_every_method_itself(wrapper: type) -> None:
    """An inherited default would silently skip the inner storage."""
    contract = {name for name in vars(ChunkStorage) if not name.startswith("_")}
    assert len(contract) == 11
    assert contract <= set(vars(wrapper))
    for name in sorted(contract - {"capabilities"}):
        theirs = inspect.signature(getattr(wrapper, name))
        assert theirs == inspect.signature(getattr(ChunkStorage, name)), name
