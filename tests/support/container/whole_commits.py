"""Commits whose rows and bytes name each other, so that any state tells which of them are whole."""

from __future__ import annotations

import asyncio
from struct import Struct

from siltstone.container.container import Container
from siltstone.container.models.segments import Append, Put
from siltstone.container.reader.read_container import ReadContainer
from siltstone.core.constants import MIB
from siltstone.core.errors import SiltstoneError
from tests.support.container.container_world import pattern

SEGMENTS = ("a", "b", "c")
"""The bytes of a commit go to two of them."""

TABLE = "t"
PAUSE_S = 0.005
"""Between commits of one client, on virtual time: less than a call to storage takes."""

HEADER = Struct("<II")
"""Number of the commit, and how many bytes follow."""

Part = tuple[int, str]
"""A commit, by its number, and one of its segments."""


async def prepare(container: Container) -> None:
    """Make what commits go to."""
    for name in SEGMENTS:
        await container.create(name, exist_ok=True)
    await container.create_table(TABLE, exist_ok=True)


async def commit(container: Container, number: int, size: int) -> None:
    """Append ``size`` bytes to each of two segments, with a row for each, in one commit."""
    names = parts_of(number)
    record = HEADER.pack(number, size) + pattern(number, size)
    appends = [Append(name, record) for name in names]
    await container.commit([*appends, *(Put(TABLE, _key(number, name), b"") for name in names)])


def parts_of(number: int) -> tuple[str, str]:
    """The segments of a commit."""
    return SEGMENTS[number % 3], SEGMENTS[(number + 1) % 3]


async def keep_committing(
    container: Container, first: int, step: int, size: int, *, pause_s: float = PAUSE_S
) -> int:
    """Commit one after the other until the container ends; return how many were acknowledged."""
    number = first
    while True:
        try:
            await commit(container, number, size)
        except SiltstoneError:
            return (number - first) // step
        number += step
        await asyncio.sleep(pause_s)


async def whole_commits(state: Container | ReadContainer) -> set[int]:
    """Numbers of the commits that a state has; each of them is there with all its parts."""
    rows = await _rows(state)
    found: set[Part] = set()
    for name in SEGMENTS:
        found |= {(number, name) for number in await _records(state, name)}
    assert not rows - found, f"{len(rows - found)} rows without bytes: {min(rows - found)}"
    assert not found - rows, f"{len(found - rows)} parts without rows: {min(found - rows)}"
    numbers = {number for number, _ in rows}
    assert rows == {(number, name) for number in numbers for name in parts_of(number)}
    return numbers


async def _rows(state: Container | ReadContainer) -> set[Part]:
    found: set[Part] = set()
    start = b""
    while page := await state.table_scan(TABLE, start):
        for key, _ in page:
            number, _, name = key.decode().partition("/")
            found.add((int(number), name))
        start = page[-1][0] + b"\x00"
    return found


async def _records(state: Container | ReadContainer, name: str) -> list[int]:
    """Numbers of the commits whose bytes a segment has; its last record is whole, too."""
    numbers: list[int] = []
    data = await _all_bytes(state, name)
    offset = 0
    while offset < len(data):
        number, size = HEADER.unpack_from(data, offset)
        offset += HEADER.size
        assert data[offset : offset + size] == pattern(number, size), f"{name} at {offset}"
        offset += size
        numbers.append(number)
    return numbers


async def _all_bytes(state: Container | ReadContainer, name: str) -> bytes:
    length = (await state.info(name)).length
    parts = [await state.read(name, at, min(MIB, length - at)) for at in range(0, length, MIB)]
    return b"".join(parts)


def _key(number: int, name: str) -> bytes:
    return f"{number:08}/{name}".encode()
