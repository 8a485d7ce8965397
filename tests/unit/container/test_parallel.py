"""Many operations at the same time: on many segments, on one, and from callbacks of each other."""

from __future__ import annotations

import asyncio

import pytest

from siltstone.bindings.memory.chunk_storage import Profile
from siltstone.core.errors import OffsetError
from siltstone.testing.virtual_time import jittered
from tests.support.container.container_world import Owner, World, pattern, with_settings, world

pytestmark = pytest.mark.virtual_time

SETTINGS = with_settings(chunk_bytes=2_000, flush_bytes=1_500, optimiser_chunks_min=2)
WRITE_ONCE = Profile(append=False, concat=False, seal=False)


async def life(owner: Owner, number: int, size: int) -> bytes:
    """Run every verb on its own segment; return what the segment then holds from its start on."""
    container, name, other = owner.container, f"s{number}", f"t{number}"
    parts = [pattern(number * 10 + index, size + index) for index in range(4)]
    await container.create(name)
    for part in parts[:2]:
        await container.append(name, part)
    await container.flush(name)
    await container.create(other)
    await container.append(other, parts[2])
    await container.seal(other)
    assert await container.concat(name, other) == len(parts[0] + parts[1])
    await container.truncate(name, size // 2)
    await container.append(name, parts[3])
    if number % 5 == 0:
        await container.delete(name)
        return b""
    return b"".join(parts)[size // 2 :]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "size"), [(60, 30), (12, 3_000)], ids=["many small ones", "some large ones"]
)
@pytest.mark.parametrize("profile", [Profile(), WRITE_ONCE])
async def test_many_segments_at_a_time(profile: Profile, count: int, size: int) -> None:
    async with world(settings=SETTINGS, profile=profile, latency=jittered(0.02)) as there:
        owner = await there.open()
        found = await asyncio.gather(*(life(owner, number, size) for number in range(count)))
        await owner.container.flush()
        for _ in range(2):
            for number, content in enumerate(found):
                if content:
                    read = await owner.container.read(f"s{number}", size // 2, 99_999)
                    assert read == content, number
            await there.environment.sleep(60)
        await there.check(owner)
        await owner.container.close()


async def test_appends_issued_without_waiting_come_one_after_the_other() -> None:
    async with world(settings=SETTINGS, latency=jittered(0.02)) as there:
        owner = await there.open()
        await owner.container.create("a")
        futures = [
            asyncio.ensure_future(owner.container.append("a", bytes([index])))
            for index in range(100)
        ]
        assert await asyncio.gather(*futures) == list(range(100))
        await owner.container.flush("a")
        assert await owner.container.read("a", 0, 200) == bytes(range(100))
        assert [info.length for info in await owner.container.chunks("a")] == [100]
        await owner.container.close()


async def test_of_appends_at_one_offset_one_is_made() -> None:
    async with world(settings=SETTINGS, latency=jittered(0.02)) as there:
        owner = await there.open()
        await owner.container.create("a")
        results = await asyncio.gather(
            *(owner.container.append("a", bytes([9, index]), 0) for index in range(8)),
            return_exceptions=True,
        )
        made = [result for result in results if isinstance(result, int)]
        assert made == [0]
        assert sum(isinstance(result, OffsetError) for result in results) == 7
        assert (await owner.container.info("a")).length == 2
        await owner.container.close()


async def test_operations_begun_by_callbacks_of_others() -> None:
    """A callback of one segment's append begins the next operation, on it and on another one."""
    async with world(settings=SETTINGS, latency=jittered(0.02)) as there:
        owner = await there.open()
        container = owner.container
        names = [f"s{index}" for index in range(6)]
        for name in names:
            await container.create(name)
        done = asyncio.Event()
        flushes: list[asyncio.Future[object]] = []
        left = 200

        def append_next(ended: asyncio.Future[int]) -> None:
            nonlocal left
            ended.result()
            left -= 1
            if left > 0:
                name = names[left % len(names)]
                asyncio.ensure_future(container.append(name, b"0123456789")).add_done_callback(
                    append_next
                )
                if left % 20 == 0:
                    flushes.append(asyncio.ensure_future(container.flush(name)))
            else:
                done.set()

        asyncio.ensure_future(container.append("s0", b"0123456789")).add_done_callback(append_next)
        await asyncio.wait_for(done.wait(), 1_000)
        await asyncio.gather(*flushes)
        lengths = [(await container.info(name)).length for name in names]
        assert sum(lengths) == 2_000
        for name, length in zip(names, lengths, strict=True):
            assert await container.read(name, 0, 9_999) == b"0123456789" * (length // 10)
        await container.close()


@pytest.mark.parametrize("size", [500, 30_000])
async def test_reads_of_one_segment_side_by_side(size: int) -> None:
    async with world(settings=SETTINGS, latency=jittered(0.02)) as there:
        owner = await there.open()
        whole = pattern(1, size)
        await owner.container.create("a")
        await owner.container.append("a", whole)
        await owner.container.flush("a")
        ranges = [(start, length) for start in range(0, size, size // 20) for length in (1, 999)]
        found = await asyncio.gather(*(owner.container.read("a", *each) for each in ranges))
        for (start, length), content in zip(ranges, found, strict=True):
            assert content == whole[start : start + length]
        await owner.container.close()


async def _next_owner(there: World, owner: Owner) -> Owner:
    """The next owner, after a stray byte in every chunk that an older one may still write to."""
    for info in await owner.container.chunks("a"):
        there.bucket.chunks[info.chunk.encode()].content.extend(b"!")
    await there.crash(owner)
    return await there.open()


@pytest.mark.slow
@pytest.mark.parametrize("profile", [Profile(), WRITE_ONCE])
async def test_owners_follow_one_another_over_garbage_and_truncations(profile: Profile) -> None:
    async with world(settings=SETTINGS, profile=profile) as there:
        owner = await there.open()
        await owner.container.create("a")
        whole, start = b"", 0
        for number in range(8):
            part = pattern(number, 700)
            assert await owner.container.append("a", part) == len(whole)
            whole += part
            await owner.container.flush()
            if number % 3 == 2:
                start += 1_150
                await owner.container.truncate("a", start)
                await owner.container.collect()
            owner = await _next_owner(there, owner)
            info = await owner.container.info("a")
            assert (info.start_offset, info.length) == (start, len(whole))
            assert await owner.container.read("a", start, 99_999) == whole[start:]
        await owner.container.close()
