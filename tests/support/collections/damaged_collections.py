"""Two collections of one bucket, and what a process sees of them after one object was harmed."""

from __future__ import annotations

from random import Random
from typing import Any, Final
from unittest import mock

import pyarrow

from siltstone.bindings.memory.bucket import Bucket, StoredChunk
from siltstone.collections.rows import encode_parts, open_part, part_file
from siltstone.core.errors import (
    CorruptDataError,
    FormatError,
    LostDataError,
    SiltstoneError,
)
from siltstone.testing.virtual_time import VirtualEnvironment
from tests.support.collections.collections_world import (
    NAME,
    SCHEMA,
    CollectionsWorld,
    Opener,
    rows,
)

OTHER: Final = "other"
GROUP_ROWS: Final = 100
"""Of the row groups of these parts: each has several."""

TOLD: Final = (CorruptDataError, FormatError, LostDataError)
"""What who reads harmed objects may be told."""

Seen = dict[str, Any]
"""What each verb gave: its result, or the error that it raised."""


class DamagedStore:
    """A bucket that is copied, harmed in one place, and looked at. Made by ``made``.

    Attributes:
        objects: the bytes of all objects, by name.
        now: the time of the clock.
    """

    def __init__(self, bucket: Bucket, now: float) -> None:
        self.objects = {
            key.decode(): bytes(bucket.chunks[key].content) for key in sorted(bucket.keys)
        }
        self.now = now
        self.unharmed: Seen = {}

    @classmethod
    def made(cls) -> DamagedStore:
        """Two alike collections with a history of 4 times, some batches in objects, some inline."""
        environment = VirtualEnvironment(1)
        world = CollectionsWorld(1, clock=environment.clock)

        async def made() -> None:
            opener = await world.create()
            await opener.collections.create(OTHER, SCHEMA, key=["k"], times="count")
            for number, name in enumerate((NAME, OTHER)):
                await filled(opener, name, Random(number))
            await opener.collections.close()

        with (
            mock.patch.object(part_file, "GROUP_ROWS", GROUP_ROWS),
            mock.patch.object(encode_parts, "GROUP_ROWS", GROUP_ROWS),
            environment.runner() as runner,
        ):
            runner.run(made())
        store = cls(world.bucket, environment.clock.now)
        store.unharmed = store.seen({})
        return store

    def names(self, kind: str) -> list[str]:
        """Names of the objects of a kind, of both collections and of the catalog."""
        return [name for name in self.objects if f"/{kind}/" in name]

    def seen(self, harmed: dict[str, bytes | None], *, whole: bool = True) -> Seen:
        """What a new process sees where objects have other bytes, or ``None`` for no object.

        Args:
            harmed: objects, by name.
            whole: whether small parts are read at once, and not by ranges.
        """
        environment = VirtualEnvironment(7)
        environment.clock.now = self.now
        world = CollectionsWorld(7_000, clock=environment.clock)
        for number, (name, data) in enumerate({**self.objects, **harmed}.items()):
            if data is not None:
                chunk = StoredChunk(content=bytearray(data), version=number + 1, modified_s=0.0)
                world.bucket.insert(name.encode(), chunk)
        with (
            mock.patch.object(open_part, "WHOLE_BYTES", 2**20 if whole else 0),
            environment.runner() as runner,
        ):
            return runner.run(looked(world.open()))


async def filled(opener: Opener, name: str, chance: Random) -> None:
    """Rows in parts, with times and diffs and without, and rows in the state."""
    collection = await opener.collection(name)
    await collection.append(rows(("inline", 1), ("nothing", None)))
    count = 350
    values = [chance.randrange(2**62) for _ in range(count)]
    keys = [f"key-{number:05}" for number in range(count)]
    await collection.append(pyarrow.table({"k": keys, "v": values}, schema=SCHEMA))
    updates = pyarrow.table(
        {
            "k": keys,
            "v": values,
            "_time": [2 + number % 3 for number in range(count)],
            "_diff": [2 - 3 * (number % 2) for number in range(count)],
        }
    )
    await collection.compare_and_append(updates, expected_upper=2, new_upper=5)
    await collection.append(rows(("last", 1)), remove=rows(("inline", 1)))


async def looked(opener: Opener) -> Seen:
    """Every verb that reads, one after the other; each begins where the one before left off."""
    seen: Seen = {}
    for name, times in ((NAME, (1, 5)), (OTHER, (5,))):
        for as_of in times:
            try:
                collection = await opener.collection(name)
                snapshot = await collection.snapshot(as_of, diffs=True)
                seen[f"{name} at {as_of}"] = updates_in(await snapshot.to_arrow())
            except SiltstoneError as error:
                seen[f"{name} at {as_of}"] = error
    try:
        collection = await opener.collection(NAME)
        async with await collection.subscribe(1, until=6) as changes:
            tables = [one.updates async for one in changes]
        seen[f"{NAME} followed"] = updates_in(pyarrow.concat_tables(tables))
    except SiltstoneError as error:
        seen[f"{NAME} followed"] = error
    try:
        checked = opener.collections.check(deep=True)
        found = [one async for one in checked if one.severity == "damage"]
        seen["check"] = sorted(f"{one.where}: {one.message}" for one in found)
    except SiltstoneError as error:
        seen["check"] = error
    return seen


def updates_in(table: pyarrow.Table) -> list[tuple[Any, ...]]:
    """Rows with their counts, in order."""
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=str)


def flipped(data: bytes, at: int) -> bytes:
    """Bytes, one of which has one bit changed."""
    changed = bytearray(data)
    changed[at] ^= 1 << at % 8
    return bytes(changed)
