"""A log that begins with an append whose place only a later frame tells.

What may happen: bytes in front of an append are flushed, the layout that says so is acknowledged
after it, and the log is truncated up to the append before the table log on long-term storage has
that layout; then the owner dies.
What must hold after: the next owner and a reader read everything.
"""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path

from siltstone.core.constants import KIB
from siltstone.core.environment import SystemEnvironment
from tests.support.faults.gate import Gate, until
from tests.support.faults.place import STILL, Place

FILE_BYTES = 16 * KIB
BLOCK = b"0123456789abcdef" * 300


async def play(folder: Path, copy: Path) -> bytes:
    place = Place(folder, file_bytes=FILE_BYTES)
    gate = Gate(str(place.chunk_folder))
    environment = SystemEnvironment()
    # Every flush of the table log makes a new chunk, which can be held back.
    container = await place.own(environment, replace(STILL, chunk_bytes=1_000), storage=gate)
    await container.create("a")
    await container.flush()
    wanted = b""
    for _ in range(5):  # more than one file of the log
        await container.append("a", BLOCK)
        wanted += BLOCK
    gate.hold("/a/")
    gate.hold("/tables-")
    user = asyncio.create_task(container.flush("a"))
    await until(lambda: gate.reached("/a/"))
    await container.append("a", BLOCK)  # after what is being flushed, before its layout
    wanted += BLOCK
    await container.create("another")  # what the table flush below covers
    first = container.stats().log_first
    table = asyncio.create_task(container.flush("another"))
    await until(lambda: gate.reached("/tables-"))
    gate.let("/a/")
    await until(lambda: container.stats().unflushed_bytes <= len(BLOCK))
    # The next flush of the table log would bring the layout: the owner dies before it.
    gate.hold("/tables-0")
    gate.let("/tables-")
    await table
    assert container.stats().log_first > first, "the log was not truncated, so nothing is shown"
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("index*", "reader-*"))
    gate.let("/tables-0")
    await user
    await container.close()
    environment.close()
    return wanted


async def check(copy: Path, wanted: bytes) -> None:
    environment = SystemEnvironment()
    place = Place(copy, file_bytes=FILE_BYTES)
    reader = await place.read_only(environment)
    assert await reader.read("a", 0, len(wanted) + 1) == wanted
    await reader.close()
    container = await place.own(environment, STILL)
    assert await container.read("a", 0, len(wanted) + 1) == wanted
    await container.close()
    environment.close()


def test_the_layout_of_the_first_bytes_stands_in_a_later_frame(tmp_path: Path) -> None:
    wanted = asyncio.run(play(tmp_path / "live", tmp_path / "copy"))
    asyncio.run(check(tmp_path / "copy", wanted))
