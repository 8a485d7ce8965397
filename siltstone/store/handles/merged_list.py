"""One listing out of those of all containers, in name order, in constant memory."""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

PAGE_COUNT: Final = 1000
"""Names that one container gives at a time."""

NextPage = Callable[[str], Awaitable[list[T]]]
"""Given the last name, returns the next names; fewer than ``PAGE_COUNT`` at the end."""


async def merged(pages: Sequence[NextPage[T]], name_of: Callable[[T], str]) -> AsyncIterator[T]:
    """Yield what all ``pages`` give, in the order of the names' UTF-8 bytes."""
    waiting: list[tuple[bytes, int, int]] = []
    held: list[list[T]] = [[] for _ in pages]

    async def load(source: int, start_after: str) -> None:
        held[source] = await pages[source](start_after)
        push(source, 0)

    def push(source: int, index: int) -> None:
        if index < len(held[source]):
            heapq.heappush(waiting, (name_of(held[source][index]).encode(), source, index))

    for source in range(len(pages)):
        await load(source, "")
    while waiting:
        _, source, index = heapq.heappop(waiting)
        item = held[source][index]
        yield item
        if index + 1 < PAGE_COUNT:
            push(source, index + 1)
        else:
            await load(source, name_of(item))
