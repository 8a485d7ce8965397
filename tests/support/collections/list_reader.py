"""Lists in a collection, as a process reads them: rows at a time, and the changes after it.

The list of a key is one row, which an append replaces. So each list that is ever read has to begin
with each one that was there before it, and its last element tells which transaction was seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import Final, Self

import pyarrow

from siltstone.collections.async_collection import AsyncCollection
from siltstone.collections.async_subscription import AsyncSubscription

LISTS: Final = pyarrow.schema(
    [pyarrow.field("k", pyarrow.string(), nullable=False), pyarrow.field("list", pyarrow.string())]
)
KEYS: Final = ("x", "y", "z")
HISTORY: Final = 25
"""Times that the collection keeps."""

Lists = dict[str, str]
"""Elements of each list that is not empty, with a comma after each."""


class ListReader:
    """One process that reads, and what it was told of all changes since it began.

    Args:
        collection: that it has open.
        changes: since it began.
    """

    def __init__(self, collection: AsyncCollection, changes: AsyncSubscription) -> None:
        self.collection = collection
        self._changes = changes
        self._told: list[tuple[str, str, int, int]] = []
        self._upper = -1

    @classmethod
    async def begun(cls, collection: AsyncCollection) -> Self:
        """A reader that begins to follow the collection."""
        return cls(collection, await collection.subscribe())

    async def followed(self, upper: int) -> Lists:
        """The lists before a frontier, by the changes that were told."""
        while self._upper < upper:
            changes = await anext(self._changes)
            self._told += [
                (row["k"], row["list"], row["_time"], row["_diff"])
                for row in changes.to_arrow().to_pylist()
            ]
            self._upper = changes.upper
        return lists_of((k, text, diff) for k, text, time, diff in self._told if time < upper)

    async def read(self, upper: int, middle: int, *, lease: bool = False) -> Lists:
        """The lists before a frontier: rows at a time, and the changes after it.

        Args:
            upper: the frontier.
            middle: the time of the rows.
            lease: whether both reads have one.
        """
        async with await self.collection.snapshot(middle, diffs=True, lease=lease) as snapshot:
            rows = await snapshot.to_arrow()
        counts = [(row["k"], row["list"], row["_diff"]) for row in rows.to_pylist()]
        async with await self.collection.listen(middle + 1, until=upper, lease=lease) as rest:
            async for changes in rest:
                counts += [
                    (row["k"], row["list"], row["_diff"]) for row in changes.to_arrow().to_pylist()
                ]
        return lists_of(counts)


def lists_of(counted: Iterable[tuple[str, str, int]]) -> Lists:
    """The lists of rows with their diffs; each key has one row at most, and that once."""
    counts: Counter[tuple[str, str]] = Counter()
    for key, text, diff in counted:
        counts[key, text] += diff
    there = {row: count for row, count in counts.items() if count}
    assert set(there.values()) <= {1}, there
    lists = dict(there)
    assert len({key for key, _ in lists}) == len(lists), there
    return dict(sorted(lists))


def last_of(text: str | None) -> str | None:
    """The last element of a list; ``None`` where it is empty."""
    return None if text is None else text.split(",")[-2]


def misfits(read: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Pairs of lists that were read of one key, of which the longer does not begin with the other.

    Args:
        read: keys and lists.
    """
    lists: dict[str, set[str]] = {}
    for key, text in read:
        lists.setdefault(key, set()).add(text)
    ordered = [sorted(texts, key=len) for texts in lists.values()]
    pairs = [pair for texts in ordered for pair in pairwise(texts)]
    return [(shorter, longer) for shorter, longer in pairs if not longer.startswith(shorter)]
