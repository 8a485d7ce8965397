"""Each consensus keeps the contract: in memory, and over objects of each kind of storage."""

from __future__ import annotations

import pytest

from siltstone.bindings.memory.chunk_storage import Profile
from siltstone.testing.consensus_contract import ConsensusContract, ConsensusService
from tests.support.services.consensus_places import MemoryPlace, ObjectPlace
from tests.support.services.local_services import BucketService


class TestMemory(ConsensusContract):
    @pytest.fixture
    def service(self) -> ConsensusService:
        return MemoryPlace()


class TestObjectsInMemory(ConsensusContract):
    @pytest.fixture
    def service(self) -> ConsensusService:
        return ObjectPlace(chunks=BucketService())


class TestObjectsInSmallPages(ConsensusContract):
    @pytest.fixture
    def service(self) -> ConsensusService:
        profile = Profile(append=False, concat=False, seal=False, list_page_count=2)
        return ObjectPlace(chunks=BucketService(profile=profile))
