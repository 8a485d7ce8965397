"""Two owners of one container: the older one stops at each of its calls, and wakes up later.

What may fail: the older owner is paused, with all its threads, before or after any call to
long-term storage, log or index, its boot included; a newer one takes over, works, and then the
older one continues from where it was. What must hold: the newer one has what the older one
acknowledged; nothing that the older one does when it wakes up is acknowledged or destroys anything.
"""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from siltstone.core.errors import SiltstoneError
from tests.support.container.container_world import (
    Owner,
    World,
    close_quietly,
    pattern,
    with_settings,
    world,
)
from tests.support.faults.zombie import (
    Deeds,
    OldOwner,
    PausingEnvironment,
    check_deeds,
    content,
    duty,
)
from tests.support.soak import shared

SETTINGS = with_settings(
    chunk_bytes=4_000,
    flush_bytes=5_000,
    garbage_delay_s=1.0,
    flush_age_s=3.0,
    table_flush_age_s=3.0,
    garbage_interval_s=2.0,
    storage_deadline_s=5_000.0,
)
SAMPLE = 60
"""Runs without ``soak``."""


async def prepare(made: World) -> None:
    owner = await made.open()
    await owner.container.create("a")
    await owner.container.close()


async def newer_owner(made: World, deeds: Deeds) -> Owner:
    """Take over, look at what is there, and do all that a container does."""
    owner = await made.open(takeover=True, index="newer")
    await check_deeds(owner, deeds)
    container = owner.container
    await container.append("a", pattern(200, 2_500))
    await container.create("b", exist_ok=True)
    await container.append("b", pattern(201, 1_200))
    await container.flush()
    await container.append("a", pattern(202, 800))
    return owner


async def overtaken(made: World, number: int, *, after: bool) -> int:
    """Run the whole story; return how many calls the older owner made until it was stopped."""
    await prepare(made)
    deeds = Deeds()
    environment = PausingEnvironment(made, number, after=after)
    older = OldOwner(made, environment, lambda owner: duty(owner.container, made, deeds))
    calls = await older.begin()
    owner = await newer_owner(made, deeds)
    before = await content(owner, "a"), await content(owner, "b")
    await older.resume()
    assert (await content(owner, "a"), await content(owner, "b")) == before
    await check_deeds(owner, deeds)
    await owner.container.collect()
    await made.check(owner, strict=False)
    await made.crash(owner, keep_index=False)
    owner = await made.open(index="newer")
    assert (await content(owner, "a"), await content(owner, "b")) == before
    await made.check(owner, strict=False)
    await close_quietly(owner)
    return calls


def play(number: int, *, after: bool) -> None:
    try:
        with world(settings=SETTINGS) as made:
            made.run(overtaken(made, number, after=after))
    except BaseException as error:
        error.add_note(f"stopped {'after' if after else 'before'} call {number}")
        raise


def cases() -> list[tuple[int, bool]]:
    with world(settings=SETTINGS) as made:
        count: int = made.run(overtaken(made, 10**9, after=False))
    return [(number, after) for number in range(1, count + 1) for after in (False, True)]


async def slow_boot(made: World, number: int, *, after: bool) -> int:
    """The newer owner stops in its boot while the older one works; return its calls until open."""
    older = await made.open(index="older")
    await older.container.create("a")
    await older.container.append("a", pattern(1, 900))
    deeds = Deeds()
    environment = PausingEnvironment(made, number, after=after)
    opening = asyncio.create_task(made.open(index="newer", takeover=True, environment=environment))
    reached = asyncio.create_task(environment.reached.wait())
    await asyncio.wait([opening, reached], return_when=asyncio.FIRST_COMPLETED)
    base = (await content(older, "a"))[1] if not opening.done() else b""
    await duty(older.container, made, deeds)
    environment.resume.set()
    owner = await opening
    calls = environment.calls
    reached.cancel()
    with pytest.raises(SiltstoneError):
        await older.container.append("a", b"late")
    await older.container.close()
    await check_deeds(owner, deeds)
    assert (await content(owner, "a"))[0] or (await content(owner, "a"))[1].startswith(base)
    await made.check(owner, strict=False)
    await close_quietly(owner)
    return calls


def play_slow_boot(number: int, *, after: bool) -> int:
    try:
        with world(settings=SETTINGS) as made:
            return int(made.run(slow_boot(made, number, after=after)))
    except BaseException as error:
        error.add_note(f"boot stopped {'after' if after else 'before'} call {number}")
        raise


@pytest.mark.parametrize("after", [False, True])
def test_boot_stops_at_a_call(after: bool) -> None:
    count = play_slow_boot(10**9, after=after)
    for number in range(1, count + 1):
        play_slow_boot(number, after=after)


def test_owner_stops_at_a_call() -> None:
    every = cases()
    for number, after in Random(2).sample(every, min(SAMPLE, len(every))):
        play(number, after=after)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_owner_stops_at_every_call() -> None:
    for number, after in shared(cases()):
        play(number, after=after)
