"""Sequential readers of slow storage: the bytes are right, and the cost is bounded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from siltstone.core.constants import MIB
from siltstone.core.errors import ChunkUnavailableError, CorruptDataError, SegmentTruncatedError
from siltstone.segments.read_ahead import PIECE_BYTES, STREAMS_MAX, Fetch, InMemory, ReadAhead
from siltstone.segments.segment_storage import SegmentStorageSettings
from siltstone.testing.virtual_time import VirtualEnvironment
from tests.support import inside
from tests.support.async_tests import running_clock
from tests.support.segments.segment_world import Call, World, write_pieces

CALL_S = 0.1
LENGTH = 40 * MIB
BUDGET = 64 * MIB


@asynccontextmanager
async def filled(
    *, call_s: float = CALL_S, budget: int = BUDGET, chunk_bytes: int = 6 * MIB
) -> AsyncIterator[tuple[World, bytes]]:
    """Fill one segment on storage whose calls take ``call_s``; nothing is held at the end."""
    environment = VirtualEnvironment(clock=running_clock())
    settings = SegmentStorageSettings(chunk_bytes=chunk_bytes, prefetch_bytes=budget)
    world = World(environment=environment, settings=settings)
    whole = await write_pieces(world, [MIB] * (LENGTH // MIB))
    environment.latency = lambda pool, chance: call_s
    try:
        yield world, whole
    finally:
        await world.segments.close()
    assert ahead_of(world).held_bytes == 0


def ahead_of(world: World) -> ReadAhead:
    return inside.context(world.segments).ahead


def small_pieces(fetch: Fetch, in_memory: InMemory = lambda segment_id, offset: False) -> ReadAhead:
    """Read pieces of 4 bytes ahead, at most 64 bytes of them."""
    return ReadAhead(fetch, lambda _, start, end: min(end, start + 4), in_memory, 64)


async def read_all(world: World, step: int) -> bytes:
    found = bytearray()
    while part := await world.read(1, len(found), step):
        found += part
        assert ahead_of(world).held_bytes <= world.settings.prefetch_bytes
    return bytes(found)


@pytest.mark.slow
@pytest.mark.parametrize("step", [64 * 1024, MIB, 3 * MIB + 17, 8 * MIB, 40 * MIB])
@pytest.mark.virtual_time
async def test_a_sequential_reader_gets_the_bytes(step: int) -> None:
    async with filled() as (world, whole):
        assert await read_all(world, step) == whole


@pytest.mark.slow
@pytest.mark.parametrize("budget", [0, BUDGET])
@pytest.mark.virtual_time
async def test_a_sequential_reader_does_not_wait_for_each_call(budget: int) -> None:
    async with filled(budget=budget) as (world, whole):
        loop = asyncio.get_running_loop()
        started = loop.time()
        assert await read_all(world, MIB) == whole
        waits = round((loop.time() - started) / CALL_S)
        if budget:
            assert waits < 12
        else:
            assert waits >= 40


@pytest.mark.slow
@pytest.mark.virtual_time
async def test_each_byte_is_read_once() -> None:
    async with filled() as (world, whole):
        del world.calls[:]
        assert await read_all(world, MIB) == whole
        ranges = sorted((call.name, call.offset, call.length) for call in world.calls)
        for (name, offset, length), (following, begin, _) in pairwise(ranges):
            assert following != name or offset + length <= begin
        assert sum(length for _, _, length in ranges) == LENGTH


@pytest.mark.slow
@pytest.mark.parametrize("chunk_bytes", [13 * MIB, 15 * MIB, 21 * MIB, 64 * MIB])
@pytest.mark.parametrize("call_s", [0.0, CALL_S])
@pytest.mark.virtual_time
async def test_a_sequential_read_takes_a_call_for_each_8_mib(
    chunk_bytes: int, call_s: float
) -> None:
    async with filled(chunk_bytes=chunk_bytes, call_s=call_s) as (world, whole):
        for _ in range(3):
            ahead_of(world).measured(MIB, call_s)
        del world.calls[:]
        assert await read_all(world, 8 * MIB) == whole
        reads = [call for call in world.calls if call.verb == "read_into"]
        assert sum(call.length for call in reads) == LENGTH
        # The first two reads are the reader's own, so a chunk border may cut one of them; nothing
        # is read ahead for a reader of quick storage, whose own reads meet all borders.
        borders = len(world.segments.chunks(1)) - 1
        assert len(reads) <= LENGTH // (8 * MIB) + min(borders, 1 if call_s else borders)


@pytest.mark.slow
@pytest.mark.virtual_time
async def test_parallel_readers_do_not_get_the_memory_of_each_other() -> None:
    async with filled() as (world, whole):
        for start in range(0, 6 * MIB, MIB):
            assert await world.read(1, start, MIB) == whole[start : start + MIB]
        for _ in range(2):
            starts = range(6 * MIB, LENGTH, 3 * MIB)
            reads = [world.read(1, start, 3 * MIB) for start in starts]
            found = b"".join(await asyncio.gather(*reads))
            assert found == whole[6 * MIB :]


async def test_memory_that_a_reader_still_waits_for_is_not_used_again() -> None:
    arrived = asyncio.Event()

    async def fetch(segment_id: int, offset: int, view: memoryview) -> None:
        await arrived.wait()
        view[:] = bytes(range(offset, offset + len(view)))

    ahead = small_pieces(fetch)
    ahead.measured(MIB, CALL_S)
    assert ahead.follow(1, 0, 4, 100) is None
    assert ahead.follow(1, 4, 8, 100) is not None
    stream = ahead.follow(1, 8, 12, 100)
    assert stream is not None
    first, second = memoryview(bytearray(2)), memoryview(bytearray(2))
    takes = [ahead.take(stream, 10, second), ahead.take(stream, 8, first)]
    tasks = [asyncio.create_task(take) for take in takes]
    await asyncio.sleep(0)
    arrived.set()
    # The reader that ends the piece continues before the other one has copied its part.
    assert await asyncio.gather(*tasks) == [2, 2]
    assert ahead._room.spare_bytes == 0
    assert (bytes(first), bytes(second)) == (bytes([8, 9]), bytes([10, 11]))
    assert await ahead.take(stream, 12, memoryview(bytearray(4))) == 4
    assert ahead._room.spare_bytes == 4
    await ahead.close()


async def test_the_next_piece_is_asked_for_before_bytes_of_one_that_is_there_are_copied() -> None:
    target = memoryview(bytearray(4))
    asked: dict[int, bytes] = {}

    async def fetch(segment_id: int, offset: int, view: memoryview) -> None:
        asked[offset] = bytes(target)
        view[:] = bytes(range(offset, offset + len(view)))

    ahead = small_pieces(fetch)
    ahead.measured(MIB, CALL_S)
    ahead.follow(1, 0, 1, 100)
    ahead.follow(1, 1, 2, 100)
    await asyncio.gather(*ahead._tasks)
    assert list(asked) == [2]
    stream = ahead.follow(1, 2, 6, 100)
    assert stream is not None
    assert await ahead.take(stream, 2, target) == 4
    assert bytes(target) == bytes([2, 3, 4, 5])
    assert asked == dict.fromkeys([2, 6, 10, 14], bytes(4))
    await ahead.close()


@pytest.mark.parametrize(("step", "pieces"), [(1, 1), (2, 2), (4, 4), (16, 8)])
async def test_the_further_a_reader_has_come_the_more_is_read_ahead(step: int, pieces: int) -> None:
    async def fetch(segment_id: int, offset: int, view: memoryview) -> None:
        view[:] = bytes(len(view))

    ahead = small_pieces(fetch)
    ahead.measured(MIB, CALL_S)
    assert ahead.follow(1, 0, step, 100) is None, "one read may be the only one"
    assert ahead.follow(1, step, 2 * step, 100) is not None
    assert ahead.held_bytes == 4 * pieces
    await ahead.close()


async def test_while_storage_is_quick_only_a_reader_with_something_ahead_is_wanted() -> None:
    async def fetch(segment_id: int, offset: int, view: memoryview) -> None:
        view[:] = bytes(range(offset, offset + len(view)))

    ahead = small_pieces(fetch)
    assert not ahead.wants(1, 4), "one read has to be slow first"
    ahead.measured(MIB, CALL_S)
    assert ahead.wants(1, 4)
    assert ahead.wants(2, 0)
    ahead.follow(1, 6, 7, 100)
    assert ahead.follow(1, 7, 8, 100) is not None
    ahead.measured(MIB, 0.0)
    assert ahead.wants(1, 8), "its next bytes are held for it"
    assert not ahead.wants(1, 4)
    assert not ahead.wants(2, 8)
    stream = ahead.follow(1, 8, 12, 100)
    assert stream is not None
    assert await ahead.take(stream, 8, memoryview(bytearray(4))) == 4
    assert not ahead.wants(1, 12)
    await ahead.close()


async def test_what_is_in_memory_is_not_read_ahead_however_long_reads_take() -> None:
    async def fetch(segment_id: int, offset: int, view: memoryview) -> None:
        view[:] = bytes(len(view))

    asked = list[int]()

    def in_memory(segment_id: int, offset: int) -> bool:
        asked.append(offset)
        return offset >= 50

    ahead = small_pieces(fetch, in_memory)
    ahead.measured(MIB, CALL_S)
    assert ahead.follow(1, 0, 4, 100) is None
    assert ahead.wants(1, 4)
    assert ahead.follow(1, 4, 8, 100) is None, "the last of its bytes is in memory"
    assert asked == [99]
    assert not ahead.wants(1, 8), "what needs no waiting is not slow"
    for _ in range(3):
        ahead.measured(MIB, CALL_S)
    ahead.follow(1, 0, 4, 40)
    assert ahead.follow(1, 4, 8, 40) is not None, "one that ends before it is not in memory"
    assert asked[1:] == [39, 39, 39, 39]
    await ahead.close()


@pytest.mark.slow
@pytest.mark.virtual_time
async def test_memory_is_used_again_and_given_back_at_the_end() -> None:
    async with filled(chunk_bytes=LENGTH) as (world, whole):
        ahead, kept = ahead_of(world), 0
        offset = 0
        while part := await world.read(1, offset, 4 * MIB):
            assert part == whole[offset : offset + len(part)]
            offset += len(part)
            kept = max(kept, ahead._room.spare_bytes)
        assert kept
        assert ahead.held_bytes == 0


@pytest.mark.slow
@pytest.mark.virtual_time
async def test_fast_storage_and_random_readers_get_nothing_ahead() -> None:
    async with filled(call_s=0.0) as (world, whole):
        assert await read_all(world, MIB) == whole
        assert len(world.calls) < 3 * LENGTH // MIB
    async with filled() as (world, whole):
        del world.calls[:]
        for offset in (9 * MIB, 3 * MIB, 30 * MIB, 0, 20 * MIB):
            assert await world.read(1, offset, MIB) == whole[offset : offset + MIB]
        assert sum(call.length for call in world.calls) == 5 * MIB


@pytest.mark.slow
@pytest.mark.virtual_time
async def test_a_late_answer_of_quick_storage_changes_nothing_and_three_do() -> None:
    async with filled(call_s=0.0) as (world, whole):
        ahead, late = ahead_of(world), 0
        for offset in range(0, 12 * MIB, MIB):
            if offset in {4 * MIB, 7 * MIB, 8 * MIB, 9 * MIB}:
                ahead.measured(MIB, CALL_S)
                late += 1
            assert await world.read(1, offset, MIB) == whole[offset : offset + MIB]
            assert not ahead.held_bytes
        assert late == 4
        for _ in range(3):
            ahead.measured(MIB, CALL_S)
        assert await world.read(1, 12 * MIB, MIB) == whole[12 * MIB : 13 * MIB]
        assert ahead.held_bytes


@pytest.mark.slow
@pytest.mark.virtual_time
async def test_the_budget_holds_for_many_readers() -> None:
    async with filled(budget=3 * PIECE_BYTES) as (world, whole):

        async def reader() -> None:
            assert await read_all(world, MIB) == whole

        await asyncio.gather(*(reader() for _ in range(5)))


@pytest.mark.slow
@pytest.mark.virtual_time
async def test_readers_that_went_away_are_forgotten() -> None:
    async with filled() as (world, _):
        for number in range(STREAMS_MAX + 9):
            await world.read(1, number, 1)
            await world.read(1, number + 1, 1)
        assert len(ahead_of(world)._streams) <= STREAMS_MAX
        assert ahead_of(world).held_bytes <= BUDGET


@pytest.mark.virtual_time
async def test_what_was_read_ahead_is_not_shown_after_a_truncation() -> None:
    async with filled() as (world, _):
        for offset in range(0, 4 * MIB, MIB):
            await world.read(1, offset, MIB)
        await asyncio.sleep(9)
        assert ahead_of(world).held_bytes
        world.layouts.change(1, start_offset=5 * MIB)
        with pytest.raises(SegmentTruncatedError):
            await world.read(1, 4 * MIB, MIB)


@pytest.mark.slow
@pytest.mark.virtual_time
async def test_an_error_ahead_is_met_by_the_read_of_that_place() -> None:
    async with filled() as (world, whole):
        damaged = world.segments.chunks(1)[2].chunk.name
        world.content(damaged)[5] ^= 1
        for offset in range(0, 12 * MIB, MIB):
            assert await world.read(1, offset, MIB) == whole[offset : offset + MIB]
        with pytest.raises(CorruptDataError) as caught:
            await world.read(1, 12 * MIB, MIB)
        assert damaged in str(caught.value)
        assert await world.read(1, 18 * MIB, 3 * MIB) == whole[18 * MIB : 21 * MIB]


@pytest.mark.slow
@pytest.mark.virtual_time
async def test_storage_that_fails_ahead_and_comes_back_is_not_noticed() -> None:
    async with filled() as (world, whole):
        failing = False

        def decide(call: Call) -> None:
            if failing:
                raise ChunkUnavailableError("away", chunk=call.name, operation=call.verb)

        world.storage.decide = decide
        for offset in range(0, 2 * MIB, MIB):
            await world.read(1, offset, MIB)
        failing = True
        await asyncio.sleep(9)
        failing = False
        found = bytearray(whole[: 2 * MIB])
        while part := await world.read(1, len(found), MIB):
            found += part
        assert bytes(found) == whole


@pytest.mark.slow
@pytest.mark.virtual_time
async def test_a_cancelled_reader_leaves_the_others_what_is_ahead() -> None:
    async with filled() as (world, whole):
        await world.read(1, 0, MIB)
        waiting = asyncio.create_task(world.read(1, MIB, MIB))
        await asyncio.sleep(CALL_S / 2)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await read_all(world, MIB) == whole


async def test_parallel_reads_are_not_taken_for_slow_storage() -> None:
    """Eight parallel reads share the rate of one; the effect of a burst of slow ones wears off."""

    async def fetch(segment_id: int, offset: int, view: memoryview) -> None:
        raise AssertionError("nothing is ahead")

    ahead = small_pieces(fetch)

    def slow() -> int:
        return ahead._slow_reads

    alone_s = 0.003  # a read of 8 MiB that is neither slow nor quick
    for _ in range(8):
        ahead.begin()
    for _ in range(20):
        ahead.measured(8 * MIB, 8 * alone_s, 8)
    assert slow() == 2
    for _ in range(20):
        ahead.measured(8 * MIB, 8 * 2 * alone_s, 8)
    assert slow() > 2
    ahead.measured(8 * MIB, 4 * alone_s, 1)
    assert slow() == 0
    for _ in range(8):
        ahead.end()
    for _ in range(3):
        ahead.measured(8 * MIB, 2 * alone_s)
    assert slow() == 3
    await ahead.close()
