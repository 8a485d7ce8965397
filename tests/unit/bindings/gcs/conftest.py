"""A stub of the service, and a client of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from siltstone.bindings.gcs import proving
from siltstone.bindings.gcs.chunk_storage import GcsChunkStorage
from tests.unit.bindings.gcs.stub import Stub, running


@pytest.fixture(autouse=True)
def _forget_proofs() -> Iterator[None]:
    yield
    proving._proven.clear()


@pytest.fixture
def stub() -> Iterator[Stub]:
    with running(Stub()) as stub:
        yield stub


@pytest.fixture
def storage(stub: Stub) -> Iterator[GcsChunkStorage]:
    """A client that has proven its service already, so that requests can be counted."""
    storage = GcsChunkStorage(stub.settings())
    proving.prove(storage.service)
    stub.asked.clear()
    yield storage
    storage.close()
