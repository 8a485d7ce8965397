"""Listings, page by page in the order of bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from siltstone.bindings.gcs.errors import translated
from siltstone.bindings.gcs.service import Service
from siltstone.core.chunk_arguments import is_chunk_name
from siltstone.core.chunk_storage import ChunkStat
from siltstone.core.remote.answers import whole

FIELDS: Final = "kind,items(name,generation,size,updated),nextPageToken"
PAGE: Final = 1_000
"""Keys of one request, as the service has it."""


def chunk_stat(name: str, blob: Any) -> ChunkStat:
    """What the service says of one object. Its generation is new with every content."""
    updated = blob.updated
    return ChunkStat(
        name=name,
        length=int(blob.size),
        version=str(int(blob.generation)),
        modified_s=0.0 if updated is None else updated.timestamp(),
    )


def list_chunks(
    service: Service, prefix: str, start_after: str, *, every: bool
) -> Iterator[ChunkStat]:
    """Yield what ``BucketChunkStorage`` lists.

    Another program's are such as the empty objects that stand for folders; others are left of a
    join.
    """
    folder = service.settings.folder
    start = folder + start_after if start_after else None
    for blob in list_keys(service, folder + prefix, prefix, "list", start):
        name = service.name(blob.name)
        # The service begins with the name itself.
        if name != start_after and (every or is_chunk_name(name)):
            with translated(name, "list"):
                found = chunk_stat(name, blob)
            yield found


def list_keys(
    service: Service, above: str, chunk: str, operation: str, start: str | None = None
) -> Iterator[Any]:
    """Yield what the SDK holds of the objects below ``above``, each page with its own deadline."""
    if "\0" in above:
        return
    token: str | None = None
    while True:
        service.check_open()
        with translated(chunk, operation), service.session.until(service.deadline(0)):
            listing = service.client.list_blobs(
                service.bucket,
                prefix=above or None,
                start_offset=start,
                page_token=token,
                page_size=PAGE,
                fields=FIELDS,
                retry=None,
            )
            page = next(listing.pages)
            whole(page.raw_page, ["kind"], chunk, operation)
            found = list(page)
            for blob in found:
                whole(blob._properties, ["name", "generation", "size"], chunk, operation)
            token = listing.next_page_token
        yield from found
        if not token:
            return
