"""Look-ups, caches, joins and rewrites are counted as they happen."""

from __future__ import annotations

import pytest

from siltstone.bindings.memory.chunk_storage import Profile
from siltstone.core.constants import KIB
from siltstone.metadata.index_watch import CacheCounts, cache_counts
from tests.support import inside
from tests.support.container.container_world import pattern, with_settings, world
from tests.support.recorder import Recorder

pytestmark = pytest.mark.virtual_time


async def test_look_ups_in_the_index_and_what_its_caches_have() -> None:
    async with world() as made:
        recorder = Recorder()
        owner = await made.open(metrics=recorder)
        container, parts = owner.container, inside.parts(owner.container)
        await container.create("a")
        for number in range(8):
            await container.append("a", pattern(number, 16 * KIB))
            await container.flush()
        await made.environment.sleep(2)

        def recent(outcome: str) -> int:
            return recorder.sums["siltstone_recent_rows_total", outcome]

        await container.read("a", 0, 1_000)
        await made.environment.sleep(2)
        hits, misses = recent("hit"), recent("miss")
        assert misses > 0
        for _ in range(10):
            await container.read("a", 0, 1_000)
        await made.environment.sleep(2)
        assert recent("miss") == misses, "nothing was written meanwhile"
        assert recent("hit") >= hits + 20, "an extent and a chunk at least"
        took = recorder.values["siltstone_index_look_up_seconds"]
        before = len(took)
        await container.read("a", 100_000, 1_000)
        assert len(took) > before
        assert all(seconds >= 0 for seconds in took)
        assert parts.index.watch is not None
        # It is on disk and read from there again; then the cache of the index has it.
        await container.checkpoint()
        for _ in range(2):
            for number in range(8):
                assert parts.pipeline.replica.rows.floor(owner.rows.find("a") or 0, number)
        await made.environment.sleep(61)
        blocks = [recorder.sums["siltstone_index_blocks_total", o] for o in ("hit", "miss")]
        assert all(count > 0 for count in blocks), blocks
        assert recorder.now[("siltstone_index_bytes",)] > 0
        await container.close()


async def test_an_index_of_a_container_that_measures_nothing_counts_nothing() -> None:
    async with world() as made:
        owner = await made.open()
        index = inside.parts(owner.container).index
        await owner.container.create("a")
        await owner.container.checkpoint()
        assert owner.rows.find("a")
        assert index.cache_counts() == (0, 0)
        assert index.watch is None
        await owner.container.close()


def test_the_statistics_of_the_library() -> None:
    text = "rocksdb.block.cache.miss COUNT : 3\nrocksdb.sim.block.cache.hit COUNT : 7\n"
    assert cache_counts(text + "rocksdb.block.cache.hit COUNT : 5\n") == CacheCounts(5, 3)
    assert cache_counts("") == CacheCounts(0, 0)


@pytest.mark.slow
async def test_bytes_that_concats_copy_and_those_they_only_refer_to() -> None:
    async with world(settings=with_settings(chunk_bytes=1 << 20, flush_bytes=1 << 20)) as made:
        recorder = Recorder()
        container = (await made.open(metrics=recorder)).container
        await made.environment.sleep(1)
        for name, length in (("a", 10), ("small", 1_000), ("large", 3 << 20)):
            await container.create(name)
            await container.append(name, pattern(3, length))
        for name in ("small", "large"):
            await container.seal(name)
            await container.concat("a", name)
            await container.concat("a", name)
        joined = {key[1]: n for key, n in recorder.sums.items() if "concat" in key[0]}
        assert joined == {"copied": 1_000, "by_reference": 3 << 20}
        await container.close()


@pytest.mark.slow
@pytest.mark.parametrize("native", [True, False])
async def test_bytes_that_the_optimiser_copies_and_those_that_storage_joins(native: bool) -> None:
    profile = Profile(append=False, concat=native)
    async with world(settings=with_settings(), profile=profile) as made:
        recorder = Recorder()
        container = (await made.open(metrics=recorder)).container
        await container.create("a")
        for number in range(20):
            await container.append("a", pattern(number, 2_000))
            await container.flush()
        await made.environment.sleep(3_600)
        rewritten = {key[1] for key in recorder.sums if "rewritten_bytes" in key[0]}
        assert rewritten == {"joined" if native else "copied"}
        assert recorder.sums[("siltstone_rewritten_chunks_total",)] > 0
        await container.close()
