"""Places for collections that the suite of consensus runs on."""

from __future__ import annotations

from dataclasses import dataclass, field

from siltstone.collections.consensus.memory import MemoryConsensus
from siltstone.collections.consensus.objects import ObjectConsensus
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.consensus import Consensus
from siltstone.core.environment import Environment
from siltstone.testing.chunk_checks.subject import ChunkService


class MemoryPlace:
    """One consensus in memory; every client is the same one."""

    def __init__(self) -> None:
        self._consensus: MemoryConsensus | None = None

    def open(self, environment: Environment) -> Consensus:
        self._consensus = self._consensus or MemoryConsensus(environment)
        return self._consensus


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectPlace:
    """Objects of a service that keeps chunks; each client has a storage of its own.

    Attributes:
        chunks: the service.
        opened: every storage so far, for ``close``.
    """

    chunks: ChunkService
    opened: list[ChunkStorage] = field(default_factory=list)

    def open(self, environment: Environment) -> Consensus:
        return ObjectConsensus(self.storage(), environment)

    def storage(self) -> ChunkStorage:
        storage = self.chunks.open()
        self.opened.append(storage)
        return storage

    def over(self, storage: ChunkStorage, environment: Environment) -> Consensus:
        return ObjectConsensus(storage, environment)

    def close(self) -> None:
        """Close every storage."""
        for storage in self.opened:
            storage.close()
