"""A stub of the service, and a client of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from siltstone.bindings.gcs import proof
from siltstone.bindings.gcs.chunk_storage import GcsChunkStorage
from tests.support.stubs.gcs_stub import Stub
from tests.support.stubs.gcs_stub_server import StubServer, serving


@pytest.fixture(autouse=True)
def _forget_proofs() -> Iterator[None]:
    yield
    proof.PROOFS.forget()


@pytest.fixture(scope="module")
def stub_server() -> Iterator[StubServer]:
    with serving() as server:
        yield server


@pytest.fixture
def stub(stub_server: StubServer) -> Stub:
    return stub_server.use(Stub())


@pytest.fixture
def storage(stub: Stub) -> Iterator[GcsChunkStorage]:
    """A client that has proven its service already, so that requests can be counted."""
    storage = GcsChunkStorage(stub.settings())
    proof.prove(storage.service)
    stub.asked.clear()
    yield storage
    storage.close()
