"""Reads end to end over memory: borders, remembered blocks, damage."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from siltstone.bindings.memory.chunk_storage import Profile
from siltstone.core.constants import BLOCK_BYTES, MIB
from siltstone.core.errors import (
    CorruptDataError,
    LostDataError,
    OffsetError,
    SegmentNotFoundError,
    SegmentTruncatedError,
)
from siltstone.segments.segment_storage import ChunkProblem, SegmentStorageSettings
from tests.support.segments.segment_world import (
    Call,
    InlineEnvironment,
    World,
    small,
    write_pieces,
)


async def test_read_borders() -> None:
    world = World()
    whole = await write_pieces(world, [10])
    assert await world.read(1, 10, 5) == b""
    assert await world.read(1, 3, 0) == b""
    assert await world.read(1, 9, 5) == whole[9:]
    with pytest.raises(OffsetError):
        await world.read(1, 11, 5)
    with pytest.raises(SegmentNotFoundError):
        await world.read(5, 0, 1)
    world.layouts.change(1, deleted=True)
    with pytest.raises(SegmentNotFoundError):
        await world.read(1, 0, 1)


BORDERS = [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 2 * BLOCK_BYTES, 700_000]


async def test_an_aligned_read_is_one_call_into_the_callers_buffer() -> None:
    world = World()
    whole = await write_pieces(world, [20 * MIB])
    for offset, length, calls in [
        (0, 8 * MIB, 1),
        (8 * MIB, 8 * MIB, 1),
        (16 * MIB, 4 * MIB, 1),
        (100, 8 * MIB, 3),
        (100, 64 * 1024, 2),
        (100, 64 * 1024, 2),
    ]:
        del world.calls[:]
        assert await world.read(1, offset, length) == whole[offset : offset + length]
        reads = [call for call in world.calls if call.verb == "read_into" or length < MIB]
        assert len(reads) == calls
    assert world.calls[0].length == 64 * 1024


async def test_what_is_always_verified() -> None:
    world = World(settings=SegmentStorageSettings(verify_reads="always"))
    await write_pieces(world, [BLOCK_BYTES])
    for _ in range(2):
        del world.calls[:]
        await world.read(1, 5, 10)
        assert [(call.verb, call.length) for call in world.calls] == [("read_into", BLOCK_BYTES)]


async def test_where_chunks_never_change_a_read_is_one_call_and_always_verified() -> None:
    world = World(Profile(append=False, concat=False, seal=False))
    await write_pieces(world, [2 * BLOCK_BYTES])
    for _ in range(2):
        del world.calls[:]
        await world.read(1, 5, 10)
        assert [(call.verb, call.length) for call in world.calls] == [("read_into", BLOCK_BYTES)]


async def test_the_growing_block_is_never_remembered() -> None:
    world = World()
    await write_pieces(world, [100])
    (entry,) = world.segments.chunks(1)
    world.storage.inner.write(entry.chunk.name, 100, [b"not committed yet"])
    for _ in range(2):
        await world.read(1, 5, 10)
        assert world.calls[-1].length == 100


async def test_never_verified() -> None:
    world = World(settings=SegmentStorageSettings(verify_reads="never"))
    await write_pieces(world, [1000])
    world.content(world.segments.chunks(1)[0].chunk.name)[50] ^= 1
    assert len(await world.read(1, 50, 1)) == 1
    assert world.calls[-1].length == 1


@pytest.mark.parametrize("start", [0, 5])
async def test_every_flipped_byte_is_found(start: int) -> None:
    world = World(settings=small(40))
    whole = await write_pieces(world, [40, 40, 20])
    for entry in world.segments.chunks(1):
        content = world.content(entry.chunk.name)
        for index in range(len(content)):
            content[index] ^= 0x10
            with pytest.raises(CorruptDataError) as caught:
                await world.read(1, start, 100)
            assert entry.chunk.name in str(caught.value)
            assert "block=0" in str(caught.value)
            assert "expected=" in str(caught.value)
            assert "found=" in str(caught.value)
            content[index] ^= 0x10
        content[0] ^= 1
        for other in world.segments.chunks(1):
            if other != entry:
                extent = other.extent
                assert (
                    await world.read(1, extent.start, extent.length)
                    == whole[extent.start : extent.end]
                )
        content[0] ^= 1


@pytest.mark.parametrize("block", [0, 1, 2])
async def test_a_damaged_block_is_named_and_the_others_of_its_chunk_are_read(block: int) -> None:
    world = World()
    whole = await write_pieces(world, [2 * BLOCK_BYTES + 100])
    (entry,) = world.segments.chunks(1)
    start = block * BLOCK_BYTES
    world.content(entry.chunk.name)[start + 50] ^= 4
    with pytest.raises(CorruptDataError) as caught:
        await world.read(1, start + 10, 5)
    assert entry.chunk.name in str(caught.value)
    assert f"block={block}" in str(caught.value)
    for other in {0, 1, 2} - {block}:
        begin = other * BLOCK_BYTES
        assert await world.read(1, begin, 100) == whole[begin : begin + 100]


@pytest.mark.parametrize("offset", [0, 5, BLOCK_BYTES, BLOCK_BYTES + 5])
async def test_one_bad_answer_is_read_again(offset: int) -> None:
    world = World()
    whole = await write_pieces(world, [3 * BLOCK_BYTES])
    inner, bad = world.storage.inner.read_into, [True]

    def read_into(name: str, at: int, buffer: memoryview | bytearray) -> int:
        count = inner(name, at, buffer)
        if bad and bad.pop():
            buffer[count // 2] ^= 1
        return count

    world.storage.inner.read_into = read_into  # type: ignore[assignment, method-assign]
    length = 3 * BLOCK_BYTES - offset
    assert await world.read(1, offset, length) == whole[offset:]


async def test_chunks_that_vanish_or_shrink() -> None:
    world = World(settings=small(40))
    whole = await write_pieces(world, [40, 40, 40])
    first, second, third = (entry.chunk.name for entry in world.segments.chunks(1))
    del world.content(second)[39:]
    with pytest.raises(LostDataError, match="shorter"):
        await world.read(1, 45, 10)
    del world.content(second)[:]
    with pytest.raises(LostDataError, match="shorter"):
        await world.read(1, 0, 120)
    world.storage.inner.delete(second)
    del world.calls[:]
    with pytest.raises(LostDataError, match="not exist") as caught:
        await world.read(1, 0, 120)
    assert caught.value.where == second
    assert sum(call.name == second for call in world.calls) == 1
    assert await world.read(1, 0, 40) == whole[:40]
    assert await world.read(1, 80, 40) == whole[80:]
    assert first != third


@pytest.mark.parametrize(
    ("meanwhile", "error"),
    [
        ({"start_offset": 40}, SegmentTruncatedError),
        ({"deleted": True}, SegmentNotFoundError),
        ({"start_offset": 5}, LostDataError),
    ],
)
async def test_a_chunk_that_vanished_for_a_reason(
    meanwhile: dict[str, Any], error: type[Exception]
) -> None:
    world = World(settings=small(40))
    await write_pieces(world, [40, 40])
    name = world.segments.chunks(1)[0].chunk.name
    world.storage.inner.delete(name)

    def truncate(_: Call) -> None:
        world.layouts.change(1, **meanwhile)

    world.storage.decide = truncate
    with pytest.raises(error):
        await world.read(1, 10, 30)


async def test_a_chunk_that_was_replaced_is_looked_up_again() -> None:
    world = World()
    whole = await write_pieces(world, [40])
    (entry,) = world.segments.chunks(1)
    new = replace(entry.chunk, chunk_id=99, name=entry.chunk.name + "-copy")
    world.storage.inner.create(new.name, [whole])
    world.storage.inner.delete(entry.chunk.name)

    def merge(_: Call) -> None:
        rows = world.layouts.rows
        rows.extents[1] = [replace(entry.extent, chunk_id=99)]
        rows.chunks, rows.sums = {99: new}, {99: list(entry.sums)}

    world.storage.decide = merge
    assert await world.read(1, 0, 40) == whole


async def test_verify_chunk() -> None:
    world = World()
    await write_pieces(world, [9 * MIB + 5])
    (entry,) = world.segments.chunks(1)
    chunk = entry.chunk
    assert await world.segments.verify_chunk(chunk) is None
    world.content(chunk.name)[8 * MIB + 7] ^= 1
    finding = await world.segments.verify_chunk(chunk)
    assert finding is not None
    assert finding.problem is ChunkProblem.DAMAGED
    assert "block=32" in finding.message
    del world.content(chunk.name)[-1]
    finding = await world.segments.verify_chunk(chunk)
    assert finding is not None
    assert finding.problem is ChunkProblem.SHORT
    world.storage.inner.delete(chunk.name)
    finding = await world.segments.verify_chunk(chunk)
    assert finding is not None
    assert finding.problem is ChunkProblem.MISSING


async def test_reads_at_every_border_of_blocks_and_chunks() -> None:
    world = World(settings=small(700_000))
    whole = await write_pieces(world, [700_000, 300_000])
    for start in BORDERS:
        for end in [*BORDERS, 700_001, 700_000 + BLOCK_BYTES, 1_000_000]:
            if start < end:
                assert await world.read(1, start, end - start) == whole[start:end]


async def test_remembered_blocks() -> None:
    environment = InlineEnvironment()
    world = World(environment=environment)
    await write_pieces(world, [2 * BLOCK_BYTES])
    (entry,) = world.segments.chunks(1)

    async def bytes_read(offset: int) -> int:
        del world.calls[:]
        await world.read(1, offset, 10)
        return sum(call.length for call in world.calls)

    assert await bytes_read(5) == BLOCK_BYTES
    assert await bytes_read(50) == 10
    assert await bytes_read(BLOCK_BYTES + 5) == BLOCK_BYTES
    environment.now = 300
    assert await bytes_read(50) == 10
    environment.now = 601
    assert await bytes_read(50) == BLOCK_BYTES
    assert await bytes_read(50) == 10
    world.content(entry.chunk.name)[50] ^= 1
    world.bucket.chunks[entry.chunk.name.encode()].version += 1_000
    with pytest.raises(CorruptDataError):
        await bytes_read(50)
