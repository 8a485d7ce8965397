"""The binding ``memory`` keeps the contract, whatever service it plays."""

from __future__ import annotations

import pytest

from siltstone.bindings.memory.chunk_storage import Profile
from siltstone.testing.chunk_checks.stops import StopChecks
from siltstone.testing.chunk_storage_contract import ChunkService, ChunkStorageContract
from siltstone.testing.faults.faulty_chunk_storage import Fate
from tests.support.services.local_services import BucketService, StoppableBucket


class TestAll(ChunkStorageContract):
    listed_count = 2_500
    model_runs = 60

    @pytest.fixture
    def service(self) -> ChunkService:
        return BucketService()


class TestWriteOnceInSmallPages(ChunkStorageContract):
    missing = frozenset({"append", "concat", "seal"})

    @pytest.fixture
    def service(self) -> ChunkService:
        profile = Profile(append=False, concat=False, seal=False, list_page_count=2)
        return BucketService(profile=profile)


class TestLimited(ChunkStorageContract):
    @pytest.fixture
    def service(self) -> ChunkService:
        profile = Profile(
            concat_part_bytes_min=8,
            concat_part_bytes_max=64,
            concat_parts_max=5,
            appends_max=6,
            chunk_bytes_max=50_000,
            list_page_count=3,
            latency_s=0.0005,
        )
        return BucketService(profile=profile)


class TestOutOfOrder(StopChecks):
    """Each way in which a call may fail is told as it is."""

    @pytest.fixture(params=[fate for fate in Fate if fate is not Fate.DONE])
    def service(self, request: pytest.FixtureRequest) -> ChunkService:
        return StoppableBucket(fate=request.param)
