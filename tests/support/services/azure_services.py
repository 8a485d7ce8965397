"""Containers of a real server, as services of the contract."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from services.azurite import Azurite
from siltstone.bindings.azure import proof
from siltstone.bindings.azure.chunk_storage import AzureChunkStorage
from siltstone.bindings.azure.settings import AzureSettings, Blobs
from siltstone.core.chunk_storage import ChunkStorage
from tests.support.services.local_services import as_it_is
from tests.support.services.raw_azure import RawAzure


def new_container(server: Azurite) -> tuple[str, RawAzure]:
    """Make a container that was never used."""
    name = f"c-{os.urandom(6).hex()}"
    raw = RawAzure(server.endpoint, name, server.key_id, server.secret)
    raw.make_container()
    return name, raw


def options_of(server: Azurite, container: str, **more: Any) -> dict[str, Any]:
    """Settings of the binding, as they stand in a file."""
    options: dict[str, Any] = {
        "container": container,
        "endpoint": server.endpoint,
        "insecure": server.certificate is None,
        "account": server.key_id,
        "account_key": server.secret,
    }
    return {key: value for key, value in (options | more).items() if value is not None}


def settings_of(server: Azurite, container: str, **more: Any) -> AzureSettings:
    """Settings of the binding, checked."""
    return AzureSettings.model_validate(options_of(server, container, **more))


def take_for_proven(settings: AzureSettings) -> None:
    """Let no storage of this process prove the container, which costs requests in every test."""
    for blobs in Blobs:
        proof.PROOFS.take((settings.account_url, settings.container, blobs))


@dataclass(kw_only=True)
class AzureService:
    """A container of a real server; seen from outside by plain HTTP.

    What a process proves of a container before it changes it is tried elsewhere, once.
    """

    server: Azurite
    more: dict[str, Any] = field(default_factory=dict)
    wrap: Callable[[ChunkStorage], ChunkStorage] = as_it_is

    def __post_init__(self) -> None:
        self.container, self.raw = new_container(self.server)
        self.settings = settings_of(self.server, self.container, **self.more)
        take_for_proven(self.settings)

    def open(self) -> ChunkStorage:
        return self.wrap(AzureChunkStorage(self.settings))

    def outside_read(self, name: str) -> bytes | None:
        return self.raw.read(self.settings.folder + name)

    def outside_names(self) -> list[str]:
        folder = self.settings.folder
        return [name[len(folder) :] for name in self.raw.names(folder)]

    def outside_write(self, name: str, content: bytes) -> None:
        # Appends to a block blob are refused, whichever client made it.
        appends = self.settings.blobs is Blobs.APPEND
        write = self.raw.write_appended if appends else self.raw.write
        write(self.settings.folder + name, content)
