"""A container of a real server, reached by a proxy that counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from services.azurite import Azurite
from siltstone.bindings.azure.chunk_storage import AzureChunkStorage
from siltstone.testing.faults.fault_proxy import FaultProxy
from tests.support.services.azure_services import new_container, options_of, take_for_proven
from tests.support.services.raw_azure import RawAzure


@dataclass
class Counted:
    """A storage, and the requests that it sends to the service."""

    storage: AzureChunkStorage
    proxy: FaultProxy
    raw: RawAzure
    options: dict[str, Any]

    def whats(self) -> list[str]:
        """Method and service part of each request so far; the requests are then forgotten."""
        found = []
        for request in self.proxy.requests:
            query = request.target.partition("?")[2]
            asked = [part[5:] for part in query.split("&") if part.startswith("comp=")]
            found.append(f"{request.method} {''.join(asked)}".strip())
        self.proxy.forget()
        return found


NewCounted = Callable[..., Counted]


@pytest.fixture
def counted(azurite: Azurite) -> Iterator[NewCounted]:
    from siltstone.bindings.azure.settings import AzureSettings

    made: list[AzureChunkStorage] = []
    with FaultProxy(("127.0.0.1", azurite.port)) as proxy:

        def make(*, is_proven: bool = True, **more: Any) -> Counted:
            container, raw = new_container(azurite)
            endpoint = f"{proxy.endpoint}/{azurite.key_id}"
            options = options_of(azurite, container, endpoint=endpoint, **more)
            storage = AzureChunkStorage(AzureSettings.model_validate(options))
            made.append(storage)
            if is_proven:
                take_for_proven(storage.service.settings)
            return Counted(storage, proxy, raw, options)

        yield make
        for storage in made:
            storage.close()
