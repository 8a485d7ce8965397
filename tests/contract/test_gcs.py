"""The binding ``gcs`` keeps the contract, on a stub of the service and on a third-party server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from services.fake_gcs import FakeGcs
from siltstone.bindings.gcs import lists
from siltstone.testing.chunk_checks.abilities import ConcatChecks
from siltstone.testing.chunk_checks.closes import CloseChecks
from siltstone.testing.chunk_checks.deletes import DeleteChecks
from siltstone.testing.chunk_checks.lists import ListChecks
from siltstone.testing.chunk_checks.races import RaceChecks
from siltstone.testing.chunk_checks.reads import ReadChecks, StatChecks
from siltstone.testing.chunk_checks.writes import CreateChecks
from siltstone.testing.chunk_storage_contract import ChunkService, ChunkStorageContract
from siltstone.testing.deviations import Deviation
from siltstone.testing.known_deviations import FAKE_GCS
from tests.support.services.gcs_services import TOKEN, on_fake, on_stub
from tests.support.stubs.gcs_stub import Stub
from tests.support.stubs.gcs_stub_server import StubServer, serving

MISSING = frozenset({"append", "seal"})


LISTED, PAGE = 230, 100
"""Chunks of a long listing, and of a page of it; a page of the service's own is 1,000 keys."""


IN_THIS_PROCESS = (
    Deviation(
        check="test_opening_and_closing_leaves_nothing_open",
        service="the stub",
        why="it is in this process, so its ends of connections are counted until it closes them",
        is_certain=False,
    ),
)


@pytest.fixture(scope="module")
def stub_server() -> Iterator[StubServer]:
    with serving() as server:
        yield server


@pytest.fixture
def stub(stub_server: StubServer) -> Stub:
    return stub_server.use(Stub())


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask for pages of which a listing needs several."""
    monkeypatch.setattr(lists, "PAGE", PAGE)


@pytest.mark.services
class TestStub(ChunkStorageContract):
    missing = MISSING
    deviations = IN_THIS_PROCESS
    secrets = (TOKEN,)
    listed_count = LISTED

    @pytest.fixture
    def service(self, stub: Stub, small_pages: None) -> ChunkService:
        return on_stub(stub)


@pytest.mark.services
class TestStubInPieces(CreateChecks, ConcatChecks):
    """Below a prefix, and in pieces for all that is longer than three bytes."""

    missing = MISSING

    @pytest.fixture
    def service(self, stub: Stub) -> ChunkService:
        return on_stub(stub, prefix="stores/one/", put_bytes_max=3, piece_bytes="256KiB")


class TestFakeGcs(
    CreateChecks,
    DeleteChecks,
    ReadChecks,
    StatChecks,
    ListChecks,
    RaceChecks,
    ConcatChecks,
    CloseChecks,
):
    """What a server decides; the rest is decided before one is asked, and is tested on the stub."""

    missing = MISSING
    deviations = FAKE_GCS
    listed_count = LISTED

    @pytest.fixture
    def service(self, fake_gcs_server: FakeGcs, small_pages: None) -> ChunkService:
        return on_fake(fake_gcs_server)


@pytest.mark.soak
class TestFakeGcsWhole(ChunkStorageContract):
    missing = MISSING
    deviations = FAKE_GCS
    listed_count = 1_025

    @pytest.fixture
    def service(self, fake_gcs_server: FakeGcs) -> ChunkService:
        return on_fake(fake_gcs_server)


class TestFakeGcsInPieces(CreateChecks):
    missing = MISSING

    @pytest.fixture
    def service(self, fake_gcs_server: FakeGcs) -> ChunkService:
        return on_fake(fake_gcs_server, prefix="stores/one/", put_bytes_max=3, piece_bytes="256KiB")
