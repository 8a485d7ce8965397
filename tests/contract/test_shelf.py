"""A stranger's binding, found by its entry point, keeps the contract too."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.hooks import load_chunk_storage
from siltstone.testing.chunk_storage_contract import ChunkService, ChunkStorageContract
from tests.plugins.distribution import install


@dataclass
class ShelfService:
    chunks: dict[str, bytes] = field(default_factory=dict)

    def open(self) -> ChunkStorage:
        return load_chunk_storage("shelf", {"chunks": self.chunks})

    def outside_read(self, name: str) -> bytes | None:
        return self.chunks.get(name)

    def outside_names(self) -> list[str]:
        return list(self.chunks)

    def outside_write(self, name: str, content: bytes) -> None:
        self.chunks[name] = content


class TestShelf(ChunkStorageContract):
    missing = frozenset({"append", "concat", "seal", "used_space", "free_space"})

    @pytest.fixture
    def service(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ChunkService:
        install(monkeypatch, tmp_path, {"siltstone.bindings": {"shelf": "siltstone_shelf.plugin"}})
        return ShelfService()
