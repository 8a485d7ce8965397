"""A keyspace as it was at one moment, as asyncio applications hold it."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from siltstone.core.closed_on_exit import AsyncClosing
from siltstone.core.errors import CorruptDataError, SegmentNotFoundError, SegmentTruncatedError
from siltstone.objects.changes import Name, name_text
from siltstone.objects.folds import (
    Found,
    HeadRange,
    buckets,
    entries,
    head_range,
    heads,
    term_range,
)
from siltstone.objects.ledger import manifest_of
from siltstone.objects.manifest import Manifest
from siltstone.objects.object_views import ObjectHead, StoredObject, lost
from siltstone.objects.records.head import Head, decode_head
from siltstone.objects.records.keys import STATE, head_key
from siltstone.objects.records.space_rows import ValueStatus, decode_state
from siltstone.store.handles.unpicklable import LivingHandle

if TYPE_CHECKING:
    from siltstone.objects.open_space import OpenSpace
    from siltstone.objects.records.keys import ObjectKey
    from siltstone.objects.snapshots import HeldLedger

READ_AHEAD: Final = 16
"""Values that are on their way while their caller looks at one."""

T = TypeVar("T")
V = TypeVar("V")
Order = Literal["key", "sqn"]


class AsyncKeyspaceSnapshot(LivingHandle, AsyncClosing):
    """A keyspace as it was when this was made by ``AsyncKeyspace.snapshot``. Close it when done.

    What is put or deleted later is not seen. What has expired meanwhile is not seen either. Every
    method raises ``SnapshotExpiredError`` once its time is over.
    """

    def __init__(self, space: OpenSpace, held: HeldLedger) -> None:
        self._space = space
        self._held = held
        self._rows: Manifest | None = None

    def __repr__(self) -> str:
        return f"AsyncKeyspaceSnapshot({self._space.parts.names.name!r}, version={self.version})"

    @property
    def version(self) -> int:
        """The table version that it shows."""
        return self._held.version

    async def close(self) -> None:
        """End it. Idempotent."""
        self._held.release()

    async def head(self, bucket: Name, key: Name, *, tag: str = "o") -> ObjectHead | None:
        """Return what was known of an object, ``None`` when it was absent or has expired."""
        found = self._space.parts.key_of(tag, bucket, key)
        head = await self._head(found)
        return None if head is None else ObjectHead(found, head)

    async def get(self, bucket: Name, key: Name, *, tag: str = "o") -> StoredObject | None:
        """Return an object with its value. Raises like ``AsyncKeyspace.get``."""
        found = self._space.parts.key_of(tag, bucket, key)
        head = await self._head(found)
        return None if head is None else await self._object((found, head))

    async def heads(
        self,
        bucket: Name | None = None,
        *,
        tag: str = "o",
        start: Name | None = None,
        end: Name | None = None,
        since: float | None = None,
        until: float | None = None,
    ) -> AsyncIterator[ObjectHead]:
        """Yield heads, in the order of buckets and keys; no value is read.

        Args:
            bucket: of the objects; ``None`` means all buckets.
            tag: of the objects.
            start: the first key of the bucket.
            end: the key after the last.
            since: changed at this time or later, seconds since 1970.
            until: changed before this time.

        Raises:
            ObjectLimitError: a name is too long.
            UnsupportedError: the keyspace has no such tag.
        """
        which = self.range_of(tag, bucket, start, end, since, until)
        async for page in self.head_pages(which):
            for found in page:
                yield ObjectHead(*found)

    def head_pages(self, which: HeadRange) -> AsyncIterator[list[Found]]:
        """Yield what ``heads`` does, some at a time."""
        return heads(self._held.taken, which, self._now())

    async def keys(
        self,
        bucket: Name,
        *,
        tag: str = "o",
        start: Name | None = None,
        end: Name | None = None,
    ) -> AsyncIterator[str]:
        """Yield the keys of a bucket, in order. Otherwise like ``heads``."""
        async for page in self.head_pages(self.range_of(tag, bucket, start, end, None, None)):
            for key, _ in page:
                yield name_text(key.key)

    async def buckets(self, *, tag: str = "o") -> AsyncIterator[str]:
        """Yield the buckets that have objects, in order."""
        self._space.parts.check_tag(tag)
        async for bucket in buckets(self._held.taken, tag.encode(), self._now()):
            yield name_text(bucket)

    async def index(
        self,
        bucket: Name,
        field: Name,
        start: Name | None = None,
        end: Name | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        tag: str = "o",
    ) -> AsyncIterator[tuple[str, str]]:
        """Yield terms of an index and the keys that they find, in order.

        Args:
            bucket: of the objects.
            field: name of the index.
            start: the first term.
            end: the term after the last.
            pattern: a regular expression that some part of each term matches.
            tag: of the objects.

        Raises:
            ObjectLimitError: a name is too long.
            ValueError: the pattern is no regular expression.
        """
        self._space.parts.check_tag(tag)
        which = term_range(tag, bucket, field, start, end, pattern)
        async for page in entries(self._held.taken, which, self._now()):
            for term, key in page:
                yield term, name_text(key.key)

    async def objects(
        self,
        bucket: Name | None = None,
        *,
        tag: str = "o",
        order: Order = "key",
        start: Name | None = None,
        end: Name | None = None,
        since: float | None = None,
        until: float | None = None,
    ) -> AsyncIterator[StoredObject]:
        """Yield objects with their values.

        Args:
            bucket: of the objects; ``None`` means all buckets.
            tag: of the objects.
            order: of buckets and keys, or of SQNs (``sqn``), in which values lie.
            start: as for ``heads``, like the others.
            end: the key after the last.
            since: changed at this time or later, seconds since 1970.
            until: changed before this time.

        Raises what ``heads`` does, and:
            LostObjectError: a value is damaged or gone.
            ValueError: no such order.
        """
        if order not in ("key", "sqn"):
            raise ValueError(f"an order is 'key' or 'sqn', not {order!r}")
        which = self.range_of(tag, bucket, start, end, since, until)
        pages = self.head_pages(which) if order == "key" else self._by_sqn(which)
        async for each in read_ahead(pages, self._object):
            yield each

    async def indexed(
        self,
        bucket: Name,
        field: Name,
        start: Name | None = None,
        end: Name | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        tag: str = "o",
    ) -> AsyncIterator[tuple[str, StoredObject]]:
        """Yield terms of an index and the objects that they find. Otherwise like ``index``."""
        self._space.parts.check_tag(tag)
        which = term_range(tag, bucket, field, start, end, pattern)
        pages = entries(self._held.taken, which, self._now())

        async def read(found: tuple[str, ObjectKey]) -> tuple[str, StoredObject | None]:
            term, key = found
            head = await self._head(key)
            return term, None if head is None else await self._object((key, head))

        async for term, each in read_ahead(pages, read):
            if each is not None:
                yield term, each

    async def _by_sqn(self, which: HeadRange) -> AsyncIterator[list[Found]]:
        """The heads of a range, in the order of their SQNs."""
        ledger, now_s = self._held.taken, self._now()
        names = self._space.parts.names
        state = await ledger.get(STATE)
        if state is None:
            raise CorruptDataError("keyspace has no state", where=names.name)
        active = decode_state(state.value, where=names.name)
        for row in (await self._manifest()).rows:
            is_active = row.status is ValueStatus.ACTIVE
            length = active.length if is_active else row.length
            async for page in self._space.parts.values.headers(row, length):
                found = []
                for each in page:
                    header = each.header
                    if not which.covers(header.key):
                        continue
                    head = await self._head(header.key)
                    if head is not None and head.sqn == header.sqn and which.has(head, now_s):
                        found.append((header.key, head))
                yield found

    async def _manifest(self) -> Manifest:
        if self._rows is None:
            where = self._space.parts.names.name
            self._rows = Manifest(await manifest_of(self._held.taken.scan, where=where))
        return self._rows

    async def _head(self, key: ObjectKey) -> Head | None:
        row_key = head_key(key)
        found = await self._held.taken.get(row_key)
        if found is None:
            return None
        head = decode_head(found.value, where=row_key.hex())
        return head if head.is_visible(self._now()) else None

    async def _object(self, found: Found) -> StoredObject:
        key, head = found
        try:
            value = await self._space.parts.values.value(key, head, await self._manifest())
        except (SegmentNotFoundError, SegmentTruncatedError) as error:
            where = self._space.parts.names.value_segment(head.number)
            raise lost(key, head, where, str(error)) from error
        return StoredObject(head=ObjectHead(key, head), value=value)

    def range_of(
        self,
        tag: str,
        bucket: Name | None,
        start: Name | None,
        end: Name | None,
        since: float | None,
        until: float | None,
    ) -> HeadRange:
        """Return which heads a fold is about. Raises what ``heads`` raises."""
        self._space.parts.check_tag(tag)
        return head_range(tag, bucket, start, end, since, until)

    def _now(self) -> float:
        return self._space.parts.store.environment.time()


async def read_ahead(
    pages: AsyncIterator[list[T]], read: Callable[[T], Awaitable[V]]
) -> AsyncIterator[V]:
    """Yield what ``read`` makes of each item, in order, while the next ones are being read."""
    tasks: deque[asyncio.Future[V]] = deque()
    try:
        async for page in pages:
            for item in page:
                if len(tasks) == READ_AHEAD:
                    yield await tasks[0]
                    tasks.popleft()
                tasks.append(asyncio.ensure_future(read(item)))
        while tasks:
            yield await tasks[0]
            tasks.popleft()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
