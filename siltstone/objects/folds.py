"""Going through a keyspace as it was at one moment: heads, buckets and entries of the index."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from siltstone.objects.changes import Name, name_bytes, name_text
from siltstone.objects.object_views import ObjectHead
from siltstone.objects.records.head import Head, HeadFields, decode_head, head_fields
from siltstone.objects.records.keys import (
    ObjectKey,
    after_prefix,
    bounds,
    check_head_key,
    decode_head_key,
    decode_index_key,
    heads_prefix,
    index_prefix,
)
from siltstone.objects.records.limits import FIELD_BYTES_MAX
from siltstone.objects.records.space_rows import decode_index_entry
from siltstone.store.handles.async_table import value_pages

if TYPE_CHECKING:
    from siltstone.store.handles.async_table import AsyncTableSnapshot

T = TypeVar("T")
Found = tuple[ObjectKey, Head]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadRange:
    """Which heads a fold is about.

    Attributes:
        tag: of the objects.
        bucket: of the objects; ``None`` means all buckets, in order.
        start: the first key of the bucket; ``None`` means from the beginning.
        end: the key after the last; ``None`` means to the end.
        since: changed at this time or later, seconds since 1970; ``None`` means any time.
        until: changed before this time; ``None`` means any time.
    """

    tag: bytes
    bucket: bytes | None
    start: bytes | None
    end: bytes | None
    since: float | None
    until: float | None

    def covers(self, key: ObjectKey) -> bool:
        """Whether an object is in this range of keys."""
        return (
            key.tag == self.tag
            and self.bucket in (None, key.bucket)
            and (self.start is None or key.key >= self.start)
            and (self.end is None or key.key < self.end)
        )

    def has(self, head: Head, now_s: float) -> bool:
        """Whether the fold is about an object in this range of keys."""
        return self.has_fields(head.modified_ms, head.expires_s, now_s)

    def has_fields(self, modified_ms: int, expires_s: int, now_s: float) -> bool:
        """``has`` of a head with these fields."""
        return (
            (not expires_s or now_s < expires_s)
            and (self.since is None or modified_ms >= self.since * 1000)
            and (self.until is None or modified_ms < self.until * 1000)
        )


def head_range(
    tag: str,
    bucket: Name | None,
    start: Name | None,
    end: Name | None,
    since: float | None,
    until: float | None,
) -> HeadRange:
    """Return which heads a fold is about.

    Raises:
        ObjectLimitError: a name is empty or too long.
        ValueError: keys without a bucket.
    """
    if bucket is None and (start is not None or end is not None):
        raise ValueError("keys are in a bucket: give one with start and end")
    return HeadRange(
        tag=tag.encode(),
        bucket=None if bucket is None else name_bytes(bucket, what="bucket"),
        start=None if start is None else name_bytes(start, what="key", least=0),
        end=None if end is None else name_bytes(end, what="key", least=0),
        since=since,
        until=until,
    )


async def heads(
    ledger: AsyncTableSnapshot, which: HeadRange, now_s: float
) -> AsyncIterator[list[Found]]:
    """Yield the heads of a range, in the order of buckets and keys, some at a time."""
    async for page in _head_rows(ledger, which):
        found = [
            (decode_head_key(row_key), decode_head(value, where=row_key.hex()))
            for row_key, value in page
        ]
        yield [each for each in found if which.has(each[1], now_s)]


async def head_views(
    ledger: AsyncTableSnapshot, which: HeadRange, now_s: float
) -> AsyncIterator[list[ObjectHead]]:
    """Yield what ``heads`` does as callers see it, checked, and decoded when it is looked at."""
    async for page in _head_rows(ledger, which):
        yield _checked(page, which, now_s, ObjectHead)


async def head_rows(
    ledger: AsyncTableSnapshot, which: HeadRange, now_s: float
) -> AsyncIterator[list[tuple[bytes, bytes, HeadFields]]]:
    """Yield the rows of what ``heads`` yields, checked, each with its fields of a fixed length."""
    async for page in _head_rows(ledger, which):
        yield _checked(page, which, now_s, lambda *row: row)


def _checked(
    page: list[tuple[bytes, bytes]],
    which: HeadRange,
    now_s: float,
    make: Callable[[bytes, bytes, HeadFields], T],
) -> list[T]:
    """What ``make`` makes of the rows that a fold is about."""
    found = []
    is_all = which.since is None and which.until is None
    for row_key, value in page:
        check_head_key(row_key)
        fields = head_fields(value, row_key)
        if (is_all and not fields[8]) or which.has_fields(fields[7], fields[8], now_s):
            found.append(make(row_key, value, fields))
    return found


def _head_rows(
    ledger: AsyncTableSnapshot, which: HeadRange
) -> AsyncIterator[list[tuple[bytes, bytes]]]:
    """Rows of the heads of a range."""
    first, after = bounds(heads_prefix(which.tag, which.bucket), which.start, which.end)
    return value_pages(ledger, first, max(first, after))


async def buckets(ledger: AsyncTableSnapshot, tag: bytes, now_s: float) -> AsyncIterator[bytes]:
    """Yield the buckets that have objects, in order; what else is in them is not read."""
    first = heads_prefix(tag, None)
    after = after_prefix(first)
    while first < after:
        async for row_key, row in ledger.scan(first, after):
            key = decode_head_key(row_key)
            if decode_head(row.value, where=row_key.hex()).is_visible(now_s):
                yield key.bucket
                first = after_prefix(heads_prefix(tag, key.bucket))
                break
        else:
            return


@dataclass(frozen=True, slots=True, kw_only=True)
class TermRange:
    """Which entries of an index a fold is about.

    Attributes:
        tag: of the objects.
        bucket: of the objects.
        field: name of the index.
        start: the first term; ``None`` means from the beginning.
        end: the term after the last; ``None`` means to the end.
        pattern: what a part of each term matches; ``None`` means any.
    """

    tag: bytes
    bucket: bytes
    field: bytes
    start: bytes | None
    end: bytes | None
    pattern: re.Pattern[str] | None


def term_range(
    tag: str,
    bucket: Name,
    field: Name,
    start: Name | None,
    end: Name | None,
    pattern: str | re.Pattern[str] | None,
) -> TermRange:
    """Return which entries of an index a fold is about.

    Raises:
        ObjectLimitError: a name is too long, or bucket or field are empty.
        ValueError: the pattern is no regular expression.
    """
    try:
        compiled = None if pattern is None else re.compile(pattern)
    except re.error as error:
        raise ValueError(f"pattern is no regular expression: {error}") from error
    return TermRange(
        tag=tag.encode(),
        bucket=name_bytes(bucket, what="bucket"),
        field=name_bytes(field, what="field", most=FIELD_BYTES_MAX),
        start=None if start is None else name_bytes(start, what="term", least=0),
        end=None if end is None else name_bytes(end, what="term", least=0),
        pattern=compiled,
    )


async def entries(
    ledger: AsyncTableSnapshot, which: TermRange, now_s: float
) -> AsyncIterator[list[tuple[str, ObjectKey]]]:
    """Yield terms and the objects that they find, in the order of terms and keys."""
    prefix = index_prefix(which.bucket, which.field)
    first, after = bounds(prefix, which.start, which.end)
    if which.end is not None and first >= after:
        return
    async for page in value_pages(ledger, first, after):
        found = []
        for row_key, value in page:
            entry, key = decode_index_key(row_key)
            term = name_text(entry.term)
            if key.tag != which.tag:
                continue
            if which.pattern is not None and not which.pattern.search(term):
                continue
            expires_s = decode_index_entry(value, where=row_key.hex())
            if not expires_s or now_s < expires_s:
                found.append((term, key))
        yield found
