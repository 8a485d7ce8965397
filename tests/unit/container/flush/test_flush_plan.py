"""Flushes of many small segments: how many requests they take, and what others see of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage, Profile
from siltstone.container.flush.flush_plan import FlushRange, fill
from siltstone.container.models.settings import ContainerSettings
from siltstone.container.state.open_segment import OpenSegment
from siltstone.container.state.segment_map import map_segment
from siltstone.core.chunk_names import data_prefix
from siltstone.core.constants import KIB, MIB
from siltstone.core.environment import Pool
from siltstone.core.errors import ChunkError
from siltstone.core.records.segment_state import SegmentState
from siltstone.pipelines.byte_source import ByteSource
from siltstone.pipelines.window import Window, cut_window
from siltstone.testing.faults.faulty_chunk_storage import Fate, StorageCall
from tests.support import inside
from tests.support.container.container_world import Owner, all_chunks, pattern
from tests.support.container.request_counts import (
    NEVER,
    QUIET,
    WRITE_ONCE,
    counted,
    counted_open,
)

pytestmark = pytest.mark.virtual_time


def name_of(number: int) -> str:
    return f"s{number:04d}"


async def fill_segments(owner: Owner, numbers: Sequence[int], length: int, round_: int = 0) -> None:
    async def one(number: int) -> None:
        await owner.container.create(name_of(number), exist_ok=True)
        await owner.container.append(name_of(number), pattern(number + round_, length))

    await asyncio.gather(*(one(number) for number in numbers))


async def holds(container: Any, numbers: Sequence[int], length: int, rounds: int = 1) -> None:
    for number in numbers:
        whole = b"".join(pattern(number + round_, length) for round_ in range(rounds))
        assert await container.read(name_of(number), 0, rounds * length + 1) == whole


@pytest.mark.slow
@pytest.mark.parametrize("profile", [WRITE_ONCE, Profile()])
async def test_a_thousand_small_segments_are_flushed_by_one_create(profile: Profile) -> None:
    async with counted(profile, replace(QUIET, chunk_bytes=MIB, pack_bytes=2 * KIB)) as (
        made,
        owner,
        requests,
    ):
        await fill_segments(owner, range(1_000), KIB)
        await owner.container.flush()
        assert requests.data == {"create": 1}
        (chunk,) = all_chunks(owner.rows).values()
        assert (chunk.references, chunk.length) == (1_000, 1_000 * KIB)
        await holds(owner.container, range(0, 1_000, 97), KIB)
        reader = await made.open_reader()
        await holds(reader, range(0, 1_000, 97), KIB)
        assert not [f async for f in reader.check() if f.severity == "damage"]
        await reader.close()


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, 100, KIB, 2 * KIB, 3_001, 8_191])
async def test_creates_of_a_round_are_bounded(length: int) -> None:
    async with counted() as (_, owner, requests):
        await fill_segments(owner, range(150), length)
        await owner.container.flush()
        assert set(requests.data) == {"create"}
        assert requests.data["create"] <= 1 + 150 * length / QUIET.chunk_bytes


@pytest.mark.slow
async def test_a_segment_cut_between_two_chunks_is_whole() -> None:
    async with counted_open() as (made, owner, _):
        container = owner.container
        length = 3_001
        await fill_segments(owner, range(50), length)
        numbers = []
        for number in range(50):
            writer = await container.register_writer(name_of(number), "w")
            await container.append_as(
                name_of(number), writer.number, 7, pattern(number + 1, length)
            )
            numbers.append(writer.number)
        await container.flush()
        lengths = sorted(chunk.length for chunk in all_chunks(owner.rows).values())
        assert lengths[1:] == [64 * KIB] * (100 * length // (64 * KIB))
        cut = [n for n in range(50) if len(await container.chunks(name_of(n))) == 2]
        assert len(cut) == len(lengths) - 1
        await container.checkpoint()
        await made.crash(owner, keep_index=False)
        again = await made.open()
        await holds(again.container, range(50), length, 2)
        for number in range(50):
            repeated = await again.container.append_as(
                name_of(number), numbers[number], 7, pattern(number + 1, length)
            )
            assert repeated == length
        await made.check(again)
        await again.container.close()


async def test_writers_are_stated_no_further_than_their_bytes() -> None:
    """When only the first of two chunks is made, rows know its bytes and no more."""
    async with counted() as (_, owner, requests):
        container = owner.container
        length = 3_001
        await fill_segments(owner, range(30), 10)
        for number in range(30):
            writer = await container.register_writer(name_of(number), "w")
            await container.append_as(name_of(number), writer.number, 7, pattern(1, length))

        def second_fails(call: StorageCall) -> Fate:
            requests(call)
            return Fate.REFUSED if requests.data["create"] > 1 else Fate.DONE

        owner.storage.plan = second_fails
        with pytest.raises(ChunkError):
            await container.flush()
        told = []
        for number in range(30):
            info = await container.info(name_of(number))
            segment_id = owner.rows.find(name_of(number))
            assert segment_id is not None
            (row,) = owner.rows.writers(segment_id)
            assert (row.sequence == 7) is (info.flushed_length == info.length)
            told.append(row.sequence == 7)
        assert True in told
        assert False in told
        owner.storage.plan = requests
        await container.flush()


def slow_storage(pool: Pool, random: Random) -> float:
    return 5.0 if pool.name.startswith("chunks") else 0.01


@pytest.mark.slow
async def test_segments_that_are_being_packed_are_packed_again_together() -> None:
    """A flush of one of them waits meanwhile, and does not make a chunk for each."""
    async with counted(latency=slow_storage) as (made, owner, requests):
        container = owner.container
        await fill_segments(owner, range(100), 10)
        first = asyncio.create_task(container.flush())
        while not requests.data["create"]:
            await made.environment.sleep(0.001)
        await fill_segments(owner, range(100), 10, 1)
        assert not first.done()
        await container.flush()
        await first
        assert requests.data["create"] <= 3
        await holds(container, range(100), 10, 2)
        await made.check(owner)


async def test_the_optimiser_unpacks_by_segment() -> None:
    """A segment's bytes in many shared chunks go to one of its own; then the others are empty."""
    async with counted(
        settings=replace(QUIET, optimiser_interval_s=NEVER, optimiser_chunks_min=2)
    ) as (made, owner, _):
        for round_ in range(8):
            await fill_segments(owner, range(6), 100, round_)
            await owner.container.flush()
        shared = set(all_chunks(owner.rows))
        assert len(shared) == 8
        made_now = await inside.parts(owner.container).optimiser.round()
        assert made_now == 6
        for number in range(6):
            (chunk,) = await owner.container.chunks(name_of(number))
            assert f"/{name_of(number)}/" in chunk.chunk
        await holds(owner.container, range(6), 100, 8)
        await made.check(owner)
        await owner.container.flush()
        await made.environment.sleep(60)
        await owner.container.collect()
        assert not shared & set(all_chunks(owner.rows))
        assert len(made.names(data_prefix(0))) == 6


@pytest.mark.parametrize("profile", [WRITE_ONCE, Profile()])
async def test_one_segment_is_flushed_on_its_own(profile: Profile) -> None:
    async with counted(profile) as (_, owner, _):
        await fill_segments(owner, range(40), 10)
        await owner.container.flush(name_of(7))
        (chunk,) = all_chunks(owner.rows).values()
        assert f"/{name_of(7)}/" in chunk.name
        assert (await owner.container.info(name_of(8))).flushed_length == 0


async def test_few_segments_keep_chunks_of_their_own_where_chunks_grow() -> None:
    async with counted(Profile()) as (_, owner, requests):
        await fill_segments(owner, range(15), 10)
        await owner.container.flush()
        assert requests.data == {"create": 15}
        await fill_segments(owner, range(40), 10, 1)
        requests.data.clear()
        await owner.container.flush()
        # Those with a chunk get one call each; closing the chunk would be one call as well.
        assert requests.data == {"create": 1, "write": 15}
        await holds(owner.container, range(15), 10, 2)


async def test_a_round_by_age_takes_all_small_ones_along() -> None:
    async with counted(settings=replace(QUIET, flush_age_s=10.0)) as (made, owner, requests):
        # For a minute another one gets bytes every second: by age alone each would be due alone.
        for number in range(60):
            await fill_segments(owner, [number % 20], 10, number // 20)
            await made.environment.sleep(1.0)
        await made.environment.sleep(12.0)
        assert sum(requests.data.values()) == requests.data["create"] <= 72 / 10 + 1
        await holds(owner.container, range(20), 10, 3)


async def test_a_lone_small_segment_is_no_pack() -> None:
    async with counted() as (_, owner, _):
        await fill_segments(owner, [1], 10)
        await owner.container.flush()
        (chunk,) = all_chunks(owner.rows).values()
        assert f"/{name_of(1)}/" in chunk.name


async def test_large_and_small_in_one_round() -> None:
    async with counted() as (_, owner, requests):
        await fill_segments(owner, range(3), 10_000)
        await fill_segments(owner, range(3, 30), 10)
        await owner.container.flush()
        assert requests.data == {"create": 1}
        await holds(owner.container, range(3), 10_000)
        await holds(owner.container, range(3, 30), 10)


async def test_segments_change_while_they_are_packed() -> None:
    """Deleted, truncated beyond, flushed alone, and appended to, all during the create."""
    async with counted(latency=lambda pool, chance: 0.05) as (made, owner, requests):
        container = owner.container
        await fill_segments(owner, range(8), 10)
        flushing = asyncio.create_task(container.flush())
        while not requests.data["create"]:
            await made.environment.sleep(0.001)
        await container.delete(name_of(0))
        await container.truncate(name_of(1), 10)
        await container.truncate(name_of(2), 4)
        await container.append(name_of(3), b"more")
        alone = asyncio.create_task(container.flush(name_of(4)))
        await asyncio.gather(flushing, alone)
        shared = [chunk for chunk in all_chunks(owner.rows).values() if "/_shared/" in chunk.name]
        assert [chunk.references for chunk in shared] == [6]
        assert (await container.info(name_of(1))).flushed_length == 10
        assert await container.read(name_of(2), 4, 99) == pattern(2, 10)[4:]
        assert (await container.info(name_of(3))).flushed_length == 10
        assert await container.read(name_of(3), 0, 99) == pattern(3, 10) + b"more"
        await made.check(owner)
        await container.collect()
        await container.flush()
        await made.check(owner)


async def test_writers_survive_the_loss_of_the_log() -> None:
    async with counted_open() as (made, owner, requests):
        container = owner.container
        await fill_segments(owner, range(5), 10)
        numbers = []
        for number in range(5):
            writer = await container.register_writer(name_of(number), "w")
            await container.append_as(name_of(number), writer.number, 7, b"once")
            numbers.append(writer.number)
        for _ in range(2):
            await container.flush()
            await container.checkpoint()
        assert requests.data == {"create": 1}
        await made.crash(owner, keep_index=False)
        again = await made.open()
        for number in range(5):
            repeated = await again.container.append_as(name_of(number), numbers[number], 7, b"once")
            assert repeated == 10
            assert (await again.container.info(name_of(number))).length == 14
        await again.container.close()


async def test_check_counts_the_extents_of_segments_that_are_being_removed() -> None:
    async with counted() as (_, owner, _):
        container = owner.container
        await fill_segments(owner, range(4), 10)
        await container.flush()
        state = owner.rows.find(name_of(0))
        assert state is not None
        patch = pytest.MonkeyPatch()
        with patch.context() as patched:

            async def nothing(task: Any) -> None:
                return

            patched.setattr(inside.parts(container).collector, "_remove", nothing)
            await container.delete(name_of(0))
            (chunk,) = all_chunks(owner.rows).values()
            assert chunk.references == 4
            assert not [f async for f in container.check() if f.severity == "damage"]
        await container.collect()
        (chunk,) = all_chunks(owner.rows).values()
        assert chunk.references == 3
        assert not [f async for f in container.check() if f.severity == "damage"]


async def test_a_shared_chunk_goes_with_its_last_segment() -> None:
    async with counted() as (made, owner, _):
        container = owner.container
        await fill_segments(owner, range(3), 10)
        await container.flush()
        await container.delete(name_of(0))
        await container.truncate(name_of(1), 10)
        await container.seal(name_of(2))
        await container.collect()
        await container.flush()
        await made.environment.sleep(60)
        await container.collect()
        assert len(made.names(data_prefix(0))) == 1
        await container.delete(name_of(2))
        await container.collect()
        await container.flush()
        await made.environment.sleep(60)
        await container.collect()
        assert made.names(data_prefix(0)) == []


async def test_chunks_and_the_map_of_spark_show_places_in_a_shared_chunk() -> None:
    async with counted() as (made, owner, _):
        container = owner.container
        length = 1_000
        await fill_segments(owner, range(5), length)
        await container.flush()
        await fill_segments(owner, range(5), length, 1)
        await container.flush()
        await container.append(name_of(3), b"tail")
        for number in range(5):
            first, second = await container.chunks(name_of(number))
            assert (first.chunk_offset, second.chunk_offset) == (number * length, number * length)
            assert (first.length, first.chunk_length) == (length, 5 * length)
        parts = inside.parts(container)
        segment = parts.reading.segment(name_of(3))
        info = parts.reading.info(name_of(3))
        begun = map_segment(info, b"", segment, parts.segments, 7, 2_004)
        found = await begun.whole(None)

        def never(offset: int) -> Window:
            raise AssertionError("all of it was mapped")

        storage = MemoryChunkStorage(made.bucket)
        source = ByteSource(storage, cut_window(found, 7, 2_004), never)
        whole = pattern(3, length) + pattern(4, length) + b"tail"
        read = b""
        while 7 + len(read) < 2_004:
            stretch = source.read(b"", 7 + len(read))
            read += bytes(stretch.view(stretch.begin, stretch.end))
        assert read == whole[7:]


@pytest.mark.slow
@given(
    sizes=st.lists(st.integers(1, 99), max_size=60),
    chunk_bytes=st.integers(1, 400),
)
def test_chunks_are_filled_to_the_last_byte(sizes: list[int], chunk_bytes: int) -> None:
    shares = []
    for number, size in enumerate(sizes, 1):
        segment = OpenSegment(SegmentState(segment_id=number, name=name_of(number)), 0)
        shares.append(FlushRange(segment=segment, start=0, end=size))
    chunks = fill(shares, chunk_bytes)
    filled = [sum(share.size for share in chunk) for chunk in chunks]
    assert all(size == chunk_bytes for size in filled[:-1])
    assert all(0 < size <= chunk_bytes for size in filled)
    bytes_in_order = [
        (share.segment.segment_id, offset)
        for chunk in chunks
        for share in chunk
        for offset in range(share.start, share.end)
    ]
    assert bytes_in_order == [
        (n, offset) for n, size in enumerate(sizes, 1) for offset in range(size)
    ]


@pytest.mark.parametrize(
    ("profile", "chunk_bytes", "pack_bytes", "small", "count"),
    [
        (WRITE_ONCE, 128 * MIB, None, MIB, 2),
        (Profile(), 128 * MIB, None, MIB, 16),
        (Profile(), 4 * MIB, None, MIB // 2, 16),
        (Profile(chunk_bytes_max=8_000), 128 * MIB, None, 1_000, 16),
        (Profile(chunk_bytes_max=8_000), 128 * MIB, 9_000, 8_000, 16),
        (WRITE_ONCE, 128 * MIB, 1, 1, 2),
    ],
)
def test_what_is_small_and_many(
    profile: Profile, chunk_bytes: int, pack_bytes: int | None, small: int, count: int
) -> None:
    settings = ContainerSettings(chunk_bytes=chunk_bytes, pack_bytes=pack_bytes)
    policy = settings.resolved(MemoryChunkStorage(profile=profile).capabilities)
    assert (policy.pack_bytes, policy.pack_count_min) == (small, count)
