"""Chunk storage in a bucket.

What makes it safe: an object appears by one request, which carries ``ifGenerationMatch=0`` and is
sent once; chunks are written once; what was acknowledged is visible to all clients at once, since
the service is consistent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from google.auth.exceptions import GoogleAuthError

from siltstone.bindings.gcs.errors import translated
from siltstone.bindings.gcs.joins import JOIN_MAX, join, sweep_between
from siltstone.bindings.gcs.lists import chunk_stat, list_chunks
from siltstone.bindings.gcs.proof import look, prove
from siltstone.bindings.gcs.reads import look_at, read_range
from siltstone.bindings.gcs.service import Service
from siltstone.bindings.gcs.settings import GcsSettings
from siltstone.bindings.gcs.uploads import put
from siltstone.core.chunk_arguments import (
    check_buffers,
    check_chunk_length,
    check_concat,
    check_listing,
    check_offset,
    check_target,
    require,
)
from siltstone.core.chunk_storage import Buffer, Capabilities, ChunkStat
from siltstone.core.constants import GIB
from siltstone.core.errors import ChunkExistsError, ChunkNotFoundError, SettingsError
from siltstone.core.remote.remote_chunk_storage import RemoteChunkStorage
from siltstone.core.remote.target import Target

CHUNK_BYTES_MAX: Final = 5 * 1024 * GIB
CONCAT_SOURCES_MAX: Final = JOIN_MAX


def open_bucket(settings: GcsSettings) -> GcsChunkStorage:
    """Return the chunk storage of a bucket, after one look at it.

    Raises:
        SettingsError: there is no such bucket, or there are no credentials.
        ChunkError: the service refused, or did not answer.
    """
    try:
        storage = GcsChunkStorage(settings)
    except (ValueError, OSError) as error:
        raise SettingsError("gcs.credentials_file: it holds no service account's key") from error
    except GoogleAuthError as error:
        raise SettingsError(
            f"gcs: there are no credentials error={type(error).__name__}"
        ) from error
    try:
        look(storage.service)
    except BaseException:
        storage.close()
        raise
    return storage


class GcsChunkStorage(RemoteChunkStorage):
    """A ``ChunkStorage`` whose chunks are the objects below one prefix of a bucket.

    A key is the prefix and the chunk's name, exactly. One client serves all threads of a process;
    it is of no use in a process that was forked, and cannot be pickled.

    Args:
        settings: bucket, credentials and the rest; nothing is sent before the first call.

    Attributes:
        service: the bucket, for the other parts of the binding.
    """

    def __init__(self, settings: GcsSettings) -> None:
        self.service = Service(settings)
        self._settings = settings
        capabilities = Capabilities(
            append=False,
            concat=True,
            used_space=True,
            free_space=True,
            concat_parts_max=CONCAT_SOURCES_MAX,
            chunk_bytes_max=CHUNK_BYTES_MAX,
        )
        super().__init__(self.service, capabilities)

    def __repr__(self) -> str:
        return (
            f"GcsChunkStorage(bucket={self._settings.bucket!r}, prefix={self._settings.prefix!r})"
        )

    def uri_of(self, name: str) -> str:
        """See ``Addresses``."""
        return f"gs://{self._settings.bucket}/{self.service.key(name, 'uri_of')}"

    def create(self, name: str, buffers: Sequence[Buffer]) -> None:
        """One request, or an upload in pieces above ``put_bytes_max``, if there is no such key."""
        key = self.service.key(name, "create")
        length = check_buffers(buffers)
        check_chunk_length(length, self._capabilities)
        put(self.service, self._target(name, key, "create", length), buffers, length)

    def write(self, name: str, offset: int, buffers: Sequence[Buffer]) -> None:
        """Not supported: a chunk is written once."""
        self.service.key(name, "write")
        require("append", able=self._capabilities.append)

    def read_into(self, name: str, offset: int, buffer: memoryview | bytearray) -> int:
        """One request; at the end, and for an empty buffer, perhaps two."""
        key = self.service.key(name, "read_into")
        check_offset(offset)
        check_target(buffer)
        view = memoryview(buffer).cast("B") if len(buffer) else memoryview(b"")
        deadline = self.service.deadline(len(view))
        return read_range(self.service, name, key, offset, view, deadline=deadline)

    def stat(self, name: str) -> ChunkStat:
        """One request."""
        key = self.service.key(name, "stat")
        _, blob = look_at(self.service, name, key, "stat", self.service.deadline(0))
        with translated(name, "stat"):
            return chunk_stat(name, blob)

    def list(self, prefix: str = "", start_after: str = "") -> Iterator[ChunkStat]:
        """One request for each 1,000 keys."""
        self.service.check_open()
        check_listing(prefix, start_after)
        return list_chunks(self.service, prefix, start_after)

    def list_every(self, prefix: str, start_after: str = "") -> Iterator[ChunkStat]:
        """See ``WholeListings``; requests as for ``list``."""
        self.service.check_open()
        check_listing(prefix, start_after)
        return list_chunks(self.service, prefix, start_after, every=True)

    def delete(self, name: str) -> None:
        """One request, which tells whether there was something."""
        key = self.service.key(name, "delete")
        deadline = self.service.deadline(0)
        with translated(name, "delete", changes=True), self.service.session.until(deadline):
            self.service.bucket.blob(key).delete(retry=None)

    def concat(self, target: str, sources: Sequence[tuple[str, int]]) -> None:
        """A look at each source, a request for each 32 of them and for each 32 of these."""
        key = self.service.key(target, "concat")
        length = check_concat(target, sources, self._capabilities)
        join(self.service, self._target(target, key, "concat", length), sources)

    def seal(self, name: str) -> None:
        """Not supported: a chunk that is written once needs none."""
        self.service.check_open()
        require("seal", able=self._capabilities.seal)

    def sweep_leftovers(self, prefix: str, age_s: float) -> int:
        """Remove what joins made in between and could not remove; see ``Leftovers``."""
        self.service.check_open()
        check_listing(prefix, "")
        return sweep_between(self.service, prefix, age_s)

    def _target(self, name: str, key: str, operation: str, length: int) -> Target:
        """What is to be made, once it is sure that the service makes it as it should."""
        prove(self.service)
        deadline = self.service.deadline(length)
        target = Target(name=name, key=key, operation=operation, deadline=deadline)
        if self._settings.unsafe_without_preconditions:
            self._refuse_taken(target)
        return target

    def _refuse_taken(self, target: Target) -> None:
        """Without the service's help, look first; two that look at the same time may both write."""
        try:
            look_at(self.service, target.name, target.key, target.operation, target.deadline)
        except ChunkNotFoundError:
            return
        raise ChunkExistsError("chunk exists", chunk=target.name, operation=target.operation)
