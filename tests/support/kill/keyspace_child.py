"""What a process does that changes a keyspace until it is killed.

Each writer has one key and awaits each change before the next; it reports what was acknowledged, a
line of JSON on a pipe, by one ``write``.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any

from siltstone.objects.async_keyspace import AsyncKeyspace
from siltstone.objects.open_space import OpenSpace
from siltstone.objects.open_spaces import open_space
from siltstone.objects.space_names import space_names
from siltstone.objects.value_segments import RollLimits
from siltstone.store.opening import open_async_store

for late in ("siltstone.bindings.nfs.plugin", "siltstone.tier1.file.plugin"):
    import_module(late)  # Else each child does so when it opens.

NAMES = space_names("killed")
BUCKET = "b"
LIMITS = RollLimits(length=1_500, records=7, value=1_000, piece=300)


@dataclass(frozen=True)
class Work:
    """What a child is told.

    Attributes:
        folder: of the store.
        numbers: of each writer the number of its next change.
        compacts: whether value segments are compacted meanwhile.
        takeover: whether the store is taken from the owner that it has.
    """

    folder: str
    numbers: list[int]
    compacts: bool
    takeover: bool = False

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()


def removes(number: int) -> bool:
    """Whether the change of this number is a delete."""
    return number % 5 == 0


def value_of(writer: int, number: int) -> bytes:
    """The value that a writer puts."""
    length = 2_000 if is_large(number) else 37 * (number % 11)
    return f"{writer} {number} ".encode() + bytes(length)


def is_large(number: int) -> bool:
    """Whether the value of this number is a segment of its own, and put as a stream."""
    return number % 4 == 1


def report(pipe: int, *facts: Any) -> None:
    os.write(pipe, json.dumps(facts).encode() + b"\n")


async def write(photos: AsyncKeyspace, writer: int, number: int, pipe: int) -> None:
    """Change the key of a writer for ever."""
    key = f"writer {writer}"
    while True:
        sqn: int | None
        if removes(number):
            sqn = await photos.delete(BUCKET, key)
        else:
            index = {"number": [str(number)]}
            value = value_of(writer, number)
            if is_large(number):
                put = await photos.put_from(BUCKET, key, io.BytesIO(value), index=index)
            else:
                put = await photos.put(BUCKET, key, value, index=index)
            sqn = put.sqn
        report(pipe, "a", writer, number, sqn)
        number += 1


async def compact(space: OpenSpace) -> None:
    """Flush, compact two value segments at a time, and let expired objects go, for ever."""
    while True:
        await space.parts.store.flush()
        await space.compact(run_max=2)
        await space.reap()
        await asyncio.sleep(0.002)


async def run(work: Work, pipe: int) -> None:
    """Open the keyspace, and let all writers work."""
    try:
        async with await open_async_store(work.folder, takeover=work.takeover) as store:
            space = await open_space(store, NAMES, LIMITS)
            photos = AsyncKeyspace(space)
            report(pipe, "o")
            async with asyncio.TaskGroup() as group:
                if work.compacts:
                    group.create_task(compact(space))
                for writer, number in enumerate(work.numbers):
                    group.create_task(write(photos, writer, number, pipe))
    except BaseException as error:
        report(pipe, "e", repr(error))
        raise


def main(request: bytes, pipe: int) -> None:
    """Do what ``request`` says."""
    asyncio.run(run(Work(**json.loads(request)), pipe))
