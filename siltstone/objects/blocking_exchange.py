"""Comparing a keyspace with another one, and making both equal, for blocking callers.

The two may be of different stores, which have a loop each. So what is asked of the other side runs
on its loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from siltstone.core.errors import SiltstoneError
from siltstone.objects.async_exchange import (
    AsyncDifferences,
    Difference,
    Sides,
    range_of,
    sides_of,
)
from siltstone.objects.changes import Name
from siltstone.objects.comparison import Share, no_share
from siltstone.objects.sync import Preference, Sync, SyncReport, check_preference
from siltstone.objects.tree import Node, Range
from siltstone.objects.tree_side import CopiedObject, HashPage, Side, own_side
from siltstone.store.blocking.background_loop import BackgroundLoop

if TYPE_CHECKING:
    from siltstone.objects.async_exchange import AsyncExchange

T = TypeVar("T")


class SideElsewhere:
    """A side that lives on another loop. See ``Side``."""

    def __init__(self, side: Side, loop: BackgroundLoop) -> None:
        self._side = side
        self._loop = loop

    async def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return await run_on(self._loop, work)

    async def refusal(self) -> SiltstoneError | None:
        """See ``Side``."""
        return await self._run(self._side.refusal())

    async def branches(self) -> list[Node]:
        """See ``Side``."""
        return await self._run(self._side.branches())

    async def leaves(self, which: Range) -> list[Node]:
        """See ``Side``."""
        return await self._run(self._side.leaves(which))

    async def hashes(self, which: Range) -> HashPage:
        """See ``Side``."""
        return await self._run(self._side.hashes(which))

    async def rows(self, row_keys: Sequence[bytes]) -> list[bytes]:
        """See ``Side``."""
        return await self._run(self._side.rows(row_keys))

    async def lost(self) -> list[bytes]:
        """See ``Side``."""
        return await self._run(self._side.lost())

    async def part(self, row_key: bytes, row: bytes, offset: int) -> bytes | None:
        """See ``Side``."""
        return await self._run(self._side.part(row_key, row, offset))

    async def record_value_max(self) -> int:
        """See ``Side``."""
        return await self._run(self._side.record_value_max())

    async def begin_upload(self) -> int:
        """See ``Side``."""
        return await self._run(self._side.begin_upload())

    async def push(self, upload: int, part: bytes) -> None:
        """See ``Side``."""
        await self._run(self._side.push(upload, part))

    async def finish(self, upload: int, copied: CopiedObject) -> bool:
        """See ``Side``."""
        return await self._run(self._side.finish(upload, copied))

    async def drop(self, upload: int) -> None:
        """See ``Side``."""
        await self._run(self._side.drop(upload))

    async def take(self, copied: CopiedObject) -> bool:
        """See ``Side``."""
        return await self._run(self._side.take(copied))

    async def remove(self, row_key: bytes, expected: int) -> bool:
        """See ``Side``."""
        return await self._run(self._side.remove(row_key, expected))

    async def end(self) -> None:
        """See ``Side``."""
        await self._run(self._side.end())


async def run_on(loop: BackgroundLoop, work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` on another loop, and wait for it on this one; a cancelled wait cancels it."""
    return await asyncio.wrap_future(loop.submit(work))


class Differences:
    """The objects that are not the same in two keyspaces. See ``AsyncDifferences``."""

    def __init__(self, loop: BackgroundLoop, differences: AsyncDifferences) -> None:
        self._loop = loop
        self._differences = differences

    def __iter__(self) -> Iterator[Difference]:
        return self._loop.iterate(self._differences.__aiter__)

    @property
    def exchanged_bytes(self) -> int:
        """What the newest iteration took from the other keyspace, and told it."""
        return self._differences.exchanged_bytes


class Exchange:
    """The verbs of a keyspace that are about another keyspace, too. See ``AsyncExchange``."""

    __slots__ = ()

    _loop: BackgroundLoop
    _keyspace: AsyncExchange

    def differences(
        self,
        other: Exchange,
        bucket: Name | None = None,
        *,
        tag: str | None = None,
        start: Name | None = None,
        end: Name | None = None,
        progress: Share = no_share,
    ) -> Differences:
        """Return an iterable of the objects that differ. See ``AsyncExchange.differences``.

        The other keyspace may be of another open store.
        """
        which = self._which(other, bucket, tag, start, end)
        found = AsyncDifferences(lambda: self._sides(which, other), progress)
        return Differences(self._loop, found)

    def sync(
        self,
        other: Exchange,
        bucket: Name | None = None,
        *,
        prefer: Preference,
        deletes: bool = False,
        dry_run: bool = False,
        tag: str | None = None,
        start: Name | None = None,
        end: Name | None = None,
        progress: Share = no_share,
    ) -> SyncReport:
        """Make this keyspace and another one equal. See ``AsyncExchange.sync``."""
        preference = check_preference(prefer, deletes=deletes)
        which = self._which(other, bucket, tag, start, end)

        async def work() -> SyncReport:
            async with self._sides(which, other) as sides:
                sync = Sync(*sides, preference, deletes=deletes, dry_run=dry_run, progress=progress)
                return await sync.run()

        return self._loop.run(work())

    def _which(
        self,
        other: Exchange,
        bucket: Name | None,
        tag: str | None,
        start: Name | None,
        end: Name | None,
    ) -> Range:
        left, right = self._keyspace._space.parts, other._keyspace._space.parts
        return range_of(left, right, bucket, tag, start, end)

    def _sides(self, which: Range, other: Exchange) -> AbstractAsyncContextManager[Sides]:
        there = other._keyspace._space

        async def begin(which: Range, now_s: float) -> Side:
            if other._loop is self._loop:
                return await own_side(there, which, now_s)
            side = await run_on(other._loop, own_side(there, which, now_s))
            return SideElsewhere(side, other._loop)

        return sides_of(self._keyspace._space, begin, which)
