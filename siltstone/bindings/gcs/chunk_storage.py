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
from siltstone.bindings.gcs.uploads import put, put_at_once
from siltstone.core.chunk_arguments import check_listing
from siltstone.core.chunk_storage import Buffer, Capabilities, ChunkStat
from siltstone.core.constants import GIB
from siltstone.core.errors import SettingsError
from siltstone.core.remote.bucket_chunk_storage import BucketChunkStorage
from siltstone.core.remote.ranges import RangeRead
from siltstone.core.remote.remote_chunk_storage import after_look
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
    return after_look(storage, lambda: look(storage.service))


class GcsChunkStorage(BucketChunkStorage):
    """A ``ChunkStorage`` whose chunks are the objects below one prefix of a bucket.

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
            whole=not settings.unsafe_without_preconditions,
        )
        super().__init__(
            self.service, capabilities, looks_first=settings.unsafe_without_preconditions
        )

    def __repr__(self) -> str:
        return (
            f"GcsChunkStorage(bucket={self._settings.bucket!r}, prefix={self._settings.prefix!r})"
        )

    def uri_of(self, name: str) -> str:
        """See ``Addresses``."""
        return f"gs://{self._settings.bucket}/{self.service.key(name, 'uri_of')}"

    def delete(self, name: str) -> None:
        """One request, which tells whether there was something."""
        key = self.service.key(name, "delete")
        deadline = self.service.deadline(0)
        with translated(name, "delete", changes=True), self.service.session.until(deadline):
            self.service.bucket.blob(key).delete(retry=None)

    def sweep_leftovers(self, prefix: str, age_s: float) -> int:
        """Remove what joins made in between and could not remove; see ``Leftovers``."""
        self.service.check_open()
        check_listing(prefix, "")
        return sweep_between(self.service, prefix, age_s)

    def _prove(self) -> None:
        prove(self.service)

    def _put(self, target: Target, buffers: Sequence[Buffer], length: int) -> None:
        """One request, or an upload in pieces above ``put_bytes_max``."""
        put(self.service, target, buffers, length)

    def _put_whole(self, target: Target, buffers: Sequence[Buffer], length: int) -> None:
        """One request."""
        put_at_once(self.service, target, buffers, length)

    def _read(self, asked: RangeRead, buffer: memoryview) -> int:
        """One request; at the end, and for an empty buffer, perhaps two."""
        return read_range(self.service, asked, buffer)

    def _stat(self, name: str, key: str, operation: str) -> ChunkStat:
        """One request."""
        _, blob = look_at(self.service, name, key, operation, self.service.deadline(0))
        with translated(name, operation):
            return chunk_stat(name, blob)

    def _list(self, prefix: str, start_after: str, *, every: bool) -> Iterator[ChunkStat]:
        """One request for each 1,000 keys."""
        return list_chunks(self.service, prefix, start_after, every=every)

    def _join(self, target: Target, sources: Sequence[tuple[str, int]]) -> None:
        """A look at each source, a request for each 32 of them and for each 32 of these."""
        join(self.service, target, sources)
