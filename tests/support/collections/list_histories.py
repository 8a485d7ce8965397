"""Processes that read lists in a collection and append to them, and what they saw of it.

The list of a key is one row, which an append replaces. So each list that is ever read has to begin
with each one that was there before it, and its last element tells which transaction was seen.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterable
from random import Random
from typing import Any, Final

import pyarrow

from siltstone.collections.async_collection import AsyncCollection
from siltstone.collections.async_subscription import AsyncSubscription
from siltstone.core.errors import (
    ChunkError,
    ConditionFailedError,
    LeaseExpiredError,
    OutcomeUnknownError,
    SinceError,
    UpperMismatchError,
)
from siltstone.testing.faults.faulty_chunk_storage import Fate, Plan, StorageCall
from siltstone.testing.virtual_time import jittered
from tests.support.collections.collections_world import NAME, CollectionsWorld, Opener
from tests.support.oracles.isolation import End, Transaction

LISTS: Final = pyarrow.schema(
    [pyarrow.field("k", pyarrow.string(), nullable=False), pyarrow.field("list", pyarrow.string())]
)
KEYS: Final = ("x", "y", "z")
HISTORY: Final = 25
"""Times that the collection keeps."""

Lists = dict[str, str]
"""Elements of each list that is not empty, with a comma after each."""


class Node:
    """One process, and what it was told of all changes since it began.

    Args:
        opener: the process.
        collection: that it has open.
        changes: since it began.
    """

    def __init__(
        self, opener: Opener, collection: AsyncCollection, changes: AsyncSubscription
    ) -> None:
        self.opener = opener
        self.collection = collection
        self._changes = changes
        self._told: list[tuple[str, str, int, int]] = []
        self._upper = -1

    @classmethod
    async def begun(cls, world: CollectionsWorld, plan: Plan) -> Node:
        """A process that begins to follow the collection."""
        opener = world.open()
        collection = await opener.collection()
        node = cls(opener, collection, await collection.subscribe())
        opener.storage.plan = plan
        return node

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

    async def read(self, upper: int, middle: int) -> Lists:
        """The lists before a frontier: rows at a time, and the changes after it."""
        rows = await (await self.collection.snapshot(middle, diffs=True)).to_arrow()
        counts = [(row["k"], row["list"], row["_diff"]) for row in rows.to_pylist()]
        async with await self.collection.listen(middle + 1, until=upper, lease=False) as rest:
            async for changes in rest:
                counts += [
                    (row["k"], row["list"], row["_diff"]) for row in changes.to_arrow().to_pylist()
                ]
        return lists_of(counts)


class ListClients:
    """The clients of one run, and what they saw.

    Args:
        seed: of all that is chosen.
        count: of transactions.
        faults: the share of calls to storage that fail.

    Attributes:
        seen: the transactions.
        lists: each list that was read.
    """

    def __init__(self, seed: int, count: int, faults: float = 0.05) -> None:
        self.seen: list[Transaction] = []
        self.lists: list[tuple[str, str]] = []
        self._chance = Random(seed)
        self._world = CollectionsWorld(seed * 1_000, latency=jittered(0.2))
        self._count = count
        self._faults = faults
        self._begun = 0
        self._moment = 0

    async def run(self, clients: int = 4) -> None:
        """Let clients work until all transactions were begun."""
        async with self._world as world:
            maker = world.open()
            await maker.collections.create(NAME, LISTS, key=["k"], times="count", history=HISTORY)
            await (await maker.collection()).append([])
            await asyncio.gather(*(self._client() for _ in range(clients)))

    async def _client(self) -> None:
        node = await Node.begun(self._world, self._plan)
        while self._begun < self._count:
            self._begun += 1
            name = str(self._begun)
            try:
                await self._transaction(node, name)
            except (ChunkError, SinceError, LeaseExpiredError, OutcomeUnknownError):
                node = await self._follower(node)
                continue
            if self._chance.random() < 0.1:
                await self._upkeep(node)

    async def _transaction(self, node: Node, name: str) -> None:
        chance = self._chance
        began = self._next_moment()
        info = await node.collection.info()
        assert info.upper is not None
        middle = chance.randint(info.since, info.upper - 1)
        lists = await node.read(info.upper, middle)
        self.lists += lists.items()
        assert lists == await node.followed(info.upper), "rows and changes, and changes alone"
        keys = chance.sample(KEYS, chance.randint(1, 3))
        writes = chance.sample(keys, chance.randint(0, len(keys)))
        old = [{"k": key, "list": lists[key]} for key in writes if key in lists]
        new = [{"k": key, "list": f"{lists.get(key, '')}{name},"} for key in writes]
        end, ended = End.UNKNOWN, None
        try:
            work = node.collection.append(new, remove=old or None, expected_upper=info.upper)
            await self._maybe_killed(node, work)
            end, ended = End.COMMITTED, self._next_moment()
        except (UpperMismatchError, ChunkError):
            end = End.REFUSED
        finally:
            reads = {key: last_of(lists.get(key)) for key in keys}
            self.seen.append(
                Transaction(
                    name=name,
                    reads=reads,
                    writes=frozenset(writes),
                    end=end,
                    began=began,
                    ended=ended,
                )
            )

    async def _maybe_killed(self, node: Node, work: Coroutine[Any, Any, object]) -> None:
        """Wait for an append, or let its process die in its middle."""
        append = asyncio.ensure_future(work)
        if self._chance.random() >= 0.05:
            await append
            return
        await asyncio.sleep(0.3 * self._chance.random())
        if append.done():
            await append
            return
        node.opener.die()
        append.cancel()
        raise OutcomeUnknownError("its process died")

    async def _follower(self, node: Node) -> Node:
        """The process that follows one that ended or was told an error."""
        node.opener.die()
        return await Node.begun(self._world, self._plan)

    async def _upkeep(self, node: Node) -> None:
        try:
            await node.collection.compact()
            await node.collection.collect()
        except (ChunkError, ConditionFailedError, OutcomeUnknownError):
            return  # All of it may be lost.

    def _plan(self, call: StorageCall) -> Fate:
        if self._chance.random() >= self._faults:
            return Fate.DONE
        return self._chance.choice((Fate.REFUSED, Fate.LOST_CALL, Fate.LOST_REPLY))

    def _next_moment(self) -> int:
        self._moment += 1
        return self._moment


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
