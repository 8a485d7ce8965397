"""The binding ``gcs`` keeps the contract, on a stub of the service and on a server of others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from services.fake_gcs import FakeGcs
from siltstone.testing.chunk_checks.abilities import ConcatChecks
from siltstone.testing.chunk_checks.deleting import DeleteChecks
from siltstone.testing.chunk_checks.writing import CreateChecks
from siltstone.testing.chunk_storage_contract import ChunkService, ChunkStorageContract
from siltstone.testing.known_deviations import FAKE_GCS
from tests.contract.gcs_services import TOKEN, on_fake, on_stub
from tests.unit.bindings.gcs.stub import Stub, running

MISSING = frozenset({"append", "seal"})


@pytest.fixture
def stub() -> Iterator[Stub]:
    with running(Stub()) as answering:
        yield answering


class TestStub(ChunkStorageContract):
    missing = MISSING
    secrets = (TOKEN,)
    listed_count = 1_025

    @pytest.fixture
    def service(self, stub: Stub) -> ChunkService:
        return on_stub(stub)


class TestStubInPieces(CreateChecks, DeleteChecks, ConcatChecks):
    """Below a prefix, and in pieces for all that is longer than three bytes."""

    missing = MISSING

    @pytest.fixture
    def service(self, stub: Stub) -> ChunkService:
        return on_stub(stub, prefix="stores/one/", put_bytes_max=3, piece_bytes="256KiB")


class TestFakeGcs(ChunkStorageContract):
    missing = MISSING
    deviations = FAKE_GCS
    listed_count = 1_025

    @pytest.fixture
    def service(self, fake_gcs_server: FakeGcs) -> ChunkService:
        return on_fake(fake_gcs_server)


class TestFakeGcsInPieces(CreateChecks, DeleteChecks, ConcatChecks):
    missing = MISSING

    @pytest.fixture
    def service(self, fake_gcs_server: FakeGcs) -> ChunkService:
        return on_fake(fake_gcs_server, prefix="stores/one/", put_bytes_max=3, piece_bytes="256KiB")
