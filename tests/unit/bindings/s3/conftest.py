"""A stub of the service, and a client of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from siltstone.bindings.s3 import proof
from siltstone.bindings.s3.chunk_storage import S3ChunkStorage
from tests.support.stubs.s3_stub import Stub, running


@pytest.fixture(autouse=True)
def _forget_proofs() -> Iterator[None]:
    yield
    proof.PROOFS.forget()


@pytest.fixture
def stub() -> Iterator[Stub]:
    with running(Stub()) as stub:
        yield stub


@pytest.fixture
def storage(stub: Stub) -> Iterator[S3ChunkStorage]:
    """A client that has proven its service already, so that requests can be counted."""
    storage = S3ChunkStorage(stub.settings())
    proof.prove(storage.service)
    stub.asked.clear()
    yield storage
    storage.close()
