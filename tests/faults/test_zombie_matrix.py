"""An older owner is paused at a call, a newer one acts, then the older one continues.

What may fail: the older owner is paused before or after any call of a life that uses every
verb, its boot included; the newer one takes over and boots again, writes, truncates, concats,
collects garbage, writes checkpoints or merges chunks. What must hold: what the older one
acknowledged is there; what the newer one did stays unchanged; the older one acknowledges nothing
more and destroys nothing that is needed, then and for an owner without a local index.
"""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

import pytest

from siltstone.container.container import Container
from siltstone.core.errors import SiltstoneError
from tests.support import inside
from tests.support.container.container_world import (
    Owner,
    World,
    close_quietly,
    pattern,
    small_slices,
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
    pack_bytes=1,
    optimiser_chunks_min=2,
    optimiser_interval_s=1e6,
    relocation_chunk_bytes_min=1,
)
SAMPLE = 7
"""Runs of each act without ``soak``."""


# --- what the older owner does --------------------------------------------------------------------


async def old_life(container: Container, made: World, deeds: Deeds) -> None:
    """Every verb that changes something or destroys something."""
    await duty(container, made, deeds)
    if not deeds.ended:
        return
    with suppress(SiltstoneError):
        await container.create("joined")
        for number in range(4):
            await container.append("joined", pattern(50 + number, 900))
            await container.flush("joined")
        await container.seal("joined")
        await container.concat("a", "joined")
        await container.create("odd", exist_ok=True)
        await container.rename("odd", "even")
        await inside.parts(container).optimiser.round()
        await container.flush()
        async for _ in container.garbage.sweep(delete=True):
            pass
        await made.environment.sleep(3)
        await container.garbage.run()
        await container.checkpoint()


# --- what the newer owner does --------------------------------------------------------------------


@dataclass
class Newer:
    """The newer owner and its world."""

    made: World
    owner: Owner
    index: str = "newer"
    names: list[str] = field(default_factory=lambda: ["a"])

    @property
    def container(self) -> Container:
        return self.owner.container

    async def source(self, name: str) -> None:
        """A sealed segment of several chunks."""
        await self.container.create(name)
        for number in range(5):
            await self.container.append(name, pattern(150 + number, 1_300))
            await self.container.flush(name)
        await self.container.seal(name)


async def boot(newer: Newer) -> None:
    """Close, open again without knowledge of the state, and again after a crash."""
    await newer.container.close()
    newer.owner = await newer.made.open(index=newer.index)
    await newer.made.crash(newer.owner, keep_index=False)
    newer.owner = await newer.made.open(index=newer.index)


async def write(newer: Newer) -> None:
    container = newer.container
    await container.append("a", pattern(200, 2_500))
    await container.create("b", exist_ok=True)
    await container.append("b", pattern(201, 1_200))
    newer.names.append("b")
    await container.flush()
    await container.append("a", pattern(202, 800))


async def truncate(newer: Newer) -> None:
    container = newer.container
    await container.append("a", pattern(203, 3_000))
    info = await container.info("a")
    await container.truncate("a", (info.start_offset + info.length) // 2)
    await container.flush()
    await newer.made.environment.sleep(5)
    await container.garbage.run()


async def concat(newer: Newer) -> None:
    await newer.source("mine")
    await newer.container.concat("a", "mine")
    await newer.container.append("a", pattern(204, 700))


async def collect(newer: Newer) -> None:
    """Garbage of its own and of the older one, and what a sweep finds."""
    container = newer.container
    await newer.source("waste")
    await container.delete("waste")
    await container.flush()
    await newer.made.environment.sleep(5)
    async for _ in container.garbage.sweep(delete=True, all_epochs=True):
        pass
    await container.garbage.run()
    await container.append("a", pattern(205, 600))


async def checkpoint(newer: Newer) -> None:
    for number in range(4):
        await newer.container.append("a", pattern(206 + number, 900))
        await newer.container.flush()
        await newer.container.checkpoint()


async def optimise(newer: Newer) -> None:
    container = newer.container
    for number in range(3):
        await container.append("a", pattern(210 + number, 500))
        await container.flush()
        await container.close()
        newer.owner = await newer.made.open(index=newer.index)
        container = newer.container
    await inside.parts(container).optimiser.round()
    await container.flush()
    await newer.made.environment.sleep(5)
    await container.garbage.run()


ACTS: dict[str, Callable[[Newer], Awaitable[None]]] = {
    "boot": boot,
    "write": write,
    "truncate": truncate,
    "concat": concat,
    "collect": collect,
    "checkpoint": checkpoint,
    "optimise": optimise,
}


# --- the matrix -----------------------------------------------------------------------------------


async def seen(newer: Newer) -> dict[str, tuple[int, bytes]]:
    return {name: await content(newer.owner, name) for name in newer.names}


async def overtaken(made: World, act: str, number: int, *, after: bool) -> int:
    """Run the whole story; return how many calls the older owner made until it was stopped."""
    first = await made.open()
    await first.container.create("a")
    await first.container.close()
    deeds = Deeds()
    environment = PausingEnvironment(made, number, after=after)
    older = OldOwner(made, environment, lambda owner: old_life(owner.container, made, deeds))
    calls = await older.begin()
    newer = Newer(made, await made.open(takeover=True, index="newer"))
    await check_deeds(newer.owner, deeds)
    await ACTS[act](newer)
    before = await seen(newer)
    await older.resume()
    assert await seen(newer) == before
    await newer.container.flush()
    await newer.container.collect()
    await made.check(newer.owner, strict=False)
    await made.crash(newer.owner, keep_index=False)
    newer.owner = await made.open(index="newer")
    assert await seen(newer) == before
    await made.check(newer.owner, strict=False)
    await close_quietly(newer.owner)
    return calls


def play(act: str, number: int, *, after: bool) -> int:
    try:
        with small_slices(2), world(settings=SETTINGS) as made:
            return int(made.run(overtaken(made, act, number, after=after)))
    except BaseException as error:
        error.add_note(f"{act}, stopped {'after' if after else 'before'} call {number}")
        raise


def cases() -> list[tuple[int, bool]]:
    count = play("write", 10**9, after=False)
    return [(number, after) for number in range(1, count + 1) for after in (False, True)]


@pytest.mark.parametrize("act", sorted(ACTS))
def test_stopped_at_some_calls(act: str) -> None:
    every = cases()
    for number, after in Random(zlib.crc32(act.encode())).sample(every, SAMPLE):
        play(act, number, after=after)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("act", sorted(ACTS))
def test_stopped_at_every_call(act: str) -> None:
    for number, after in shared(cases()):
        play(act, number, after=after)
