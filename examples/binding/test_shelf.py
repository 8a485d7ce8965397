"""The binding ``shelf`` keeps the contract: the published suite, as a subclass."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from siltstone_shelf.shelf import PAGE

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.hooks import load_chunk_storage
from siltstone.testing.chunk_storage_contract import ChunkService, ChunkStorageContract


@dataclass
class ShelfService:
    """The file, seen from outside by SQL. It can be stopped: another connection locks it."""

    path: Path
    deadline_s: float = 30.0
    locks: list[sqlite3.Connection] = field(default_factory=list)

    def open(self) -> ChunkStorage:
        # Through its entry point, as a store finds it.
        settings = {"path": str(self.path), "deadline_s": self.deadline_s}
        return load_chunk_storage("shelf", settings)

    def outside_read(self, name: str) -> bytes | None:
        rows = self._ask("SELECT content FROM chunks WHERE name = ?", name.encode())
        return bytes(rows[0][0]) if rows else None

    def outside_names(self) -> list[str]:
        if not self.path.exists():
            return []
        return [bytes(row[0]).decode() for row in self._ask("SELECT name FROM chunks")]

    def outside_write(self, name: str, content: bytes) -> None:
        values = (name.encode(), content)
        self._ask("INSERT OR REPLACE INTO chunks (name, content) VALUES (?, ?)", *values)

    def stop(self) -> None:
        lock = sqlite3.connect(self.path, isolation_level=None)
        lock.execute("BEGIN EXCLUSIVE")
        self.locks.append(lock)

    def start(self) -> None:
        for lock in self.locks:
            lock.close()
        self.locks.clear()

    def _ask(self, query: str, *values: bytes) -> list[tuple[bytes, ...]]:
        with self._connection() as connection:
            return connection.execute(query, values).fetchall()

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            yield connection


class TestShelf(ChunkStorageContract):
    missing = frozenset({"append", "concat", "seal", "free_space"})
    listed_count = 2 * PAGE + 3  # Three pages, so that chunks lost between pages are noticed.

    @pytest.fixture
    def service(self, tmp_path: Path, request: pytest.FixtureRequest) -> ChunkService:
        # A call that waits for a stopped service should not wait long.
        is_stopped = "stoppable" in request.fixturenames
        return ShelfService(tmp_path / "shelf.db", 0.05 if is_stopped else 30.0)
