"""What a caller is told of an optional verb that a storage lacks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.core.chunk_storage import Capabilities
from siltstone.core.errors import CapabilityError
from siltstone.core.storage.optional_verbs import create_whole
from siltstone.core.storage.wrapper import WrappedChunkStorage
from siltstone.testing.chunk_checks.whole_creates import WholeChecks
from tests.support.services.local_services import BucketService


class Unable(MemoryChunkStorage):
    """A service with the verb, but without the condition that it rests on."""

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, whole=False)

    def uri_of(self, name: str) -> str:
        return f"far://bucket/{name}"


def test_a_whole_create_that_the_storage_cannot_do_names_chunk_and_storage() -> None:
    storage = Unable()
    for here in (storage, WrappedChunkStorage(storage)):
        assert not here.capabilities.whole
        with pytest.raises(CapabilityError) as caught:
            create_whole(here, "d/a", [b"x"])
        assert "chunk=d/a storage=far://bucket/" in str(caught.value)
    assert not list(storage.list())


def test_the_suite_sees_that_it_is_refused() -> None:
    service = BucketService()
    WholeChecks().test_service_without_whole_creates_says_so(Unable(service.bucket), service)
