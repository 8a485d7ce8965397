"""A server of Azure Blob Storage with its data in memory, and clients of one container of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from azure.core.credentials import AzureNamedKeyCredential
from azure.storage.blob import BlobServiceClient, ContainerClient

from bench.s3_place import temporary_files_in_memory
from services.azurite import Azurite
from services.catalogue import SERVICES
from siltstone.bindings.azure.chunk_storage import AzureChunkStorage
from siltstone.bindings.azure.settings import AzureSettings
from siltstone.core.storage.optional_verbs import delete_many

NAME = "azurite"
CONTAINER = "bench"
LARGEST_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class AzurePlace:
    """A container.

    Attributes:
        server: where it is.
        sdk: the container in the SDK, as fast as it gets: no repetitions, whole blobs by one
            request, and no requests besides what is measured.
    """

    server: Azurite
    sdk: ContainerClient

    @property
    def options(self) -> dict[str, Any]:
        """Settings of the binding."""
        return {
            "container": CONTAINER,
            "endpoint": self.server.endpoint,
            "insecure": True,
            "account": self.server.key_id,
            "account_key": self.server.secret,
        }

    @contextmanager
    def storage(self, **more: Any) -> Iterator[AzureChunkStorage]:
        """The binding, which has proven the container already."""
        storage = AzureChunkStorage(AzureSettings.model_validate({**self.options, **more}))
        storage.create("proof", [b"x"])
        storage.delete("proof")
        try:
            yield storage
        finally:
            storage.close()

    def empty(self) -> None:
        """Remove all blobs."""
        with self.storage() as storage:
            delete_many(storage, [found.name for found in storage.list()])


@contextmanager
def azure_place() -> Iterator[AzurePlace]:
    """Run a server.

    Raises:
        UnavailableError: its program is not here.
    """
    program = SERVICES[NAME].installed()
    with temporary_files_in_memory():
        server = Azurite(program)
    with server:
        server.start()
        client = BlobServiceClient(
            server.endpoint,
            credential=AzureNamedKeyCredential(server.key_id, server.secret),
            retry_total=0,
            max_single_put_size=LARGEST_BYTES,
            max_single_get_size=LARGEST_BYTES,
            connection_data_block_size=2**20,
        )
        try:
            yield AzurePlace(server=server, sdk=client.create_container(CONTAINER))
        finally:
            client.close()
