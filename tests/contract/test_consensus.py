"""Each consensus keeps the contract: in memory, and over objects of each kind of storage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from siltstone.bindings.memory.chunk_storage import Profile
from siltstone.testing.consensus_checks.commits import BeginChecks, CommitChecks, LinkChecks
from siltstone.testing.consensus_checks.late_creates import LateCreateChecks
from siltstone.testing.consensus_checks.races import ConsensusRaceChecks
from siltstone.testing.consensus_checks.subject import ConsensusSubject
from siltstone.testing.consensus_checks.truncations import SweepChecks, TruncationChecks
from siltstone.testing.consensus_contract import ConsensusContract, ConsensusService
from tests.support.memory_folder import folder_in_memory
from tests.support.services.consensus_places import MemoryPlace, ObjectPlace
from tests.support.services.local_services import BucketService, FolderService


class TestMemory(ConsensusContract):
    @pytest.fixture
    def service(self) -> ConsensusService:
        return MemoryPlace()


class TestObjectsInMemory(ConsensusContract):
    @pytest.fixture
    def service(self) -> ConsensusService:
        return ObjectPlace(chunks=BucketService())


class TestObjectsInSmallPages(BeginChecks, TruncationChecks, SweepChecks, ConsensusRaceChecks):
    """Where a listing takes many requests."""

    @pytest.fixture
    def service(self) -> ConsensusService:
        profile = Profile(append=False, concat=False, seal=False, list_page_count=2)
        return ObjectPlace(chunks=BucketService(profile=profile))


class Files(ConsensusSubject):
    """Files in a folder, of which no check wants to know whether they survive a power cut."""

    @pytest.fixture
    def service(self, tmp_path: Path) -> Iterator[ConsensusService]:
        with folder_in_memory(tmp_path) as folder:
            yield ObjectPlace(chunks=FolderService(root=folder / "chunks"))


class TestObjectsInFiles(
    Files,
    BeginChecks,
    CommitChecks,
    LinkChecks,
    TruncationChecks,
    SweepChecks,
    ConsensusRaceChecks,
    LateCreateChecks,
):
    """What a service decides; what a consensus does about failures is the same everywhere."""


@pytest.mark.soak
class TestObjectsInFilesWholly(Files, ConsensusContract):
    """All of it."""
