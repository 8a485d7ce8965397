"""Listings: page by page in the order of bytes, or all at once where the service has no order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from siltstone.bindings.s3.errors import translated
from siltstone.bindings.s3.service import Service
from siltstone.core.chunk_arguments import is_chunk_name
from siltstone.core.chunk_storage import ChunkStat
from siltstone.core.errors import ChunkNameError
from siltstone.core.remote.answers import whole

if TYPE_CHECKING:
    from datetime import datetime


def chunk_stat(name: str, length: int, etag: str, modified: datetime) -> ChunkStat:
    """What the service says of one object. A HEAD tells whole seconds alone, so these count."""
    return ChunkStat(
        name=name, length=length, version=etag, modified_s=float(int(modified.timestamp()))
    )


def list_chunks(
    service: Service, prefix: str, start_after: str, *, every: bool
) -> Iterator[ChunkStat]:
    """Yield what ``BucketChunkStorage`` lists.

    Another program's are such as the empty objects that stand for folders.
    """
    if service.settings.is_directory_bucket:
        return _unordered(service, prefix, start_after, every=every)
    folder = service.settings.folder
    arguments = {"StartAfter": folder + start_after} if start_after else {}
    return _pages(service, prefix, folder + prefix, arguments, every=every)


def _unordered(
    service: Service, prefix: str, start_after: str, *, every: bool
) -> Iterator[ChunkStat]:
    """Directory buckets know prefixes that end in a slash, no start, and no order."""
    above = service.settings.folder + prefix[: prefix.rfind("/") + 1]
    after = start_after.encode()
    wanted = [
        found
        for found in _pages(service, prefix, above, {}, every=every)
        if found.name.startswith(prefix) and found.name.encode() > after
    ]
    yield from sorted(wanted, key=lambda stat: stat.name.encode())


def _pages(
    service: Service, prefix: str, above: str, arguments: dict[str, Any], *, every: bool
) -> Iterator[ChunkStat]:
    arguments = {"Bucket": service.bucket, "Prefix": above, **arguments}
    while True:
        service.check_open()
        try:
            with translated(prefix, "list"):
                page = service.client.list_objects_v2(**arguments)
                whole(page, ["IsTruncated"], prefix, "list")
                found = [
                    chunk_stat(name, entry["Size"], entry["ETag"], entry["LastModified"])
                    for entry in page.get("Contents", ())
                    if is_chunk_name(name := service.name(entry["Key"])) or every
                ]
                token = page["NextContinuationToken"] if page["IsTruncated"] else None
        except ChunkNameError:
            return  # What the service cannot hold begins no key of it.
        yield from found
        if token is None:
            return
        arguments["ContinuationToken"] = token
