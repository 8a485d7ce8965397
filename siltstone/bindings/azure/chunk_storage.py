"""Chunk storage in a container.

What makes it safe: a blob appears by one request on the condition that there is none, and grows by
requests that name its end; each of them is sent once; what was acknowledged is visible to all
clients at once, since the service is consistent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from siltstone.bindings.azure import appends as appending
from siltstone.bindings.azure.deletes import BULK_MAX, delete_many
from siltstone.bindings.azure.errors import translated
from siltstone.bindings.azure.joins import join
from siltstone.bindings.azure.lists import chunk_stat, list_chunks
from siltstone.bindings.azure.proof import look, prove
from siltstone.bindings.azure.reads import head, read_range
from siltstone.bindings.azure.service import Service
from siltstone.bindings.azure.settings import AzureSettings, Blobs
from siltstone.bindings.azure.uploads import FULL_BLOCKS_MAX, SOURCES_MAX, put, put_in_blocks
from siltstone.core.chunk_arguments import require
from siltstone.core.chunk_storage import UNLIMITED, Buffer, Capabilities, ChunkStat
from siltstone.core.errors import ChunkError, SettingsError
from siltstone.core.remote.bucket_chunk_storage import BucketChunkStorage
from siltstone.core.remote.ranges import RangeRead
from siltstone.core.remote.remote_chunk_storage import after_look
from siltstone.core.remote.target import Target

ACCOUNT_URL: Final = re.compile(r"https://([a-z0-9]+)\.blob\.([a-z0-9.-]+)")


def open_container(settings: AzureSettings) -> AzureChunkStorage:
    """Return the chunk storage of a container, after a look at it.

    Raises:
        SettingsError: there is no such container, or it or a credential cannot be used.
        ChunkError: the service refused, or did not answer.
    """
    try:
        storage = AzureChunkStorage(settings)
    except (TypeError, ValueError) as error:
        if isinstance(error, SettingsError):
            raise
        # What the SDK says of a credential may repeat it.
        raise SettingsError("azure: account or credential cannot be used") from None
    return after_look(storage, lambda: look(storage.service))


class AzureChunkStorage(BucketChunkStorage):
    """A ``ChunkStorage`` whose chunks are the blobs below one prefix of a container.

    Args:
        settings: container, credential and the rest; nothing is sent before the first call.

    Attributes:
        service: the container, for the other parts of the binding.
    """

    def __init__(self, settings: AzureSettings) -> None:
        self.service = Service(settings)
        self._settings = settings
        appends = settings.blobs is Blobs.APPEND
        full_blocks = appending.FULL_BLOCKS_MAX if appends else FULL_BLOCKS_MAX
        capabilities = Capabilities(
            append=appends,
            concat=not appends,
            seal=appends,
            used_space=True,
            free_space=True,
            offset_checked=appends,
            concat_parts_max=UNLIMITED if appends else SOURCES_MAX,
            bulk_delete_max=BULK_MAX,
            appends_max=appending.APPENDS_MAX if appends else UNLIMITED,
            chunk_bytes_max=full_blocks * settings.block_bytes,
            whole=True,
        )
        super().__init__(self.service, capabilities)

    def __repr__(self) -> str:
        container, prefix = self._settings.container, self._settings.prefix
        return f"AzureChunkStorage(container={container!r}, prefix={prefix!r})"

    def uri_of(self, name: str) -> str | None:
        """See ``Addresses``; none where the account's URL is not that of a cloud."""
        key = self.service.key(name, "uri_of")
        account = ACCOUNT_URL.fullmatch(self._settings.account_url)
        if account is None:
            return None
        return f"abfss://{self._settings.container}@{account[1]}.dfs.{account[2]}/{key}"

    def delete(self, name: str) -> None:
        """One DELETE, which tells whether there was a blob."""
        key = self.service.key(name, "delete")
        with translated(name, "delete", changes=True):
            self.service.blob(key).delete_blob()

    def delete_many(self, names: Sequence[str]) -> dict[str, ChunkError]:
        """One request for each 256 names; see ``BulkDeletes``."""
        self.service.check_open()
        return delete_many(self.service, names)

    def seal(self, name: str) -> None:
        """One request, after which the service refuses appends."""
        key = self.service.key(name, "seal")
        require("seal", able=self._capabilities.seal)
        appending.seal(self.service, self._target(name, key, "seal", 0))

    def _prove(self) -> None:
        prove(self.service, self._settings.blobs)

    def _put(self, target: Target, buffers: Sequence[Buffer], length: int) -> None:
        """Two requests and one more a block, or one and perhaps one a block."""
        if self._capabilities.append:
            appending.create(self.service, target, buffers, length)
        elif length <= self._settings.put_bytes_max:
            put(self.service, target, buffers, length)
        else:
            put_in_blocks(self.service, target, buffers, length)

    def _put_whole(self, target: Target, buffers: Sequence[Buffer], length: int) -> None:
        """One request, for a block blob always: an append blob is there before its bytes."""
        prove(self.service, Blobs.BLOCK)
        put(self.service, target, buffers, length)

    def _append(self, target: Target, offset: int, buffers: Sequence[Buffer], length: int) -> None:
        """One request a block; several are not written as one."""
        appending.write(self.service, target, offset, buffers, length)

    def _read(self, asked: RangeRead, buffer: memoryview) -> int:
        """One ranged GET; at the end, and for an empty buffer, perhaps a HEAD."""
        return read_range(self.service, asked, buffer)

    def _stat(self, name: str, key: str, operation: str) -> ChunkStat:
        """One HEAD."""
        told = head(self.service, name, key, operation)
        return chunk_stat(name, told["size"], told["etag"], told["last_modified"])

    def _list(self, prefix: str, start_after: str, *, every: bool) -> Iterator[ChunkStat]:
        """One request for each 5,000 keys."""
        return list_chunks(self.service, prefix, start_after, every=every)

    def _join(self, target: Target, sources: Sequence[tuple[str, int]]) -> None:
        """A HEAD for each source, a copy of each on the service, and one request that commits."""
        join(self.service, target, sources)
