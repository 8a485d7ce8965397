"""A sweep by an owner that was overtaken meanwhile, stopped at each of its calls.

What may fail: the older owner is paused before or after any call of a sweep and of the round of
garbage after it; a newer one takes over, works and collects; then the older one continues. What
must hold: nothing that the older one does then is acknowledged or destroys anything that counts.

slatedb/slatedb#352 and slatedb/slatedb#1622 are the public cases of the other direction: garbage
collection by the newer owner removed the very file that fenced the older one, which then
acknowledged a write that was lost. Here the fence is the marker of the log, which no collection
touches; the last test plays their story.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from siltstone.core.chunk_names import data_chunk
from siltstone.core.errors import FencedError, SiltstoneError
from tests.support.container.container_world import Owner, World, pattern, with_settings, world
from tests.support.faults.zombie import PausingEnvironment

pytestmark = pytest.mark.virtual_time

SETTINGS = with_settings(
    garbage_delay_s=0.0, garbage_interval_s=1e7, flush_age_s=1e7, storage_deadline_s=1e7
)
DAYS_S = 3 * 24 * 3600.0


async def first_life(made: World) -> str:
    """Leave a chunk that counts and one that nothing names; return the name of the latter."""
    owner = await made.open()
    await owner.container.create("a")
    await owner.container.append("a", pattern(1, 3_000))
    await owner.container.flush()
    await owner.container.close()
    late = data_chunk(0, 1, "late", 0, 9)
    made.new_storage().create(late, [b"late"])
    made.environment.clock.now += DAYS_S
    return late


async def sweeping(owner: Owner) -> None:
    """What the older owner does."""
    with suppress(SiltstoneError):
        async for _ in owner.container.garbage.sweep(delete=True):
            pass
        await owner.container.garbage.run()


async def overtaken(made: World, number: int, *, after: bool) -> int:
    """Play it with the stop at a call, counted from the sweep on; return how many there were."""
    late = await first_life(made)
    environment = PausingEnvironment(made, 10**9, after=after)
    older = await made.open(index="older", environment=environment)
    begin = environment.calls
    environment._number = begin + number
    life = asyncio.create_task(sweeping(older))
    reached = asyncio.create_task(environment.reached.wait())
    await asyncio.wait([life, reached], return_when=asyncio.FIRST_COMPLETED)
    calls = environment.calls - begin
    environment.stop_now()
    newer = await made.open(takeover=True, index="newer")
    await newer.container.append("a", pattern(2, 2_000))
    await newer.container.flush()
    async for _ in newer.container.garbage.sweep(delete=True):
        pass
    await newer.container.garbage.run()
    assert late not in made.names()
    await newer.container.append("a", pattern(3, 1_000))
    await newer.container.flush()
    names = set(made.names("data/"))
    environment.resume.set()
    await life
    reached.cancel()
    assert set(made.names("data/")) == names
    with pytest.raises(SiltstoneError):
        await older.container.append("a", b"late")
    await older.container.close()
    expected = pattern(1, 3_000) + pattern(2, 2_000) + pattern(3, 1_000)
    assert await newer.container.read("a", 0, 6_000) == expected
    await made.check(newer)
    await newer.container.close()
    return calls


def test_an_overtaken_sweep_destroys_nothing() -> None:
    with world(settings=SETTINGS) as made:
        count: int = made.run(overtaken(made, 10**8, after=False))
    assert count >= 15
    for number in range(1, count + 1):
        for after in (False, True):
            with world(settings=SETTINGS) as made:
                try:
                    made.run(overtaken(made, number, after=after))
                except BaseException as error:
                    error.add_note(f"stopped {'after' if after else 'before'} call {number}")
                    raise


async def test_collection_by_the_newer_owner_does_not_remove_the_fence() -> None:
    """The stories of slatedb/slatedb#352 and slatedb/slatedb#1622."""
    async with world(settings=SETTINGS) as made:
        await first_life(made)
        environment = PausingEnvironment(made, 10**9, after=False)
        older = await made.open(index="older", environment=environment)
        await older.container.append("a", pattern(2, 100))
        environment.stop_now()
        newer = await made.open(takeover=True, index="newer")
        for number in range(3):
            await newer.container.append("a", pattern(number, 500))
            await newer.container.flush()
            await newer.container.checkpoint()
        async for _ in newer.container.garbage.sweep(delete=True, all_epochs=True):
            pass
        await newer.container.garbage.run()
        claims = [name for name in made.names("system/c0/") if name.endswith("/claim")]
        assert claims == [f"system/c0/e{newer.container.epoch:020d}/claim"]
        late = asyncio.ensure_future(older.container.append("a", b"late"))
        await made.environment.sleep(1)
        environment.resume.set()
        with pytest.raises(FencedError):
            await late
        assert (await newer.container.info("a")).length == 3_000 + 100 + 1_500
        await older.container.close()
        await newer.container.close()


async def test_an_overtaken_owner_whose_claim_is_gone_hears_that_it_is_fenced() -> None:
    """Not that its storage is another one: newer owners remove the claims of older ones."""
    async with world(settings=SETTINGS) as made:
        await first_life(made)
        older = await made.open(index="older")
        newer = await made.open(takeover=True, index="newer")
        for _ in range(3):
            await newer.container.append("a", b"more")
            await newer.container.checkpoint()
        assert not made.names(f"system/c0/e{older.container.epoch:020d}/claim")
        with pytest.raises(FencedError):
            async for _ in older.container.garbage.sweep(delete=True):
                pass
        await older.container.close()
        await newer.container.close()
