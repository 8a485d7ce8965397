"""Each consensus keeps the contract: in memory, and over objects of each kind of storage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

import siltstone
from siltstone.bindings.memory.chunk_storage import Profile
from siltstone.store.store import Store
from siltstone.testing.consensus_checks.commits import BeginChecks, CommitChecks, LinkChecks
from siltstone.testing.consensus_checks.late_creates import LateCreateChecks
from siltstone.testing.consensus_checks.model import ConsensusModelChecks
from siltstone.testing.consensus_checks.races import ConsensusRaceChecks
from siltstone.testing.consensus_checks.subject import ConsensusSubject
from siltstone.testing.consensus_checks.truncations import SweepChecks, TruncationChecks
from siltstone.testing.consensus_contract import ConsensusContract, ConsensusService
from tests.support.memory_folder import folder_in_memory
from tests.support.services.consensus_places import MemoryPlace, ObjectPlace
from tests.support.services.local_services import BucketService, FolderService
from tests.support.services.table_places import TablePlace, table_store


class TestMemory(ConsensusContract):
    @pytest.fixture
    def service(self) -> ConsensusService:
        return MemoryPlace()


@pytest.fixture(scope="module")
def owned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    place = folder_in_memory(tmp_path_factory.mktemp("table"))
    with place as folder, siltstone.open(table_store(folder)) as store:
        yield store


class TestTable(
    BeginChecks,
    CommitChecks,
    LinkChecks,
    TruncationChecks,
    SweepChecks,
    ConsensusRaceChecks,
    ConsensusModelChecks,
):
    """All checks but those of places on long-term storage, each in a table of its own."""

    @pytest.fixture
    def service(self, owned: Store) -> ConsensusService:
        return TablePlace(owned, f"_system/{uuid4()}")


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
