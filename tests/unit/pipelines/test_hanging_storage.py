"""A job whose storage does not answer ends, since each of its calls has a deadline."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest

from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.core.chunk_storage import ChunkStat
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import ChunkUnavailableError
from siltstone.core.storage.deadline import DeadlineChunkStorage
from siltstone.pipelines.local_executor import on_threads
from siltstone.pipelines.work import ItemOutcome


class Silent(MemoryChunkStorage):
    """Does not answer until the test allows it."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = threading.Event()

    def stat(self, name: str) -> ChunkStat:
        assert self.answers.wait(120)
        return super().stat(name)


@dataclass(frozen=True, slots=True)
class One:
    """An item of one byte."""

    size: int = 1


def test_a_job_ends_whose_calls_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("siltstone.core.environment.END_S", 0.01)
    service = Silent()
    storage = DeadlineChunkStorage(service, SystemEnvironment(), deadline_s=0.05)

    def step(item: One) -> ItemOutcome:
        storage.stat("a")
        raise AssertionError("it has answered")

    try:
        with pytest.raises(ChunkUnavailableError, match="no answer before the deadline"):
            list(on_threads(step, [[One()] for _ in range(4)], 2))
    finally:
        service.answers.set()
