"""What a process does that works on a collection until it is killed.

It appends by the writer of its slot, each sequence once, compacts, collects and reads. Each
acknowledgement is reported before the next call: a line of JSON on a pipe, by one ``write``. Its
leases are short: on a busy machine one may end while it waits, and then it begins again.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from typing import Any

import pyarrow

from siltstone.collections.async_collection import AsyncCollection
from siltstone.collections.async_collections import AsyncCollections, open_async_collections
from siltstone.collections.async_writer import AppendResult
from siltstone.collections.place import CollectionSettings
from siltstone.core.errors import BatchExpiredError, LeaseExpiredError
from siltstone.store.opening import open_async_store

for late in ("pandas", "siltstone.bindings.nfs.plugin", "siltstone.bindings.s3.chunk_storage"):
    import_module(late)  # Else each child does so when it first makes an array, or opens.

NAME = "killed"

SCHEMA = pyarrow.schema(
    [
        pyarrow.field("writer", pyarrow.int64(), nullable=False),
        pyarrow.field("sequence", pyarrow.int64(), nullable=False),
        pyarrow.field("row", pyarrow.int64(), nullable=False),
    ]
)

SETTINGS = CollectionSettings(lease_ms=3_000, garbage_delay_ms=500, poll_max_s=0.2)
"""Leases and garbage end while the test runs."""


@dataclass(frozen=True)
class Work:
    """What a child is told.

    Attributes:
        store: its settings file, or the folder of that.
        slot: which writer it is.
        seed: of its choices.
        pause_s: between two appends, at most.
        owns: whether it owns the store, and has the collection in a table of it.
    """

    store: str
    slot: int
    seed: int
    pause_s: float
    owns: bool = False

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()


def rows_of(writer: int, sequence: int) -> int:
    """How many rows an append has: mostly few, which are inline, at times too many for that."""
    return 400 if (writer + sequence) % 7 == 0 else 1 + sequence % 3


def table_of(writer: int, sequence: int) -> pyarrow.Table:
    """The rows of an append."""
    count = rows_of(writer, sequence)
    columns = [[writer] * count, [sequence] * count, list(range(count))]
    return pyarrow.table([pyarrow.array(one, pyarrow.int64()) for one in columns], schema=SCHEMA)


def appends_in(table: pyarrow.Table) -> Mapping[int, int]:
    """How many appends of each writer a snapshot shows: all of them whole, once, without gaps."""
    counted = table.group_by(["writer", "sequence"]).aggregate([("row", "count")])
    distinct = table.group_by(["writer", "sequence", "row"]).aggregate([])
    assert len(distinct) == len(table), "a row is there twice"
    found: dict[int, set[int]] = {}
    for row in counted.to_pylist():
        assert row["row_count"] == rows_of(row["writer"], row["sequence"]), f"not whole: {row}"
        found.setdefault(row["writer"], set()).add(row["sequence"])
    for writer, sequences in found.items():
        assert sequences == set(range(len(sequences))), f"writer {writer} has gaps"
    return {writer: len(sequences) for writer, sequences in found.items()}


class Child:
    """The work of one child."""

    def __init__(self, work: Work, pipe: int) -> None:
        self._work = work
        self._pipe = pipe
        self._random = random.Random(work.seed)

    def report(self, *facts: Any) -> None:
        os.write(self._pipe, json.dumps(facts).encode() + b"\n")

    async def run(self) -> None:
        try:
            async with self._opened() as collections:
                gusts = await collections.collection(NAME)
                self.report("o", self._work.slot)
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._append(gusts))
                    group.create_task(self._read(gusts))
                    group.create_task(self._follow(gusts))
        except BaseException as error:
            self.report("e", self._work.slot, f"{error!r} {getattr(error, 'exceptions', '')!r}")
            raise

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[AsyncCollections]:
        place = self._work.store
        if not self._work.owns:
            async with await open_async_collections(place, settings=SETTINGS) as collections:
                yield collections
            return
        settings = replace(SETTINGS, consensus="table")
        async with (
            await open_async_store(place) as store,
            await open_async_collections(store, settings=settings) as collections,
        ):
            yield collections

    async def _append(self, gusts: AsyncCollection) -> None:
        slot = self._work.slot
        writer = gusts.writer(f"writer {slot}")
        sequence = writer.sequence + 1
        while True:
            table = table_of(slot, sequence)
            done: AppendResult
            try:
                if self._random.random() < 0.1:
                    batch = await gusts.batch(table)
                    done = await writer.append_batches([batch], sequence=sequence)
                else:
                    done = await writer.append(table, sequence=sequence)
            except BatchExpiredError:
                continue
            self.report("a", slot, sequence, done.time, done.repeated)
            if self._random.random() < 0.2:
                again = await writer.append(table, sequence=sequence)
                assert (again.upper, again.repeated) == (done.upper, True)
            sequence += 1
            await asyncio.sleep(self._work.pause_s * self._random.random())

    async def _read(self, gusts: AsyncCollection) -> None:
        while True:
            await asyncio.sleep((0.3 + 10 * self._work.pause_s) * self._random.random())
            with suppress(LeaseExpiredError):
                async with await gusts.snapshot(lease=self._random.random() < 0.5) as snapshot:
                    appends_in(await snapshot.to_arrow())
            choice = self._random.random()
            if choice < 0.1:
                await gusts.sweep()
            elif choice < 0.3:
                await gusts.collect()

    async def _follow(self, gusts: AsyncCollection) -> None:
        frontier = (await gusts.info()).upper
        while True:
            with suppress(LeaseExpiredError):
                async with await gusts.listen(frontier) as listener:
                    async for changes in listener:
                        assert changes.lower == frontier
                        frontier = changes.upper
                        times = set(changes.updates["_time"].to_pylist())
                        assert all(changes.lower <= time < changes.upper for time in times)


def main(request: bytes, pipe: int) -> None:
    """Do what ``request`` says."""
    asyncio.run(Child(Work(**json.loads(request)), pipe).run())
