"""Maps with a pin: what they name stays until the pin expires, whatever happens to the segment."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from siltstone.container.container import Container
from siltstone.container.reader.read_container import ReadContainer
from siltstone.container.reads.pinned_maps import PinnedMaps, Wanted
from siltstone.container.reads.reads import Reading
from siltstone.core.checksums import crc32c
from siltstone.core.constants import KIB
from siltstone.core.errors import FencedError, SegmentNotFoundError
from siltstone.core.records.pin import decode_pin
from tests.support.container.container_world import (
    Owner,
    World,
    close_quietly,
    pattern,
    with_settings,
    world,
)

pytestmark = pytest.mark.virtual_time

SETTINGS = with_settings(garbage_delay_s=0.0, garbage_interval_s=1e6, flush_age_s=1e6)
TTL_S = 1_000.0
DATA = pattern(7, 50_000)


def segments(*names: str) -> Wanted:
    def wanted(reading: Reading) -> list[tuple[str, int | None]]:
        return [(reading.info(name).name, None) for name in names]

    return wanted


def everything(reading: Reading) -> list[tuple[str, int | None]]:
    return [(info.name, None) for info in reading.list_segments("", "", 100)]


async def filled(made: World) -> Owner:
    owner = await made.open()
    await owner.container.create("a")
    for begin in range(0, len(DATA), 10_000):
        await owner.container.append("a", DATA[begin : begin + 10_000])
        await owner.container.flush()
    return owner


def content(made: World, found: PinnedMaps | None) -> bytes:
    """The bytes that the maps name, read from chunks alone, each block compared with its sum."""
    assert found is not None
    storage = made.new_storage()
    data = bytearray()
    for one in found.maps:
        assert not one.tail
        for row in one.extents:
            chunk = bytearray(row.chunk.length)
            assert storage.read_into(row.chunk.name, 0, chunk) == len(chunk)
            blocks = [crc32c(chunk[at : at + 256 * KIB]) for at in range(0, len(chunk), 256 * KIB)]
            assert tuple(blocks) == row.sums
            begin = row.extent.chunk_offset
            data += chunk[begin : begin + row.extent.end - row.extent.start]
    return bytes(data)


async def truncate(owner: Owner) -> None:
    await owner.container.truncate("a", 40_000)


async def delete(owner: Owner) -> None:
    await owner.container.delete("a")


@pytest.mark.slow
@pytest.mark.parametrize("change", [truncate, delete])
@pytest.mark.parametrize("owned", [True, False], ids=["owner", "reader"])
async def test_chunks_stay_until_the_pin_expires(
    change: Callable[[Owner], Awaitable[None]], owned: bool
) -> None:
    async with world(settings=SETTINGS) as made:
        owner = await filled(made)
        await owner.container.append("a", b"not flushed")
        reader: Container | ReadContainer = owner.container if owned else await made.open_reader()
        found = await reader.pins.pinned_maps(segments("a"), TTL_S)
        assert content(made, found) == DATA
        assert found is not None
        pin = bytearray(1_000)
        del pin[made.new_storage().read_into(found.pin, 0, pin) :]
        assert decode_pin(pin, where="x").version == found.version
        await change(owner)
        await owner.container.collect()
        await owner.container.flush()
        assert await owner.container.garbage.run() == 0
        assert content(made, found) == DATA
        await made.environment.sleep(TTL_S + 1)
        assert await owner.container.garbage.run() > 0
        assert not made.names("data/c0/") or change is truncate
        await reader.close()
        await close_quietly(owner)


async def test_what_went_before_the_pin_was_there_is_not_named() -> None:
    """The second look comes after the pin: anything may happen between the first one and it."""
    async with world(settings=SETTINGS) as made:
        owner = await filled(made)
        reader = await made.open_reader()
        looks = 0
        look = reader.pins._later

        async def looking() -> Reading:
            nonlocal looks
            looks += 1
            found = await look()
            if looks == 1:
                await truncate(owner)
                await owner.container.collect()
                await owner.container.flush()
                assert await owner.container.garbage.run() > 0
            return found

        reader.pins._later = looking
        found = await reader.pins.pinned_maps(segments("a"), TTL_S)
        assert looks == 2
        assert content(made, found) == DATA[40_000:]
        await reader.close()
        await close_quietly(owner)


async def test_an_owner_who_was_overtaken_maps_nothing() -> None:
    async with world(settings=SETTINGS) as made:
        owner = await filled(made)
        newer = await made.open(takeover=True, index="newer")
        await truncate(newer)
        await newer.container.collect()
        await newer.container.flush()
        assert await newer.container.garbage.run() > 0
        with pytest.raises(FencedError):
            await owner.container.pins.pinned_maps(segments("a"), TTL_S)
        assert not made.names("system/pins/")
        await close_quietly(owner)
        await close_quietly(newer)


async def test_nothing_that_is_wanted_leaves_no_pin() -> None:
    async with world(settings=SETTINGS) as made:
        owner = await made.open()
        assert await owner.container.pins.pinned_maps(everything, TTL_S) is None
        with pytest.raises(SegmentNotFoundError):
            await owner.container.pins.pinned_maps(segments("none"), TTL_S)
        assert not made.names("system/pins/")
        await close_quietly(owner)


async def test_a_pin_is_given_back_when_what_is_wanted_went_ahead_of_it() -> None:
    async with world(settings=SETTINGS) as made:
        owner = await filled(made)
        reader = await made.open_reader()
        look = reader.pins._later
        pins: list[int] = []

        async def looking() -> Reading:
            found = await look()
            pins.append(len(made.names("system/pins/")))
            if len(pins) == 1:
                await delete(owner)
            return found

        reader.pins._later = looking
        with pytest.raises(SegmentNotFoundError):
            await reader.pins.pinned_maps(segments("a"), TTL_S)
        assert pins == [0, 1]
        assert not made.names("system/pins/")
        await reader.close()
        await close_quietly(owner)


async def test_a_pin_of_a_lineage_that_ended_meanwhile_makes_way_for_one_of_the_next() -> None:
    async with world(settings=SETTINGS) as made:
        owner = await filled(made)
        reader = await made.open_reader()
        look = reader.pins._later
        newer: list[ReadContainer] = []
        looks = 0

        async def looking() -> Reading:
            nonlocal looks
            looks += 1
            if looks == 2:
                await owner.container.close()
                await made.lose_tier_1()
                newer.append(await made.open_reader())
            return await (newer[0]._reading_now() if newer else look())

        reader.pins._later = looking
        found = await reader.pins.pinned_maps(segments("a"), TTL_S)
        assert looks == 3
        assert content(made, found) == DATA
        assert found is not None
        assert found.lineage == newer[0]._current().replica.tables.lineage
        assert made.names("system/pins/") == [found.pin]
        for one in (reader, *newer):
            await one.close()


async def test_an_older_length_is_a_prefix() -> None:
    async with world(settings=SETTINGS) as made:
        owner = await filled(made)
        found = await owner.container.pins.pinned_maps(lambda _: [("a", 12_345)], TTL_S)
        assert found is not None
        assert [(one.start, one.end) for one in found.maps] == [(0, 12_345)]
        await close_quietly(owner)
