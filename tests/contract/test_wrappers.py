"""Each wrapper keeps the contract, whatever else it does.

Over a service that can do everything; where more than delegation is at stake, over files too, the
cache always and the others in soaks.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.environment import SystemEnvironment
from siltstone.core.metrics import Metrics
from siltstone.core.storage.bandwidth import Bandwidth
from siltstone.core.storage.block_cache import SLOT_BYTES, BlockCache
from siltstone.core.storage.cached import CachedChunkStorage
from siltstone.core.storage.deadline import DeadlineChunkStorage
from siltstone.core.storage.limited import Bandwidths, LimitedChunkStorage
from siltstone.core.storage.metered import MeteredChunkStorage
from siltstone.core.storage.optional_verbs import (
    Addresses,
    BulkDeletes,
    Leftovers,
    StreamedCreates,
    WholeCreates,
)
from siltstone.core.storage.retries import Retries, RetryingChunkStorage
from siltstone.testing.chunk_storage_contract import ChunkService, ChunkStorageContract
from siltstone.testing.faults.faulty_chunk_storage import FaultyChunkStorage
from siltstone.testing.faults.slow_chunk_storage import SlowChunkStorage, Slowness
from tests.support.services.local_services import BucketService, FolderService

WRAPPERS = [
    CachedChunkStorage,
    DeadlineChunkStorage,
    FaultyChunkStorage,
    LimitedChunkStorage,
    MeteredChunkStorage,
    RetryingChunkStorage,
    SlowChunkStorage,
]


def retrying(storage: ChunkStorage) -> ChunkStorage:
    retries = Retries(attempts=4, deadline_s=30.0)
    return RetryingChunkStorage(storage, SystemEnvironment(), retries)


@pytest.fixture
def cached(tmp_path: Path) -> Iterator[Callable[[ChunkStorage], ChunkStorage]]:
    """Gives clients of one service one common cache of four blocks."""
    cache = BlockCache(tmp_path / "cache", 4 * SLOT_BYTES, bytes(16))
    yield lambda storage: CachedChunkStorage(storage, cache, lambda name: True)
    assert cache.on, "no check made it fail"
    cache.close()


class TestCachedMemory(ChunkStorageContract):
    @pytest.fixture
    def service(self, cached: Callable[[ChunkStorage], ChunkStorage]) -> ChunkService:
        return BucketService(wrap=cached)


class TestCachedNfs(ChunkStorageContract):
    missing = frozenset({"concat"})

    @pytest.fixture
    def service(
        self, tmp_path: Path, cached: Callable[[ChunkStorage], ChunkStorage]
    ) -> ChunkService:
        return FolderService(root=tmp_path / "chunks", wrap=cached)


def limited(storage: ChunkStorage) -> ChunkStorage:
    """A limit that no check reaches, because real time would pass."""
    environment = SystemEnvironment()
    up, down = Bandwidth(environment, 2**40), Bandwidth(environment, 2**40)
    bandwidths = Bandwidths(up=up, down=down, longest_s=30.0)
    return LimitedChunkStorage(storage, environment, bandwidths)


def with_deadline(storage: ChunkStorage) -> ChunkStorage:
    """A deadline that no check reaches."""
    return DeadlineChunkStorage(storage, SystemEnvironment(), deadline_s=600.0)


class TestDeadlineMemory(ChunkStorageContract):
    @pytest.fixture
    def service(self) -> ChunkService:
        return BucketService(wrap=with_deadline)


@pytest.mark.soak
class TestDeadlineNfs(ChunkStorageContract):
    missing = frozenset({"concat"})

    @pytest.fixture
    def service(self, tmp_path: Path) -> ChunkService:
        return FolderService(root=tmp_path / "chunks", wrap=with_deadline)


class TestLimitedMemory(ChunkStorageContract):
    @pytest.fixture
    def service(self) -> ChunkService:
        return BucketService(wrap=limited)


def slow(storage: ChunkStorage) -> ChunkStorage:
    slowness = Slowness(latency_s=0.0002, jitter_s=0.0005, stalls=0.01, stall_s=0.005)
    return SlowChunkStorage(storage, SystemEnvironment(), slowness)


class TestSlowMemory(ChunkStorageContract):
    @pytest.fixture
    def service(self) -> ChunkService:
        return BucketService(wrap=slow)


class EnabledMetrics(Metrics):
    """Keeps nothing, and takes everything."""

    enabled = True


def metered(storage: ChunkStorage) -> ChunkStorage:
    return MeteredChunkStorage(storage, SystemEnvironment(), EnabledMetrics())


class TestMeteredMemory(ChunkStorageContract):
    @pytest.fixture
    def service(self) -> ChunkService:
        return BucketService(wrap=metered)


class TestFaultyMemory(ChunkStorageContract):
    @pytest.fixture
    def service(self) -> ChunkService:
        return BucketService(wrap=FaultyChunkStorage)


class TestRetryingMemory(ChunkStorageContract):
    @pytest.fixture
    def service(self) -> ChunkService:
        return BucketService(wrap=retrying)


@pytest.mark.soak
class TestRetryingNfs(ChunkStorageContract):
    missing = frozenset({"concat"})

    @pytest.fixture
    def service(self, tmp_path: Path) -> ChunkService:
        return FolderService(root=tmp_path / "chunks", wrap=retrying)


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_wrapper_has_every_method(wrapper: type) -> None:
    """A default of the contract itself would silently skip the inner storage."""
    contract = {name for name in vars(ChunkStorage) if not name.startswith("_")}
    assert len(contract) == 12
    assert ChunkStorage not in wrapper.__mro__
    for name in sorted(contract - {"capabilities"}):
        theirs = inspect.signature(getattr(wrapper, name))
        assert theirs == inspect.signature(getattr(ChunkStorage, name)), name


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_wrapper_passes_on_what_is_optional(wrapper: type) -> None:
    for method in (
        BulkDeletes.delete_many,
        Leftovers.sweep_leftovers,
        Addresses.uri_of,
        StreamedCreates.create_from,
        WholeCreates.create_whole,
    ):
        assert inspect.signature(getattr(wrapper, method.__name__)) == inspect.signature(method)
