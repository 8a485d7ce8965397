"""Listings, page by page in the order of bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from siltstone.bindings.azure.errors import translated
from siltstone.bindings.azure.service import Service
from siltstone.core.chunk_arguments import is_chunk_name
from siltstone.core.chunk_storage import ChunkStat
from siltstone.core.errors import ChunkUnavailableError

if TYPE_CHECKING:
    from datetime import datetime

SAME_ORDER_END: Final = "\ud800"
"""Text of characters below this one is in the same order by its bytes and by units of UTF-16."""


def chunk_stat(name: str, length: int, etag: str, modified: datetime) -> ChunkStat:
    """What the service says of one blob. A listing has its version without quotes, a HEAD with."""
    return ChunkStat(
        name=name,
        length=length,
        version=etag.strip('"'),
        modified_s=float(int(modified.timestamp())),
    )


def list_chunks(
    service: Service, prefix: str, start_after: str, *, every: bool
) -> Iterator[ChunkStat]:
    """Yield what ``BucketChunkStorage`` lists.

    The service may order names by units of UTF-16, which is another order where a name has
    characters above U+FFFF. So a page is sorted, and a listing that is still in disorder ends in an
    error.

    Raises:
        ChunkUnavailableError: the service lists in no order that can be used, or did not answer.
    """
    after = start_after.encode()
    for page in _pages(service, prefix, start_after, every=every):
        for found in sorted(page, key=lambda stat: stat.name.encode()):
            name = found.name.encode()
            if name <= start_after.encode():
                continue
            if name <= after:
                raise ChunkUnavailableError(
                    "the service does not list in the order of names",
                    chunk=found.name,
                    operation="list",
                )
            after = name
            yield found


def _pages(
    service: Service, prefix: str, start_after: str, *, every: bool
) -> Iterator[Iterable[ChunkStat]]:
    folder = service.settings.folder
    options: dict[str, Any] = {}
    start = folder + _common_start(start_after)
    # One that is not after the prefix would be of no use, and the service may refuse it.
    if start_after and start > folder + prefix:
        options["start_from"] = start
    service.check_open()
    with translated(prefix, "list"):
        listing = service.container.list_blobs(name_starts_with=folder + prefix, **options)
        pages = listing.by_page()
    while True:
        service.check_open()
        with translated(prefix, "list"):
            try:
                page = next(pages)
            except StopIteration:
                return
            found = [
                chunk_stat(service.name(blob.name), blob.size, blob.etag, blob.last_modified)
                for blob in page
                if every or is_chunk_name(service.name(blob.name))
            ]
        yield found


def _common_start(text: str) -> str:
    """A text that is not after ``text``, nor after what comes after it, in either order."""
    for index, character in enumerate(text):
        if character >= SAME_ORDER_END:
            return text[:index]
    return text
