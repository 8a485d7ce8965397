"""The part that chunk storages of all services share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Never, TypeVar

from siltstone.core.chunk_storage import UNLIMITED, Capabilities, ChunkStat
from siltstone.core.remote.remote_client import RemoteClient


class RemoteChunkStorage(ABC):
    """Objects below one prefix of a service, whose capacity has no limit that it tells.

    Args:
        client: of the service; closed by ``close``.
        capabilities: what the service can do.
    """

    def __init__(self, client: RemoteClient, capabilities: Capabilities) -> None:
        self._client = client
        self._capabilities = capabilities

    def __reduce__(self) -> Never:
        raise TypeError(
            "a chunk storage holds connections and credentials, so it cannot be pickled: "
            "open another one from its settings"
        )

    @property
    def capabilities(self) -> Capabilities:
        """What the service can do, as the settings say."""
        return self._capabilities

    @abstractmethod
    def list(self, prefix: str = "", start_after: str = "") -> Iterator[ChunkStat]:
        """See ``ChunkStorage.list``."""

    def used_space(self) -> int:
        """The lengths of all chunks, added up: a listing of the whole prefix, so call it rarely."""
        return sum(found.length for found in self.list())

    def free_space(self) -> int:
        """The service has no limit that it tells."""
        self._client.check_open()
        return UNLIMITED

    def close(self) -> None:
        """Close the connections; parts of calls on their way are waited for."""
        self._client.close()


Storage = TypeVar("Storage", bound=RemoteChunkStorage)


def after_look(storage: Storage, look: Callable[[], None]) -> Storage:
    """Return ``storage`` after one look at its service; it is closed if that fails."""
    try:
        look()
    except BaseException:
        storage.close()
        raise
    return storage
