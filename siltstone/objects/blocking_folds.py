"""Folds: going through a keyspace as it was at one moment, for blocking callers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from siltstone.objects.changes import STANDARD, Name
from siltstone.objects.object_views import ObjectHead, StoredObject

if TYPE_CHECKING:
    from siltstone.objects.async_folds import AsyncFolds, Order
    from siltstone.store.blocking.background_loop import BackgroundLoop

VALUES_BATCH = 16
"""Objects that a thread takes at a time: their values are in memory meanwhile."""


class Folds:
    """The folds of a keyspace, or of a snapshot of one. See ``AsyncFolds``.

    Args:
        loop: of the store.
        folds: what runs on it.
    """

    __slots__ = ("_folds", "_loop")

    def __init__(self, loop: BackgroundLoop, folds: AsyncFolds) -> None:
        self._loop = loop
        self._folds = folds

    def heads(
        self,
        bucket: Name | None = None,
        *,
        tag: str = STANDARD,
        start: Name | None = None,
        end: Name | None = None,
        since: float | None = None,
        until: float | None = None,
    ) -> Iterator[ObjectHead]:
        """Yield heads in order. See ``AsyncFolds.heads``."""
        pages = partial(
            self._folds.head_pages,
            bucket,
            tag=tag,
            start=start,
            end=end,
            since=since,
            until=until,
        )
        for page in self._loop.iterate(pages, batch=1):
            yield from page

    def keys(
        self,
        bucket: Name,
        *,
        tag: str = STANDARD,
        start: Name | None = None,
        end: Name | None = None,
    ) -> Iterator[str]:
        """Yield the keys of a bucket, in order, each once."""
        last = None
        for head in self.heads(bucket, tag=tag, start=start, end=end):
            key = head.key
            if key != last:  # else another subkey of it
                last = key
                yield key

    def buckets(self, *, tag: str = STANDARD) -> Iterator[str]:
        """Yield the buckets that have objects, in order."""
        return self._loop.iterate(partial(self._folds.buckets, tag=tag))

    def index(
        self,
        bucket: Name,
        field: Name,
        start: Name | None = None,
        end: Name | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        tag: str = STANDARD,
    ) -> Iterator[tuple[str, str]]:
        """Yield terms and the keys that they find. See ``AsyncFolds.index``."""
        make = partial(self._folds.index, bucket, field, start, end, pattern=pattern, tag=tag)
        return self._loop.iterate(make)

    def objects(
        self,
        bucket: Name | None = None,
        *,
        tag: str = STANDARD,
        order: Order = "key",
        start: Name | None = None,
        end: Name | None = None,
        since: float | None = None,
        until: float | None = None,
    ) -> Iterator[StoredObject]:
        """Yield objects with their values. See ``AsyncFolds.objects``."""
        make = partial(
            self._folds.objects,
            bucket,
            tag=tag,
            order=order,
            start=start,
            end=end,
            since=since,
            until=until,
        )
        return self._loop.iterate(make, batch=VALUES_BATCH)

    def indexed(
        self,
        bucket: Name,
        field: Name,
        start: Name | None = None,
        end: Name | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        tag: str = STANDARD,
    ) -> Iterator[tuple[str, StoredObject]]:
        """Yield terms and the objects that they find. See ``AsyncFolds.indexed``."""
        make = partial(self._folds.indexed, bucket, field, start, end, pattern=pattern, tag=tag)
        return self._loop.iterate(make, batch=VALUES_BATCH)
