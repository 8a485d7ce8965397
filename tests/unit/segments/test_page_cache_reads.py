"""Reads at a place: what is remembered about blocks, and what is not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import pytest

from siltstone.core.constants import BLOCK_BYTES, GROUP_BLOCKS
from siltstone.core.errors import CorruptDataError
from siltstone.core.storage.optional_verbs import ReadNow
from siltstone.segments.page_cache_reads import SHARE_BYTES_MIN, NearReads, ReadPlace
from tests.support import inside
from tests.support.segments.segment_world import World, data

VERSION = "version"


async def made(length: int) -> tuple[World, bytes, ReadPlace]:
    """A world with one growing chunk, its bytes and its place."""
    world = World()
    world.layouts.add(1)
    whole = data(length)
    await world.segments.write(1, 0, [whole])

    near = NearReads(inside.context(world.segments), unchanging(world))
    place = near.find(1, 0)
    assert place is not None
    near.learn(place, 0, length)
    return world, whole, place


def unchanging(world: World) -> ReadNow:
    """Reads of chunks that seem unchanged, whatever is written."""

    def read_now(name: str, offset: int, buffer: memoryview | bytearray) -> str | None:
        count = world.storage.inner.read_into(name, offset, buffer)
        return VERSION if count == len(buffer) else None

    return read_now


def alone(work: Callable[[], None]) -> Callable[[], None]:
    return lambda: None


async def test_the_last_block_of_what_grows_is_verified_each_time() -> None:
    length = BLOCK_BYTES + 1000
    world, whole, place = await made(length)
    blocks = inside.context(world.segments).blocks
    for offset in (5, BLOCK_BYTES + 5):
        for _ in range(2):
            buffer = bytearray(100)
            assert place.read(offset, buffer)
            assert buffer == whole[offset : offset + 100]
    assert blocks.version(place.chunk.name, 0, 1) == VERSION
    assert blocks.version(place.chunk.name, 1, 2) is None
    world.content(place.chunk.name)[BLOCK_BYTES + 700] ^= 1
    assert not place.read(BLOCK_BYTES + 5, bytearray(100))
    await world.segments.close_chunk(1)
    world.content(place.chunk.name)[BLOCK_BYTES + 700] ^= 1
    closed = place.near.find(1, 0)
    assert closed is not None
    place.near.learn(closed, 0, length)
    assert closed.read(BLOCK_BYTES + 5, bytearray(100))
    assert blocks.version(place.chunk.name, 0, 2) == VERSION


@pytest.mark.slow
async def test_sums_that_were_not_looked_up_are_no_answer() -> None:
    length = (GROUP_BLOCKS + 1) * BLOCK_BYTES
    world, whole, _ = await made(length)
    place = NearReads(inside.context(world.segments), unchanging(world)).find(1, 0)
    assert place is not None
    middle = GROUP_BLOCKS * BLOCK_BYTES
    assert not place.read(middle - 50, bytearray(100))
    place.near.learn(place, 0, 10)
    assert not place.read(middle - 50, bytearray(100))
    assert not place.read_all(middle - BLOCK_BYTES, memoryview(bytearray(2 * BLOCK_BYTES)), alone)
    place.near.learn(place, middle - 50, middle + 50)
    buffer = bytearray(100)
    assert place.read(middle - 50, buffer)
    assert buffer == whole[middle - 50 : middle + 50]


async def test_while_storage_is_slow_reads_are_ordinary_so_that_some_are_read_ahead_of() -> None:
    _, whole, place = await made(2 * BLOCK_BYTES)
    ahead, buffer = place.near.ahead, bytearray(100)
    ahead.measured(100, 10.0)
    assert not place.read(5, buffer)
    assert not place.read_all(5, memoryview(buffer), alone)
    ahead.measured(100, 0.0)
    assert place.read(5, buffer)
    assert place.read_all(5, memoryview(buffer), alone)
    assert buffer == whole[5:105]
    for read in (place.read, partial(place.read_all, share=alone)):
        for _ in range(2):
            ahead.measured(100, 10.0)
            assert read(5, memoryview(buffer)), "a late answer between quick ones says nothing"


async def test_what_changes_after_a_read_is_not_remembered_as_verified() -> None:

    def changing(world: World, versions: Iterator[str]) -> ReadNow:
        """Reads of a chunk that is written to after each read, before its version is read."""

        def read_now(name: str, offset: int, buffer: memoryview | bytearray) -> str:
            world.storage.inner.read_into(name, offset, buffer)
            return next(versions)

        return read_now

    world, whole, place = await made(2 * BLOCK_BYTES)
    versions = iter("abcdefgh")
    near = NearReads(inside.context(world.segments), changing(world, versions))
    place = replace(place, near=near)
    assert place.read(5, buffer := bytearray(100))
    assert buffer == whole[5:105]
    assert next(versions) == "c"
    assert inside.context(world.segments).blocks.version(place.chunk.name, 0, 1) == "a"


@pytest.mark.parametrize("how", ["parallel", "instead"])
async def test_two_threads_read_what_one_would(how: str) -> None:
    """The thread that takes a piece reads it; a damaged piece is told, whichever took it."""

    def share(work: Callable[[], None]) -> Callable[[], None]:
        thread = threading.Thread(target=work)
        thread.start()
        if how == "instead":
            thread.join()
        return thread.join

    length = SHARE_BYTES_MIN + 9 * BLOCK_BYTES
    world, whole, place = await made(length)
    for offset, end in ((0, length), (7, length - 7)):
        view = memoryview(bytearray(end - offset))
        assert place.read_all(offset, view, share)
        assert view == whole[offset:end]
        for where in (offset, (offset + end) // 2, end - 1):
            world.content(place.chunk.name)[where] ^= 1
            inside.context(world.segments).blocks.forget(place.chunk.name)
            assert not place.read_all(offset, view, share)
            with pytest.raises(CorruptDataError):
                await world.read(1, offset, end - offset)
            world.content(place.chunk.name)[where] ^= 1
