"""How many creates a round of flushes makes at most, for segments of any sizes.

Where every flush makes a chunk: ``1 + bytes / chunk size`` for a round of two segments or more.
Elsewhere an append to a segment's own open chunk is no create; to begin or fill a chunk is one.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from siltstone.bindings.memory.chunk_storage import Profile
from siltstone.core.constants import KIB
from tests.support.container.container_world import Owner, pattern
from tests.support.container.request_counts import QUIET, counted

pytestmark = pytest.mark.virtual_time

CHUNK = QUIET.chunk_bytes
APPEND = 4 * KIB

AGED = replace(QUIET, flush_age_s=10.0)


async def append(owner: Owner, name: str, seed: int, length: int) -> bytes:
    """Append ``length`` bytes, a few at a time; return them."""
    data = pattern(seed, length)
    await owner.container.create(name, exist_ok=True)
    await owner.container.append_many(
        name, [data[start : start + APPEND] for start in range(0, length, APPEND)]
    )
    return data


def sizes(random: Random) -> list[int]:
    """Sizes of the segments of a round: tiny ones, about a chunk, and several chunks."""
    kinds = (1, 100, 5_000, CHUNK - 1, CHUNK, CHUNK + 1, 100_000, 3 * CHUNK + 7)
    return [random.choice(kinds) for _ in range(random.randrange(2, 12))]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("by_age", [True, False])
async def test_every_flush_makes_a_chunk_and_a_round_few(seed: int, by_age: bool) -> None:
    async with counted(settings=AGED if by_age else QUIET) as (made, owner, requests):
        container = owner.container
        random = Random(seed)
        wrote: dict[str, bytes] = {}
        for _ in range(3):
            lengths = sizes(random)
            requests.clear()
            for number, length in enumerate(lengths):
                name = f"s{number}"
                wrote[name] = wrote.get(name, b"") + await append(owner, name, number, length)
            if by_age:
                await made.environment.sleep(15.0)
            else:
                await container.flush()
            assert requests.data["create"] <= 1 + sum(lengths) / CHUNK, lengths
            assert not requests.data["write"]
            for name, whole in wrote.items():
                assert (await container.info(name)).flushed_length == len(whole)
                assert await container.read(name, 0, len(whole) + 1) == whole


@pytest.mark.parametrize("by_age", [True, False])
async def test_what_is_truncated_before_it_is_flushed_costs_no_chunk(by_age: bool) -> None:
    async with counted(settings=AGED if by_age else QUIET) as (made, owner, requests):
        container = owner.container
        wrote = [await append(owner, f"s{number}", number, 9_000) for number in range(10)]
        for number in range(10):
            await container.truncate(f"s{number}", 5_000)
        if by_age:
            await made.environment.sleep(5.0)
            assert not requests.data, "the dead bytes are skipped, the others are not due"
            await made.environment.sleep(10.0)
        else:
            await made.environment.sleep(1.0)
            await container.flush()
        assert requests.data == {"create": 1}
        for number, data in enumerate(wrote):
            info = await container.info(f"s{number}")
            assert (info.start_offset, info.flushed_length) == (5_000, 9_000)
            assert await container.read(f"s{number}", 5_000, 9_999) == data[5_000:]


async def test_a_large_segment_goes_along_only_when_it_is_due() -> None:
    async with counted(settings=AGED) as (made, owner, requests):
        for number in range(3):
            await append(owner, f"s{number}", number, 10)
        await made.environment.sleep(8.0)
        await append(owner, "small", 3, 10)
        large = await append(owner, "large", 4, 50_000)
        await made.environment.sleep(4.0)
        assert requests.data == {"create": 1}
        assert (await owner.container.info("small")).flushed_length == 10
        assert (await owner.container.info("large")).flushed_length == 0
        await made.environment.sleep(10.0)
        assert await owner.container.read("large", 0, 50_000) == large
        assert (await owner.container.info("large")).flushed_length == 50_000


async def room(owner: Owner, name: str) -> int:
    """Bytes that still fit into the last chunk of a segment; 0 if that chunk is shared."""
    chunks = await owner.container.chunks(name)
    own = bool(chunks) and "/_shared/" not in chunks[-1].chunk
    return CHUNK - chunks[-1].chunk_length if own else 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
async def test_where_chunks_grow_creates_are_for_new_chunks_alone(seed: int) -> None:
    """Small ones share a chunk if they are many; what fits into an own open chunk makes none."""
    async with counted(Profile()) as (_, owner, requests):
        container = owner.container
        random = Random(seed)
        for number in range(50):
            await container.create(f"s{number}")
        for _ in range(4):
            count = random.choice((3, 15, 16, 40))
            lengths = {
                f"s{number}": random.choice((APPEND, 2 * APPEND - 1, CHUNK, 3 * CHUNK + APPEND))
                for number in random.sample(range(50), count)
            }
            rooms = {name: await room(owner, name) for name in lengths}
            requests.clear()
            for name, length in lengths.items():
                await append(owner, name, 1, length)
            await container.flush()
            new = {name: n for name, n in lengths.items() if not rooms[name] and n < CHUNK // 8}
            many = len(new) >= 16
            bound = 1 + sum(new.values()) / CHUNK if many else 0.0
            for name, length in lengths.items():
                if length > rooms[name] and not (many and name in new):
                    # Two neighbours together hold more than a chunk; otherwise they would be one.
                    bound += 1 + 2 * length // CHUNK
            assert requests.data["create"] <= bound, lengths


async def test_a_round_of_appends_to_open_chunks_makes_none() -> None:
    async with counted(Profile()) as (_, owner, requests):
        for round_ in range(4):
            requests.clear()
            for number in range(12):
                await append(owner, f"s{number}", round_, APPEND)
            await owner.container.flush()
            assert requests.data == ({"write": 12} if round_ else {"create": 12})
