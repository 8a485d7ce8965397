"""What all collections of a store share in one process: clients, threads, time, and settings."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from siltstone.collections.collection_meter import CollectionMeter
from siltstone.collections.consensus.plugin import OBJECTS
from siltstone.collections.rows.encode_parts import PART_BYTES
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.consensus import (
    ClosableConsensus,
    CommitsOnLoop,
    Committed,
    Consensus,
    PinnableConsensus,
    SecurableConsensus,
    Taken,
    Tip,
    Undecided,
)
from siltstone.core.constants import Buffer
from siltstone.core.environment import Environment, own_pool
from siltstone.core.errors import LostDataError, OutcomeUnknownError, StoreNotFoundError
from siltstone.core.metrics import NO_METRICS, Metrics
from siltstone.core.records.collection_entry import Diff, Rollup
from siltstone.store.manifest import check_not_left
from siltstone.store.settings.effective import EffectiveSettings

T = TypeVar("T")

REQUEST_THREADS: Final = 16
"""Requests in flight: entries, and parts that are written or read whole."""

ROW_THREADS: Final = max(2, os.cpu_count() or 1)
"""Threads that encode, decode and merge rows; they read parts themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionSettings:
    """How this process uses collections.

    Attributes:
        part_bytes: of an object of rows, at most.
        compacts: whether commits of this process start compactions when they are due.
        poll_max_s: the longest pause between two looks for news of other processes.
        lease_ms: of readers, and of writers without a name that upload.
        garbage_delay_ms: how long parts stay for readers without a lease.
        consensus: what the collections of the store use, or will use from the first one on.
        consensus_options: what it gets; may hold secrets.
    """

    part_bytes: int = PART_BYTES
    compacts: bool = True
    poll_max_s: float = 10.0
    lease_ms: int = 15 * 60 * 1000
    garbage_delay_ms: int = 15 * 60 * 1000
    consensus: str = OBJECTS
    consensus_options: Mapping[str, Any] = field(default_factory=dict, repr=False)


def collection_settings(settings: EffectiveSettings) -> CollectionSettings:
    """What the settings file of a store says of collections."""
    chosen = settings.collections
    return CollectionSettings(
        part_bytes=chosen.part_size,
        compacts=chosen.compaction == "background",
        poll_max_s=chosen.poll_max,
        lease_ms=round(chosen.lease * 1000),
        garbage_delay_ms=round(settings.container.garbage_delay_s * 1000),
        consensus=chosen.consensus,
        consensus_options=settings.consensus_options,
    )


class CollectionPlace:
    """Where the collections of one store are, and by what this process reaches them.

    Args:
        storage: a client of long-term storage for callers that block; closed by ``close``.
        consensus: orders the changes of each collection; closed alike, if it can be.
        environment: gives time, randomness and threads.
        settings: of this process.
        store_id: of the store, 16 bytes.
        who: describes this process, for people.
        metrics: where its measurements go; closed by ``close``.
    """

    def __init__(
        self,
        *,
        storage: ChunkStorage,
        consensus: Consensus,
        environment: Environment,
        settings: CollectionSettings,
        store_id: bytes,
        who: str,
        metrics: Metrics = NO_METRICS,
    ) -> None:
        self.storage = storage
        self.consensus = consensus
        self.environment = environment
        self.settings = settings
        self.store_id = store_id
        self.who = who
        self._metrics = metrics
        self._commits_on_loop = consensus if isinstance(consensus, CommitsOnLoop) else None
        self._requests = own_pool("collections", REQUEST_THREADS)
        self._rows = own_pool("collection-rows", ROW_THREADS)

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return int(self.environment.time() * 1000)

    def random_u64(self) -> int:
        """See ``random_u64``."""
        return random_u64(self.environment)

    def ask(self, call: Callable[[], T]) -> Awaitable[T]:
        """Make a call of long-term storage or consensus on a thread.

        Raises what it raises; and ``StoreNotFoundError`` where it lacks something since the store
        was switched to another long-term storage.
        """
        return self.environment.run_blocking(self._requests, lambda: self._explained(call))

    def work(self, call: Callable[[], T]) -> Awaitable[T]:
        """Run work on rows on a thread."""
        return self.environment.run_blocking(self._rows, call)

    def meter(self, collection_id: bytes) -> CollectionMeter:
        """What measures a collection."""
        return CollectionMeter(self._metrics, collection_id)

    def commit(
        self, tip: Tip, diff: Diff, link: Rollup | None
    ) -> Awaitable[Committed | Taken | Undecided]:
        """``Consensus.commit``, on a thread only where it blocks."""
        if self._commits_on_loop is not None:
            return self._commits_on_loop.commit_on_loop(tip, diff, link)
        return self.ask(lambda: self.consensus.commit(tip, diff, link))

    async def secure(self) -> None:
        """Let no loss but that of long-term storage undo what was committed until now.

        Before objects are deleted that older states name.
        """
        if isinstance(self.consensus, SecurableConsensus):
            await self.ask(self.consensus.secure)

    async def is_pinned(self) -> bool:
        """Whether a reader without a lease needs objects, so that none may be deleted now."""
        if isinstance(self.consensus, PinnableConsensus):
            return await self.ask(self.consensus.is_pinned)
        return False

    def _explained(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except LostDataError:
            check_not_left(self.storage)
            raise
        except OutcomeUnknownError as error:
            if isinstance(error.__cause__, LostDataError):
                try:
                    check_not_left(self.storage)
                except StoreNotFoundError as left:  # A try before that may have counted.
                    raise OutcomeUnknownError(f"outcome is unknown, and {left}") from left
            raise

    def close(self) -> None:
        """Close consensus and storage, after their last use. Blocking."""
        self._metrics.close()
        try:
            if isinstance(self.consensus, ClosableConsensus):
                self.consensus.close()
        finally:
            self.storage.close()

    def read(self, name: str, offset: int, length: int) -> Buffer:
        """Read bytes of an object. Blocking; raises ``ChunkError``."""
        return read_object(self.storage, name, offset, length)


def random_u64(environment: Environment) -> int:
    """A random number above 0 and below 2^64."""
    return int.from_bytes(environment.random_bytes(8), "little") or 1


def read_object(storage: ChunkStorage, name: str, offset: int, length: int) -> Buffer:
    """Read bytes of an object, fewer at its end. Blocking; raises ``ChunkError``."""
    buffer = bytearray(length)
    count = storage.read_into(name, offset, buffer)
    return memoryview(buffer)[:count]
