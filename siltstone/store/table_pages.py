"""Scans of tables, a page at a time, so that memory holds no more than one page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Final

from siltstone.container.views import TableValue
from siltstone.store.arguments import check_key

if TYPE_CHECKING:
    from siltstone.core.bytes_like import BytesLike

PAGE_COUNT: Final = 1000
"""Most entries of a page."""

Found = tuple[bytes, TableValue]
"""A key and what it has."""

Fetch = Callable[[bytes, bytes | None], Awaitable[list[Found]]]
"""Given first key and the one behind the last, returns the next entries; none only at the end."""


async def pages(
    fetch: Fetch, start: BytesLike, end: BytesLike | None, *, reverse: bool
) -> AsyncIterator[list[Found]]:
    """Yield the entries with ``start <= key < end``, page by page."""
    first = check_key(start)
    behind = None if end is None else check_key(end)
    while page := await fetch(first, behind):
        yield page
        last = page[-1][0]
        if reverse:
            behind = last
        else:
            first = last + b"\0"
