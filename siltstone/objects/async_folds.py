"""Folds: going through a keyspace as it was at one moment, for asyncio."""

from __future__ import annotations

import asyncio
import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from siltstone.objects.changes import STANDARD, Name, name_text
from siltstone.objects.folds import HeadRange, buckets, entries, head_range, term_range
from siltstone.objects.object_views import ObjectHead, StoredObject
from siltstone.objects.snapshots import FOLD_TTL_S, QUERY_TTL_S

if TYPE_CHECKING:
    from siltstone.objects.moment import Moment
    from siltstone.objects.records.keys import ObjectKey
    from siltstone.objects.space_parts import SpaceParts

READ_AHEAD: Final = 16
"""Values that are on their way while their caller looks at one."""

T = TypeVar("T")
V = TypeVar("V")
Order = Literal["key", "sqn"]


class AsyncFolds(ABC):
    """The folds of a keyspace, as of their first step, and of a snapshot, as of its moment."""

    __slots__ = ()

    @property
    @abstractmethod
    def _parts(self) -> SpaceParts:
        """Parts of the keyspace."""

    @abstractmethod
    def _moment(self, ttl_s: float) -> AbstractAsyncContextManager[Moment]:
        """What one fold reads, for at most so long."""

    async def heads(
        self,
        bucket: Name | None = None,
        *,
        tag: str = STANDARD,
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
        pages = self.head_pages(bucket, tag=tag, start=start, end=end, since=since, until=until)
        async with aclosing(pages):
            async for page in pages:
                for found in page:
                    yield found

    async def head_pages(
        self,
        bucket: Name | None = None,
        *,
        tag: str = STANDARD,
        start: Name | None = None,
        end: Name | None = None,
        since: float | None = None,
        until: float | None = None,
    ) -> AsyncGenerator[list[ObjectHead], None]:
        """Yield what ``heads`` does, some at a time, for handles that go on from there."""
        which = self._range(tag, bucket, start, end, since, until)
        async with self._moment(QUERY_TTL_S) as moment:
            async for page in moment.views(which):
                yield page

    async def keys(
        self,
        bucket: Name,
        *,
        tag: str = STANDARD,
        start: Name | None = None,
        end: Name | None = None,
    ) -> AsyncIterator[str]:
        """Yield the keys of a bucket, in order, each once. Otherwise like ``heads``."""
        pages = self.head_pages(bucket, tag=tag, start=start, end=end)
        last = None
        async with aclosing(pages):
            async for page in pages:
                for found in page:
                    key = found.key
                    if key != last:  # else another subkey of it
                        last = key
                        yield key

    async def buckets(self, *, tag: str = STANDARD) -> AsyncIterator[str]:
        """Yield the buckets that have objects, in order."""
        tag = self._parts.check_tag(tag)
        async with self._moment(QUERY_TTL_S) as moment:
            async for bucket in buckets(moment.ledger, tag.encode(), moment.now_s):
                yield name_text(bucket)

    async def index(
        self,
        bucket: Name,
        field: Name,
        start: Name | None = None,
        end: Name | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        tag: str = STANDARD,
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
        self._parts.check_values("index")
        tag = self._parts.check_tag(tag)
        which = term_range(tag, bucket, field, start, end, pattern)
        async with self._moment(QUERY_TTL_S) as moment:
            async for page in entries(moment.ledger, which, moment.now_s):
                for term, key in page:
                    yield term, name_text(key.key)

    async def objects(
        self,
        bucket: Name | None = None,
        *,
        tag: str = STANDARD,
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
            LostObjectError: a value is damaged or gone; with ``objects.lost: missing`` such an
                object is left out.
            ValueError: no such order.
        """
        if order not in ("key", "sqn"):
            raise ValueError(f"an order is 'key' or 'sqn', not {order!r}")
        self._parts.check_values("objects with values")
        which = self._range(tag, bucket, start, end, since, until)
        async with self._moment(FOLD_TTL_S) as moment:
            pages = moment.by_key(which) if order == "key" else moment.by_sqn(which)
            values = read_ahead(pages, moment.read)
            async with aclosing(values):
                async for each in values:
                    if each is not None:
                        yield each

    async def indexed(
        self,
        bucket: Name,
        field: Name,
        start: Name | None = None,
        end: Name | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        tag: str = STANDARD,
    ) -> AsyncIterator[tuple[str, StoredObject]]:
        """Yield terms of an index and the objects that they find. Otherwise like ``index``."""
        self._parts.check_values("index")
        tag = self._parts.check_tag(tag)
        which = term_range(tag, bucket, field, start, end, pattern)
        async with self._moment(FOLD_TTL_S) as moment:

            async def read(found: tuple[str, ObjectKey]) -> tuple[str, StoredObject | None]:
                term, key = found
                head = await moment.head(key)
                return term, None if head is None else await moment.read((key, head))

            values = read_ahead(entries(moment.ledger, which, moment.now_s), read)
            async with aclosing(values):
                async for term, each in values:
                    if each is not None:
                        yield term, each

    def _range(
        self,
        tag: str,
        bucket: Name | None,
        start: Name | None,
        end: Name | None,
        since: float | None,
        until: float | None,
    ) -> HeadRange:
        """Return which heads a fold is about. Raises what ``heads`` raises."""
        tag = self._parts.check_tag(tag)
        return head_range(tag, bucket, start, end, since, until)


async def read_ahead(
    pages: AsyncIterator[list[T]], read: Callable[[T], Awaitable[V]]
) -> AsyncGenerator[V, None]:
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
