"""A full check while storage fails or is damaged: it says so and changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from siltstone.core.errors import ChunkError
from siltstone.testing.faults.faulty_chunk_storage import Fate, StorageCall
from tests.support.container.container_world import Owner, World, pattern, with_settings, world

pytestmark = pytest.mark.virtual_time

SETTINGS = with_settings(chunk_bytes=300, garbage_interval_s=1e6, flush_age_s=1e6)


async def filled(there: World) -> Owner:
    owner = await there.open()
    for name in ("a", "b"):
        await owner.container.create(name)
        await owner.container.append(name, pattern(1, 1_000))
    await owner.container.flush()
    await owner.container.checkpoint()
    return owner


async def damage(owner: Owner) -> list[str]:
    return [each.where async for each in owner.container.check() if each.severity == "damage"]


async def test_each_call_of_a_check_may_fail() -> None:
    async with world(settings=SETTINGS) as there:
        owner = await filled(there)
        seen: list[StorageCall] = []

        def plan(call: StorageCall) -> Fate:
            seen.append(call)
            return Fate.REFUSED if len(seen) == chosen else Fate.DONE

        chosen = 0
        owner.storage.plan = plan
        assert await damage(owner) == []
        calls = len(seen)
        assert calls >= 8
        for number in range(1, calls + 1):
            chosen = number
            seen.clear()
            with pytest.raises(ChunkError):
                await damage(owner)
        chosen = 0
        assert {call.operation for call in seen} <= {"read_into", "stat", "list"}
        assert await damage(owner) == []
        assert await owner.container.read("a", 0, 9_999) == pattern(1, 1_000)
        await owner.container.close()


def _shorten(content: bytearray) -> None:
    del content[-1:]


def _change(content: bytearray) -> None:
    content[7] ^= 1


def _lose(content: bytearray) -> None:
    content.clear()


@pytest.mark.parametrize("harm", [_shorten, _change, _lose, None])
async def test_each_harm_to_a_chunk_is_named_and_the_rest_stays_readable(
    harm: Callable[[bytearray], None] | None,
) -> None:
    async with world(settings=SETTINGS) as there:
        owner = await filled(there)
        chunk = (await owner.container.chunks("a"))[1]
        if harm is None:
            there.new_storage().delete(chunk.chunk)
        else:
            harm(there.bucket.chunks[chunk.chunk.encode()].content)
        found = await damage(owner)
        assert len(found) == 1
        assert chunk.chunk in found[0]
        end = chunk.start + chunk.length
        whole = pattern(1, 1_000)
        assert await owner.container.read("a", 0, chunk.start) == whole[: chunk.start]
        assert await owner.container.read("a", end, 9_999) == whole[end:]
        assert await owner.container.read("b", 0, 9_999) == whole
        await owner.container.close()
