"""Processes on virtual time that read lists and append to them, and what they saw of it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any

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
from tests.support.collections.list_reader import HISTORY, KEYS, LISTS, ListReader, last_of
from tests.support.oracles.isolation import End, Transaction


class Node:
    """One process, and what it reads.

    Args:
        opener: the process.
        reader: what it reads.
    """

    def __init__(self, opener: Opener, reader: ListReader) -> None:
        self.opener = opener
        self.reader = reader
        self.collection = reader.collection

    @classmethod
    async def begun(cls, world: CollectionsWorld, plan: Plan) -> Node:
        """A process that begins to follow the collection."""
        opener = world.open()
        reader = await ListReader.begun(await opener.collection())
        opener.storage.plan = plan
        return cls(opener, reader)


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
        lists = await node.reader.read(info.upper, middle)
        self.lists += lists.items()
        assert lists == await node.reader.followed(info.upper), (
            "rows and changes, and changes alone"
        )
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
