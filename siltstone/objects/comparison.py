"""Where two sides of a comparison differ, found with little that goes from one to the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final, NamedTuple

from siltstone.core.errors import SiltstoneError
from siltstone.objects.tree import HASH_BYTES, SUM_BYTES, Node, Range, differing
from siltstone.objects.tree_side import CopiedObject, HashPage, Side

LENGTH_BYTES: Final = 4
"""What says how long a part of a message is."""


Share = Callable[[float], None]
"""Told how much is done, from 0 to 1."""


def no_share(share: float) -> None:
    """Tell nothing."""


class DifferentRows(NamedTuple):
    """An object that differs.

    Attributes:
        row_key: of its head.
        left: the head on the left; ``None`` when it is absent there.
        right: the head on the right.
    """

    row_key: bytes
    left: bytes | None
    right: bytes | None


class LostValue(NamedTuple):
    """An object that is the same on both sides, and whose value one of them lost.

    Attributes:
        rows: its heads.
        is_left: whether it is the left side that lost it; the right one may have, too.
    """

    rows: DifferentRows
    is_left: bool


class CountedSide:
    """The side that may be far away, with the bytes that go to it and come from it. See ``Side``.

    Args:
        side: the side itself.

    Attributes:
        exchanged_bytes: keys, sums, hashes, heads and values, each part with its length.
    """

    def __init__(self, side: Side) -> None:
        self._side = side
        self.exchanged_bytes = 0

    def _count(self, *sizes: int) -> None:
        self.exchanged_bytes += sum(sizes) + LENGTH_BYTES * len(sizes)

    async def refusal(self) -> SiltstoneError | None:
        """See ``Side``."""
        return await self._side.refusal()

    async def branches(self) -> list[Node]:
        """See ``Side``."""
        return self._nodes(await self._side.branches())

    async def leaves(self, which: Range) -> list[Node]:
        """See ``Side``."""
        self._count(*map(len, which))
        return self._nodes(await self._side.leaves(which))

    def _nodes(self, nodes: list[Node]) -> list[Node]:
        self._count(*(len(node.first) + SUM_BYTES for node in nodes))
        return nodes

    async def hashes(self, which: Range) -> HashPage:
        """See ``Side``."""
        self._count(*map(len, which))
        page = await self._side.hashes(which)
        self._count(*(len(row_key) + HASH_BYTES for row_key in page.hashes))
        return page

    async def rows(self, row_keys: Sequence[bytes]) -> list[bytes]:
        """See ``Side``."""
        self._count(*map(len, row_keys))
        rows = await self._side.rows(row_keys)
        self._count(*map(len, rows))
        return rows

    async def lost(self) -> list[bytes]:
        """See ``Side``."""
        row_keys = await self._side.lost()
        self._count(*map(len, row_keys))
        return row_keys

    async def part(self, row_key: bytes, row: bytes, offset: int) -> bytes | None:
        """See ``Side``."""
        self._count(len(row_key), LENGTH_BYTES)
        part = await self._side.part(row_key, row, offset)
        self._count(len(part or b""))
        return part

    async def record_value_max(self) -> int:
        """See ``Side``."""
        return await self._side.record_value_max()

    async def begin_upload(self) -> int:
        """See ``Side``."""
        return await self._side.begin_upload()

    async def push(self, upload: int, part: bytes) -> None:
        """See ``Side``."""
        self._count(len(part))
        await self._side.push(upload, part)

    async def finish(self, upload: int, copied: CopiedObject) -> bool:
        """See ``Side``."""
        self._count(len(copied.row_key), len(copied.row))
        return await self._side.finish(upload, copied)

    async def drop(self, upload: int) -> None:
        """See ``Side``."""
        await self._side.drop(upload)

    async def take(self, copied: CopiedObject) -> bool:
        """See ``Side``."""
        self._count(len(copied.row_key), len(copied.row), len(copied.value))
        return await self._side.take(copied)

    async def remove(self, row_key: bytes, expected: int) -> bool:
        """See ``Side``."""
        self._count(len(row_key))
        return await self._side.remove(row_key, expected)

    async def end(self) -> None:
        """See ``Side``."""
        await self._side.end()


class Comparison:
    """Finds what differs between two sides.

    Args:
        left: one side.
        right: the other.
        which: the range of rows of both.
        progress: told how much is done, from 0 to 1.
    """

    def __init__(self, left: Side, right: Side, which: Range, progress: Share = no_share) -> None:
        self._progress = progress
        self._left = left
        self._right = right
        self._which = which

    async def pages(self) -> AsyncIterator[list[DifferentRows]]:
        """Yield the objects that differ, in the order of their keys, some at a time."""
        first, after = self._which
        if first >= after:
            self._progress(1.0)
            return
        left, right = await asyncio.gather(self._left.branches(), self._right.branches())
        differ = list(differing(left, right, after))
        for number, branches in enumerate(differ):
            self._progress(number / len(differ))
            left, right = await self._left.leaves(branches), await self._right.leaves(branches)
            for leaves in differing(left, right, branches[1]):
                async for page in self._of_leaves(leaves):
                    yield page
        self._progress(1.0)

    async def lost(self) -> AsyncIterator[LostValue]:
        """Yield the objects that are the same on both sides, and whose value one of them lost."""
        left, right = await self._left.lost(), await self._right.lost()
        for is_left, row_keys in ((True, left), (False, sorted(set(right).difference(left)))):
            for row_key in row_keys:
                which = (row_key, row_key + b"\0")
                hashes = [
                    (await side.hashes(which)).hashes.get(row_key)
                    for side in (self._left, self._right)
                ]
                if hashes[0] is not None and hashes[0] == hashes[1]:
                    (left_row,), (right_row,) = (
                        await self._left.rows([row_key]),
                        await self._right.rows([row_key]),
                    )
                    yield LostValue(DifferentRows(row_key, left_row, right_row), is_left)

    async def _of_leaves(self, which: Range) -> AsyncIterator[list[DifferentRows]]:
        first, after = which
        while True:
            left = await self._left.hashes((first, after))
            right = await self._right.hashes((first, after))
            ends = [page.after for page in (left, right) if page.after is not None]
            end = min(ends, default=after)  # beyond, not both sides are known
            keys = sorted(
                row_key
                for row_key in left.hashes.keys() | right.hashes.keys()
                if row_key < end and left.hashes.get(row_key) != right.hashes.get(row_key)
            )
            if keys:
                lefts = await _rows(self._left, [key for key in keys if key in left.hashes])
                rights = await _rows(self._right, [key for key in keys if key in right.hashes])
                yield [DifferentRows(key, lefts.get(key), rights.get(key)) for key in keys]
            if not ends:
                return
            first = end


async def _rows(side: Side, row_keys: list[bytes]) -> dict[bytes, bytes]:
    rows = await side.rows(row_keys) if row_keys else []
    return dict(zip(row_keys, rows, strict=True))
