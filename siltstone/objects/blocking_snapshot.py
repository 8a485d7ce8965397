"""A keyspace as it was at one moment, as blocking applications hold it, on any thread."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from siltstone.core.closed_on_exit import Closing
from siltstone.core.errors import ClosedError
from siltstone.objects.object_views import ObjectHead, StoredObject
from siltstone.store.blocking.background_loop import BackgroundLoop
from siltstone.store.handles.unpicklable import LivingHandle

if TYPE_CHECKING:
    from siltstone.objects.async_snapshot import AsyncKeyspaceSnapshot, Order
    from siltstone.objects.changes import Name

VALUES_BATCH = 16
"""Objects that a thread takes at a time: their values are in memory meanwhile."""


class KeyspaceSnapshot(LivingHandle, Closing):
    """A keyspace as it was; ``Keyspace.snapshot`` makes one. See ``AsyncKeyspaceSnapshot``."""

    def __init__(self, loop: BackgroundLoop, snapshot: AsyncKeyspaceSnapshot) -> None:
        self._loop = loop
        self._snapshot = snapshot

    def __repr__(self) -> str:
        return repr(self._snapshot).removeprefix("Async")

    @property
    def version(self) -> int:
        """The table version that it shows."""
        return self._snapshot.version

    def close(self) -> None:
        """End it. Idempotent."""
        with suppress(ClosedError):  # It ended with the store.
            self._loop.run(self._snapshot.close())

    def head(self, bucket: Name, key: Name, *, tag: str = "o") -> ObjectHead | None:
        """Return what was known of an object, ``None`` when it was absent or has expired."""
        return self._loop.run(self._snapshot.head(bucket, key, tag=tag))

    def get(self, bucket: Name, key: Name, *, tag: str = "o") -> StoredObject | None:
        """Return an object with its value. See ``AsyncKeyspace.get``."""
        return self._loop.run(self._snapshot.get(bucket, key, tag=tag))

    def heads(
        self,
        bucket: Name | None = None,
        *,
        tag: str = "o",
        start: Name | None = None,
        end: Name | None = None,
        since: float | None = None,
        until: float | None = None,
    ) -> Iterator[ObjectHead]:
        """Yield heads in order. See ``AsyncKeyspaceSnapshot.heads``."""
        which = self._snapshot.range_of(tag, bucket, start, end, since, until)
        for page in self._loop.iterate(partial(self._snapshot.head_pages, which), batch=1):
            for key, head in page:
                yield ObjectHead(key, head)

    def keys(
        self,
        bucket: Name,
        *,
        tag: str = "o",
        start: Name | None = None,
        end: Name | None = None,
    ) -> Iterator[str]:
        """Yield the keys of a bucket, in order."""
        for head in self.heads(bucket, tag=tag, start=start, end=end):
            yield head.key

    def buckets(self, *, tag: str = "o") -> Iterator[str]:
        """Yield the buckets that have objects, in order."""
        return self._loop.iterate(partial(self._snapshot.buckets, tag=tag))

    def index(
        self,
        bucket: Name,
        field: Name,
        start: Name | None = None,
        end: Name | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        tag: str = "o",
    ) -> Iterator[tuple[str, str]]:
        """Yield terms and the keys that they find. See ``AsyncKeyspaceSnapshot.index``."""
        make = partial(self._snapshot.index, bucket, field, start, end, pattern=pattern, tag=tag)
        return self._loop.iterate(make)

    def objects(
        self,
        bucket: Name | None = None,
        *,
        tag: str = "o",
        order: Order = "key",
        start: Name | None = None,
        end: Name | None = None,
        since: float | None = None,
        until: float | None = None,
    ) -> Iterator[StoredObject]:
        """Yield objects with their values. See ``AsyncKeyspaceSnapshot.objects``."""
        make = partial(
            self._snapshot.objects,
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
        tag: str = "o",
    ) -> Iterator[tuple[str, StoredObject]]:
        """Yield terms and the objects that they find. See ``AsyncKeyspaceSnapshot.indexed``."""
        make = partial(self._snapshot.indexed, bucket, field, start, end, pattern=pattern, tag=tag)
        return self._loop.iterate(make, batch=VALUES_BATCH)
