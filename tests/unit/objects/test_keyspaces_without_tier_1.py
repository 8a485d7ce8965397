"""What a keyspace is on long-term storage alone: a state of it that was there at one moment.

Bytes are flushed much later than rows, if nothing asks for it; puts go on all the time, and large
values are uploaded; then the process dies and tier 1 is lost. Each head has its value, each segment
that the manifest says is whole has its footer, and no large value is left that no object has.
"""

from __future__ import annotations

import asyncio
import io

import pytest

from siltstone.bindings.memory.chunk_storage import Profile
from siltstone.core.errors import SiltstoneError
from siltstone.objects.async_keyspace import AsyncKeyspace
from siltstone.objects.records.keys import LargeStatus
from siltstone.testing.virtual_time import jittered
from tests.support import inside
from tests.support.container.container_world import World, with_settings
from tests.support.objects.space_check import look
from tests.support.objects.space_world import NAMES, open_owner
from tests.support.objects.streams_to_put import LARGE, left

pytestmark = pytest.mark.virtual_time

ROWS_FIRST = with_settings(
    flush_age_s=600.0, flush_bytes=1 << 26, table_flush_age_s=1.0, chunk_bytes=1 << 20
)


@pytest.mark.parametrize("profile", [Profile(), Profile(append=False)], ids=["appends", "creates"])
@pytest.mark.parametrize("size", [100, 1_500])
async def test_each_head_has_its_value_and_each_segment_its_footer(
    profile: Profile, size: int
) -> None:
    async with World(1, profile=profile, settings=ROWS_FIRST, latency=jittered(0.02)) as world:
        opened = await open_owner(world)
        await opened.make()
        photos = await opened.keyspace(LARGE)
        putting = [asyncio.ensure_future(keep_putting(photos, client, size)) for client in range(4)]
        await world.environment.sleep(5.3)
        await opened.die()
        await asyncio.gather(*putting)
        await world.lose_tier_1()
        again = await open_owner(world)
        space = inside.open_space(await again.keyspace(LARGE))
        seen = await look(again.store, NAMES)
        assert seen.state.next_sqn > 20, "rows are flushed while puts go on"
        large = [each for each in seen.objects.values() if each.head.large is not None]
        assert len(large) == (0 if size == 100 else len(seen.objects))
        assert await left(space) == ({LargeStatus.LIVE} if large else set(), len(large))
        await again.store.close()


async def keep_putting(photos: AsyncKeyspace, client: int, size: int) -> None:
    """Put values under two keys until the process ends."""
    for number in range(10_000):
        value = bytes([client]) * (size + number % 3 * size)
        try:
            await photos.put_from("b", f"{client} {number % 2}", io.BytesIO(value))
        except SiltstoneError:
            return
        await asyncio.sleep(0.01)
