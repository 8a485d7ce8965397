"""One container and one folder in it, as all parts of the binding share them."""

from __future__ import annotations

from azure.storage.blob import BlobClient

from siltstone.bindings.azure.client import make_client, make_session
from siltstone.bindings.azure.settings import AzureSettings
from siltstone.core.errors import ChunkNameError
from siltstone.core.remote.remote_client import RemoteClient


class Service(RemoteClient):
    """A client; its threads are for blocks.

    Attributes:
        settings: as they were given.
        account: a client of the SDK for the whole account.
        container: one for the container; both are used by threads at a time.
    """

    def __init__(self, settings: AzureSettings) -> None:
        super().__init__(
            "azure",
            folder=settings.folder,
            deadline_s=settings.deadline_s,
            threads=settings.upload_threads,
        )
        self.settings = settings
        self._session = make_session(settings)
        self.account = make_client(settings, self._session)
        self.container = self.account.get_container_client(settings.container)

    def key(self, name: str, operation: str) -> str:
        """See the base class; refuses what the service would change."""
        key = super().key(name, operation)
        if "\\" in name:
            raise ChunkNameError(
                "the service takes a backslash for a slash", chunk=ascii(name), operation=operation
            )
        return key

    def blob(self, key: str) -> BlobClient:
        """A client of one blob, with the connections of all."""
        return self.container.get_blob_client(key)

    def _close_sockets(self) -> None:
        self.account.close()
        self._session.close()
