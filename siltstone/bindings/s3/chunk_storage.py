"""Chunk storage in a bucket.

What makes it safe: an object appears by one request, which carries ``If-None-Match`` and is sent
once; chunks are written once, unless the bucket is one that appends; what was acknowledged is
visible to all clients at once, since the service is consistent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from botocore.exceptions import BotoCoreError

from siltstone.bindings.s3.appends import APPENDS_MAX, append
from siltstone.bindings.s3.deletes import BULK_MAX, delete, delete_many, sweep_uploads
from siltstone.bindings.s3.joins import join
from siltstone.bindings.s3.lists import chunk_stat, list_chunks
from siltstone.bindings.s3.proof import look, prove
from siltstone.bindings.s3.reads import read_range
from siltstone.bindings.s3.service import Service
from siltstone.bindings.s3.settings import S3Settings
from siltstone.bindings.s3.uploads import head, put, put_in_parts
from siltstone.core.chunk_arguments import check_listing
from siltstone.core.chunk_storage import UNLIMITED, Buffer, Capabilities, ChunkStat
from siltstone.core.constants import GIB
from siltstone.core.errors import ChunkError, SettingsError
from siltstone.core.remote.bucket_chunk_storage import BucketChunkStorage
from siltstone.core.remote.ranges import RangeRead
from siltstone.core.remote.remote_chunk_storage import after_look
from siltstone.core.remote.target import Target
from siltstone.core.storage.key_locks import NameLocks

BUCKET_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
CHUNK_BYTES_MAX: Final = 5 * 1024 * GIB
CONCAT_SOURCES_MAX: Final = 1_000
"""A join looks at each source and copies it: twice as many requests, within one deadline."""


def open_bucket(settings: S3Settings) -> S3ChunkStorage:
    """Return the chunk storage of a bucket, after one look at it.

    Raises:
        SettingsError: there is no such bucket, region or profile.
        ChunkError: the service refused, or did not answer.
    """
    try:
        storage = S3ChunkStorage(settings)
    except (BotoCoreError, ValueError) as error:
        raise SettingsError(f"s3: {error}") from error
    return after_look(storage, lambda: look(storage.service))


class S3ChunkStorage(BucketChunkStorage):
    """A ``ChunkStorage`` whose chunks are the objects below one prefix of a bucket.

    Args:
        settings: bucket, credentials and the rest; nothing is sent before the first call.

    Attributes:
        service: the bucket, for the other parts of the binding.
    """

    def __init__(self, settings: S3Settings) -> None:
        self.service = Service(settings)
        self._settings = settings
        self._locks = NameLocks()
        appends = settings.append is not None
        capabilities = Capabilities(
            append=appends,
            concat=True,
            used_space=True,
            free_space=True,
            offset_checked=appends,
            concat_parts_max=CONCAT_SOURCES_MAX,
            appends_max=APPENDS_MAX if appends else UNLIMITED,
            chunk_bytes_max=CHUNK_BYTES_MAX,
            bulk_delete_max=BULK_MAX,
            whole=not settings.unsafe_without_conditional_create,
        )
        super().__init__(
            self.service, capabilities, looks_first=settings.unsafe_without_conditional_create
        )

    def __repr__(self) -> str:
        return f"S3ChunkStorage(bucket={self._settings.bucket!r}, prefix={self._settings.prefix!r})"

    def delete(self, name: str) -> None:
        """A HEAD and a DELETE, one after the other for each name within this object."""
        key = self.service.key(name, "delete")
        with self._locks.hold(key.encode()):
            delete(self.service, name, key)

    def delete_many(self, names: Sequence[str]) -> dict[str, ChunkError]:
        """One request for each 1,000 names; see ``BulkDeletes``."""
        self.service.check_open()
        return delete_many(self.service, names)

    def sweep_leftovers(self, prefix: str, age_s: float) -> int:
        """Abort uploads in parts that were never completed; see ``Leftovers``."""
        self.service.check_open()
        check_listing(prefix, "")
        return sweep_uploads(self.service, prefix, age_s)

    def uri_of(self, name: str) -> str | None:
        """See ``Addresses``; none for a bucket that is named by an ARN."""
        if not BUCKET_NAME.fullmatch(self._settings.bucket):
            return None
        return f"s3a://{self._settings.bucket}/{self.service.key(name, 'uri_of')}"

    def _prove(self) -> None:
        prove(self.service)

    def _put(self, target: Target, buffers: Sequence[Buffer], length: int) -> None:
        """One PUT, or an upload in parts above ``put_bytes_max``."""
        is_small = length <= self._settings.put_bytes_max
        (put if is_small else put_in_parts)(self.service, target, buffers, length)

    def _put_whole(self, target: Target, buffers: Sequence[Buffer], length: int) -> None:
        """One PUT."""
        put(self.service, target, buffers, length)

    def _append(self, target: Target, offset: int, buffers: Sequence[Buffer], length: int) -> None:
        """One PUT at an offset, which directory buckets alone understand."""
        append(self.service, target, offset, buffers, length)

    def _read(self, asked: RangeRead, buffer: memoryview) -> int:
        """One ranged GET; at the end, and for an empty buffer, perhaps a HEAD."""
        return read_range(self.service, asked, buffer)

    def _stat(self, name: str, key: str, operation: str) -> ChunkStat:
        """One HEAD."""
        told = head(self.service, name, key, operation)
        return chunk_stat(name, told["ContentLength"], told["ETag"], told["LastModified"])

    def _list(self, prefix: str, start_after: str, *, every: bool) -> Iterator[ChunkStat]:
        """One request for each 1,000 keys; in a directory bucket all of them before the first."""
        return list_chunks(self.service, prefix, start_after, every=every)

    def _join(self, target: Target, sources: Sequence[tuple[str, int]]) -> None:
        """A HEAD for each source, a copy of each on the service, and two requests around them."""
        join(self.service, target, sources)
