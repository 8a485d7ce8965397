"""What a process does that reads lists in a collection and appends to them, until it is killed.

A transaction is reported twice: what it read and will write, before its append is sent; and how it
ended, with the moment, before the next call. All processes of a machine have one monotonic clock.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any

from siltstone.collections.async_collection import AsyncCollection
from siltstone.collections.async_collections import open_async_collections
from siltstone.collections.async_writer import AsyncCollectionWriter
from siltstone.collections.place import CollectionSettings
from siltstone.core.errors import (
    BatchExpiredError,
    ConditionFailedError,
    LeaseExpiredError,
    OutcomeUnknownError,
    SinceError,
    UpperMismatchError,
)
from tests.support.collections.list_reader import KEYS, ListReader, Lists, last_of
from tests.support.oracles.isolation import End

for late in ("pandas", "siltstone.bindings.nfs.plugin", "siltstone.bindings.s3.chunk_storage"):
    import_module(late)  # Else each child does so when it first makes an array, or opens.

NAME = "lists"

SETTINGS = CollectionSettings(lease_ms=3_000, garbage_delay_ms=200, poll_max_s=0.2)
"""Leases and garbage end while the test runs."""

LIFE_SEQUENCES = 1_000_000
"""Sequences that a process of a writer may use; the next one continues after them."""

Row = dict[str, Any]


@dataclass(frozen=True)
class ListWork:
    """What a child is told.

    Attributes:
        store: its settings file.
        slot: which of the processes it is; its writer is known by it.
        life: how many processes the slot had before.
        seed: of its choices.
        pause_s: between two transactions, at most.
        writes: whether it appends, or reads alone.
    """

    store: str
    slot: int
    life: int
    seed: int
    pause_s: float
    writes: bool

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()


class Change:
    """An element that is appended to some lists.

    Args:
        lists: as they are.
        keys: of those that change.
        element: that is appended.

    Attributes:
        old: rows that go.
        new: rows that come.
    """

    def __init__(self, lists: Lists, keys: list[str], element: str) -> None:
        self.old: list[Row] = [{"k": key, "list": lists[key]} for key in keys if key in lists]
        self.new: list[Row] = [
            {"k": key, "list": f"{lists.get(key, '')}{element},"} for key in keys
        ]

    def updates(self, times: Sequence[int]) -> list[Row]:
        """The same with a time for each key."""
        at = dict(zip(KEYS, times, strict=True))
        return [
            row | {"_time": at[row["k"]], "_diff": diff}
            for rows, diff in ((self.old, -1), (self.new, 1))
            for row in rows
        ]


class ListChild:
    """The work of one child."""

    def __init__(self, work: ListWork, pipe: int) -> None:
        self._work = work
        self._pipe = pipe
        self._chance = random.Random(work.seed)
        self._begun = 0

    def report(self, *facts: Any) -> None:
        data = json.dumps(facts).encode() + b"\n"
        while data:  # A pipe takes a long line in pieces.
            data = data[os.write(self._pipe, data) :]

    async def run(self) -> None:
        try:
            async with await open_async_collections(
                self._work.store, settings=SETTINGS
            ) as collections:
                await self._transactions(await collections.collection(NAME))
        except BaseException as error:
            self.report("e", self._work.slot, repr(error))
            raise

    async def _transactions(self, collection: AsyncCollection) -> None:
        writer = collection.writer(f"writer {self._work.slot}")
        await collection.info()
        self.report("o", self._work.slot, writer.sequence, time.monotonic_ns())
        while True:
            reader = await ListReader.begun(collection)
            with suppress(LeaseExpiredError, SinceError, OutcomeUnknownError):
                while True:
                    await self._transaction(reader, writer)
                    await asyncio.sleep(self._work.pause_s * self._chance.random())
                    if self._chance.random() < 0.1:
                        await self._upkeep(collection)

    async def _transaction(self, reader: ListReader, writer: AsyncCollectionWriter) -> None:
        chance = self._chance
        self._begun += 1
        name = f"{self._work.slot}.{self._work.life}.{self._begun}"
        began = time.monotonic_ns()
        info = await reader.collection.info()
        assert info.upper is not None
        middle = chance.randint(info.since, info.upper - 1)
        lists = await reader.read(info.upper, middle, lease=chance.random() < 0.5)
        told = await reader.followed(info.upper)
        assert lists == told, f"rows at {middle} and changes to {info.upper}: {lists}, all: {told}"
        keys = chance.sample(KEYS, chance.randint(1, len(KEYS)))
        if not self._work.writes:
            self._begin(name, lists, list(KEYS), [], began, None)
            self._end(name, End.COMMITTED)
            return
        writes = chance.sample(keys, chance.randint(0, len(keys)))
        # No two transactions have one sequence: one that is unknown may still be on its way.
        number = self._work.life * LIFE_SEQUENCES + self._begun
        sequence = number if chance.random() < 0.5 else None
        self._begin(name, lists, keys, writes, began, sequence)
        end = End.UNKNOWN
        try:
            change = Change(lists, writes, name)
            await self._append(reader.collection, writer, sequence, info.upper, change)
            end = End.COMMITTED
        except UpperMismatchError:
            end = End.REFUSED
        except BatchExpiredError:
            return
        finally:
            self._end(name, end)

    def _begin(
        self,
        name: str,
        lists: Lists,
        keys: list[str],
        writes: list[str],
        began: int,
        sequence: int | None,
    ) -> None:
        reads = {key: last_of(lists.get(key)) for key in keys}
        self.report("b", self._work.slot, name, reads, writes, began, sequence, lists)

    def _end(self, name: str, end: End) -> None:
        self.report("t", name, end.value, time.monotonic_ns())

    async def _append(
        self,
        collection: AsyncCollection,
        writer: AsyncCollectionWriter,
        sequence: int | None,
        upper: int,
        change: Change,
    ) -> None:
        """Append by one of the verbs that do, on the condition that the upper is still this."""
        old, new = change.old, change.new
        way = self._chance.random()
        if way < 0.4:
            new_upper = upper + self._chance.randint(1, 3)
            updates = change.updates([self._chance.randrange(upper, new_upper) for _ in KEYS])
            if sequence is None:
                await collection.compare_and_append(
                    updates, expected_upper=upper, new_upper=new_upper
                )
            else:
                await writer.compare_and_append(
                    updates, expected_upper=upper, new_upper=new_upper, sequence=sequence
                )
        elif way < 0.6:
            batches = [await collection.batch(new, remove=old)]
            if sequence is None:
                await collection.append_batches(batches, expected_upper=upper)
            else:
                await writer.append_batches(batches, sequence=sequence, expected_upper=upper)
        elif sequence is None:
            await collection.append(new, remove=old, expected_upper=upper)
        else:
            await writer.append(new, remove=old, expected_upper=upper, sequence=sequence)

    async def _upkeep(self, collection: AsyncCollection) -> None:
        choice = self._chance.random()
        if choice < 0.2:
            await collection.sweep()
        elif choice < 0.6:
            await collection.collect()
        else:
            with suppress(ConditionFailedError):  # Others compact, too.
                await collection.compact()


def main(request: bytes, pipe: int) -> None:
    """Do what ``request`` says."""
    asyncio.run(ListChild(ListWork(**json.loads(request)), pipe).run())
