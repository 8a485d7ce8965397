"""The binding ``azure`` keeps the contract on a real server, with both kinds of blobs."""

from __future__ import annotations

import pytest

from services.azurite import KEY, Azurite
from siltstone.bindings.azure import chunk_storage
from siltstone.testing.chunk_checks.abilities import ConcatChecks
from siltstone.testing.chunk_checks.subject import ChunkSubject
from siltstone.testing.chunk_checks.whole_creates import WholeChecks
from siltstone.testing.chunk_checks.writes import CreateChecks, WriteChecks
from siltstone.testing.chunk_storage_contract import ChunkService, ChunkStorageContract
from siltstone.testing.known_deviations import AZURITE
from tests.support.services.azure_services import AzureService

MISSING = {"append": frozenset({"concat"}), "block": frozenset({"append", "seal"})}


class TestAppendBlobs(ChunkStorageContract):
    missing = MISSING["append"]
    deviations = AZURITE
    secrets = (KEY,)

    @pytest.fixture
    def service(self, azurite: Azurite) -> ChunkService:
        return AzureService(server=azurite)


class BlockBlobs(ChunkSubject):
    """A service whose chunks are written once."""

    missing = MISSING["block"]
    secrets = (KEY,)

    @pytest.fixture
    def service(self, azurite: Azurite, monkeypatch: pytest.MonkeyPatch) -> ChunkService:
        monkeypatch.setattr(chunk_storage, "SOURCES_MAX", 40)
        return AzureService(server=azurite, more={"blobs": "block"})


class TestBlockBlobs(BlockBlobs, CreateChecks, WholeChecks, ConcatChecks):
    """What differs from append blobs; the rest is the same code."""


@pytest.mark.soak
class TestBlockBlobsWholly(BlockBlobs, ChunkStorageContract):
    """All of it."""

    deviations = AZURITE


@pytest.mark.soak
class TestAppendInBlocks(WriteChecks):
    """Below a prefix, and in several requests for what is large."""

    missing = MISSING["append"]

    @pytest.fixture
    def service(self, azurite: Azurite) -> ChunkService:
        more = {"prefix": "stores/one/", "block_bytes": 200_000}
        return AzureService(server=azurite, more=more)


@pytest.mark.soak
class TestStagedInBlocks(ConcatChecks):
    """The same for blocks."""

    missing = MISSING["block"]

    @pytest.fixture
    def service(self, azurite: Azurite, monkeypatch: pytest.MonkeyPatch) -> ChunkService:
        monkeypatch.setattr(chunk_storage, "SOURCES_MAX", 40)
        more = {
            "prefix": "stores/one/",
            "blobs": "block",
            "put_bytes_max": 3,
            "block_bytes": 200_000,
        }
        return AzureService(server=azurite, more=more)
