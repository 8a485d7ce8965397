"""Chunks with few live bytes: how they are found, and that the rest of them is moved."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.bindings.memory.chunk_storage import Profile
from siltstone.container.compact import sparse_chunks
from siltstone.container.compact.sparse_chunks import SparseChunks
from siltstone.core.chunk_names import data_prefix
from siltstone.core.constants import KIB, MIB
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent
from tests.support import inside
from tests.support.container.container_world import Owner, World, all_chunks, pattern, world
from tests.support.container.request_counts import NEVER, QUIET, WRITE_ONCE, counted

pytestmark = pytest.mark.virtual_time

ROOMY = replace(QUIET, chunk_bytes=8 * MIB, optimiser_interval_s=NEVER, garbage_delay_s=1.0)
PROFILES = pytest.mark.parametrize("profile", [WRITE_ONCE, Profile()], ids=["once", "append"])


def chunk_rows(lengths: dict[int, int]) -> Callable[[int], Chunk | None]:
    def chunk_of(chunk_id: int) -> Chunk | None:
        length = lengths.get(chunk_id)
        if length is None:
            return None
        return Chunk(chunk_id=chunk_id, name="c", epoch=1, length=length, closed=True)

    return chunk_of


def extent(segment_id: int, chunk_id: int, length: int, start: int = 0) -> Extent:
    return Extent(
        segment_id=segment_id, start=start, chunk_id=chunk_id, chunk_offset=0, length=length
    )


def walk(chunks: SparseChunks, extents: list[Extent]) -> list[Extent]:
    chunks.passed(extents, (10**9, 0))
    chunks.ended()
    found = chunks.batch(10**6, 10**12, whole=True)
    chunks.take(len(found))
    return found


def test_two_walks_find_a_chunk_and_the_third_what_is_left_of_it() -> None:
    chunks = SparseChunks(chunk_rows({1: 10 * MIB, 2: 10 * MIB, 3: MIB, 4: MIB}), 80)
    left = [extent(1, 1, MIB), extent(2, 1, MIB)]
    others = [extent(3, 2, 3 * MIB), extent(4, 3, 10), extent(5, 4, MIB)]
    assert walk(chunks, left + others) == []
    assert walk(chunks, left + others) == []
    assert walk(chunks, left + others) == left
    # Chunk 2 has too many live bytes, 3 less than a MiB that is dead, 4 none.


def test_a_chunk_that_one_walk_saw_in_part_is_not_moved() -> None:
    chunks = SparseChunks(chunk_rows({1: 10 * MIB}), 80)
    whole = [extent(number, 1, MIB) for number in range(1, 10)]
    assert walk(chunks, whole[8:]) == []
    assert walk(chunks, whole) == []
    assert walk(chunks, whole) == []


@given(
    steps=st.lists(st.integers(0, 30), max_size=8),
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=25),
)
def test_each_extent_is_counted_once_wherever_a_walk_pauses(
    steps: list[int], lengths: list[int]
) -> None:
    patch = pytest.MonkeyPatch()
    patch.setattr(sparse_chunks, "WASTE_BYTES_MIN", 1)
    extents = [extent(number, 1, length) for number, length in enumerate(lengths, 1)]
    total = sum(lengths)
    for size, expected in ((5 * total, extents), (5 * total - 1, [])):
        chunks = SparseChunks(chunk_rows({1: size}), 80)
        for _ in range(2):
            before = 0
            for step in sorted(steps):
                # Beginning with some that were passed already.
                chunks.passed(extents[max(0, before - 3) :], (step, 0))
                before = step
            assert walk(chunks, extents) == []
        assert walk(chunks, extents) == expected
    patch.undo()


def test_batches_are_bounded_and_come_again_until_they_are_taken() -> None:
    chunks = SparseChunks(chunk_rows({1: 100 * MIB}), 80)
    left = [extent(number, 1, 10) for number in range(1, 11)]
    for _ in range(2):
        walk(chunks, left)
    chunks.passed(left, (10**9, 0))
    assert chunks.batch(3, 10**9, whole=False) == left[:3]
    assert chunks.batch(99, 45, whole=False) == left[:4]
    assert chunks.batch(99, 5, whole=False) == left[:1]
    assert chunks.batch(10, 100, whole=False) == []
    assert chunks.batch(10, 100, whole=True) == left
    chunks.take(7)
    assert chunks.batch(10, 100, whole=True) == left[7:]


async def filled(owner: Owner, count: int, length: int) -> None:
    for number in range(count):
        await owner.container.create(f"s{number:02d}")
        await owner.container.append(f"s{number:02d}", pattern(number, length))
    await owner.container.flush()


async def emptied(made: World, owner: Owner) -> None:
    for _ in range(2):
        await owner.container.collect()
        await owner.container.flush()
        await made.environment.sleep(10)


@pytest.mark.slow
@PROFILES
async def test_one_segment_does_not_keep_the_bytes_of_all(profile: Profile) -> None:
    async with counted(profile, ROOMY) as (made, owner, requests):
        container, count, length = owner.container, 40, 100 * KIB
        await filled(owner, count, length)
        assert len(made.names(data_prefix(0))) == 1
        for number in range(count):
            if number not in (7, 20):
                await container.delete(f"s{number:02d}")
        await emptied(made, owner)
        (before,) = all_chunks(owner.rows).values()
        assert (before.references, before.length) == (2, count * length)
        requests.clear()
        optimiser = inside.parts(container).optimiser
        assert [await optimiser.round() for _ in range(4)] == [0, 0, 1, 0]
        assert requests.data == {"read_into": 2, "create": 1}
        (after,) = (chunk for chunk in all_chunks(owner.rows).values() if chunk.references)
        assert (after.references, after.length) == (2, 2 * length)
        await emptied(made, owner)
        assert made.names(data_prefix(0)) == [after.name]
        for number in (7, 20):
            assert await container.read(f"s{number:02d}", 0, 2 * length) == pattern(number, length)


@pytest.mark.slow
async def test_it_is_left_alone_where_relocation_is_off() -> None:
    async with counted(WRITE_ONCE, replace(ROOMY, relocation_enabled=False)) as (made, owner, _):
        await filled(owner, 40, 100 * KIB)
        for number in range(1, 40):
            await owner.container.delete(f"s{number:02d}")
        await emptied(made, owner)
        optimiser = inside.parts(owner.container).optimiser
        assert [await optimiser.round() for _ in range(4)] == [0, 0, 0, 0]


@pytest.mark.slow
async def test_a_budget_is_kept() -> None:
    """With four requests a round, three extents and their chunk are moved in each."""
    async with counted(WRITE_ONCE, replace(ROOMY, optimiser_requests=4)) as (made, owner, requests):
        container, count, length = owner.container, 60, 100 * KIB
        await filled(owner, count, length)
        for number in range(8, count):
            await container.delete(f"s{number:02d}")
        await emptied(made, owner)
        optimiser = inside.parts(container).optimiser
        moved = []
        for _ in range(6):
            requests.clear()
            await optimiser.round()
            moved.append((requests.data["read_into"], requests.data["create"]))
        assert moved == [(0, 0), (0, 0), (3, 1), (3, 1), (2, 1), (0, 0)]
        await made.check(owner)


@pytest.mark.slow
@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
async def test_a_crash_at_each_request_of_a_move(number: int, is_after: bool) -> None:
    """Reads, the create, and the frames after it: live bytes stay, and are moved in the end."""
    async with world(profile=WRITE_ONCE, settings=ROOMY, latency=lambda *_: 0.01) as made:
        owner = await made.open()
        count, length = 30, 100 * KIB
        await filled(owner, count, length)
        for name in range(2, count):
            await owner.container.delete(f"s{name:02d}")
        await emptied(made, owner)
        optimiser = inside.parts(owner.container).optimiser
        for _ in range(2):
            await optimiser.round()
        reached, calls = asyncio.Event(), 0

        def stop(*_: object) -> None:
            nonlocal calls
            calls += 1
            if calls == number:
                reached.set()

        if is_after:
            owner.storage.after = owner.log.plan.after = stop
        else:
            owner.storage.before = owner.log.plan.before = stop
        rounding = asyncio.create_task(optimiser.round())
        waiting = asyncio.create_task(reached.wait())
        await asyncio.wait([rounding, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        await made.crash(owner)
        rounding.cancel()
        await asyncio.gather(rounding, return_exceptions=True)
        again = await made.open()
        optimiser = inside.parts(again.container).optimiser
        for _ in range(4):
            await optimiser.round()
        for name in range(2):
            found = await again.container.read(f"s{name:02d}", 0, 2 * length)
            assert found == pattern(name, length)
            (chunk,) = await again.container.chunks(f"s{name:02d}")
            assert chunk.chunk_length == 2 * length
        await made.check(again)
        await again.container.close()
