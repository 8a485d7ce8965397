"""Compaction on request: chunks are joined, copied or shared, and stated if nothing changed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from siltstone.bindings.memory.chunk_storage import Profile
from siltstone.container.compact.compaction import CompactionRules
from siltstone.core.constants import KIB
from siltstone.core.errors import CorruptDataError
from siltstone.segments.merge import Merge, Merging, write_merge
from tests.support.container.container_world import Owner, World, pattern, with_settings, world

pytestmark = pytest.mark.virtual_time

SETTINGS = with_settings(
    optimiser_enabled=False, relocation_enabled=False, chunk_bytes=64 * KIB, flush_bytes=KIB
)
RULES = CompactionRules(small_bytes=16 * KIB, chunk_bytes=64 * KIB, count_min=2)


@asynccontextmanager
async def owned(*, native: bool = False, appends: bool = True) -> AsyncIterator[World]:
    profile = Profile(append=appends, concat=native)
    async with world(settings=SETTINGS, profile=profile) as made:
        yield made


async def rounds(made: World, count: int, *names: str) -> Owner:
    """Give each segment a chunk for each owner; return the last one, which wrote nothing."""
    for number in range(count):
        owner = await made.open()
        for name in names:
            await owner.container.create(name, exist_ok=True)
            await owner.container.append(name, pattern(number, 3_000))
        await owner.container.flush()
        await owner.container.close()
    return await made.open()


async def reserved(owner: Owner) -> tuple[Merge, Merging]:
    """The one merge that is worthwhile, with a name for its chunk."""
    (merge,) = await owner.container.compaction.plan(RULES)
    merging = await owner.container.compaction.reserve(merge)
    assert merging is not None
    return merge, merging


async def merged(made: World, owner: Owner) -> list[int]:
    compaction = owner.container.compaction
    counts = []
    for merge in await compaction.plan(RULES):
        merging = await compaction.reserve(merge)
        assert merging is not None
        sums = write_merge(made.new_storage(), merging, check=True)
        counts.append(await compaction.state(merge, merging, sums))
    return counts


@pytest.mark.parametrize(("native", "appends"), [(True, True), (False, True), (False, False)])
async def test_neighbours_are_joined_or_copied(native: bool, appends: bool) -> None:
    async with owned(native=native, appends=appends) as made:
        owner = await rounds(made, 5, "a")
        merge, merging = await reserved(owner)
        assert merging.native is native
        sums = write_merge(made.new_storage(), merging, check=True)
        assert await owner.container.compaction.state(merge, merging, sums) == 5
        assert len(await owner.container.chunks("a")) == 1
        wanted = b"".join(pattern(number, 3_000) for number in range(5))
        assert await owner.container.read("a", 0, len(wanted)) == wanted
        assert await owner.container.compaction.plan(RULES) == []
        await made.check(owner)
        await owner.container.close()


async def test_what_is_dead_below_the_start_is_not_moved() -> None:
    async with owned() as made:
        owner = await rounds(made, 4, "a")
        await owner.container.truncate("a", 1_000)
        assert await merged(made, owner) == [4]
        (chunk,) = await owner.container.chunks("a")
        assert (chunk.start, chunk.length) == (1_000, 11_000)
        assert await owner.container.read("a", 1_000, 2_000) == pattern(0, 3_000)[1_000:]
        await made.check(owner)
        await owner.container.close()


async def test_segments_of_one_chunk_share_one_and_continue() -> None:
    async with owned() as made:
        names = [f"s{number}" for number in range(12)]
        owner = await rounds(made, 1, *names)
        assert await merged(made, owner) == [12]
        assert len({c.chunk for n in names for c in await owner.container.chunks(n)}) == 1
        for name in names:
            await owner.container.append(name, b"more")
            assert await owner.container.read(name, 0, 4_000) == pattern(0, 3_000) + b"more"
        await owner.container.flush()
        await owner.container.delete("s3")
        await made.check(owner)
        await owner.container.close()


async def test_damage_of_a_source_ends_it() -> None:
    async with owned() as made:
        owner = await rounds(made, 3, "a")
        merge, merging = await reserved(owner)
        made.bucket.chunks[merging.sources[1].chunk.encode()].content[7] ^= 1
        with pytest.raises(CorruptDataError):
            write_merge(made.new_storage(), merging, check=False)
        await owner.container.compaction.abandon(merging)
        assert owner.container.compaction.stands(merge)
        await owner.container.close()


async def test_wrong_sums_of_a_worker_are_refused_by_the_next_read() -> None:
    async with owned() as made:
        owner = await rounds(made, 3, "a")
        merge, merging = await reserved(owner)
        sums = write_merge(made.new_storage(), merging, check=True)
        with pytest.raises(CorruptDataError, match="another length"):
            await owner.container.compaction.state(merge, merging, [*sums, 0])
        assert len(await owner.container.chunks("a")) == 3
        await made.check(owner)
        await owner.container.close()
