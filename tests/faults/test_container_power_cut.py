"""A whole container whose power is cut at any of its file calls.

What may fail: the power, before any call that the log or the chunks make; then everything that
was not synced is gone, or any part of it is, page by page and name by name. The local index may be
of any age, newer than all else, or gone.
What may not fail: what a sync that returned made durable.
What must hold after: the next owner opens; every acknowledged append is there, whole, at its place
and once, with its table update; what was truncated or deleted stays so; a check finds no damage;
everything continues.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from itertools import product
from pathlib import Path

import pytest

from siltstone.container.container import Container
from siltstone.core.constants import KIB
from siltstone.core.errors import SiltstoneError
from siltstone.testing.faults.power_cut import PowerCut
from siltstone.testing.virtual_time import VirtualEnvironment
from tests.support.faults.place import STILL, Place
from tests.support.faults.power_cuts import Cut
from tests.support.kill.ledger import Ledger, damage
from tests.support.kill.script import Script
from tests.support.soak import shared

SAMPLE_STEP = 47
"""CI tries one call in this many; no period of the script has this length."""


class World:
    """A container on a disk of the model, with its index outside of it, on virtual time."""

    def __init__(self, folder: Path) -> None:
        (folder / "disk").mkdir(parents=True)
        self.disk = PowerCut(folder / "disk")
        self.ledger = Ledger()
        self.index = folder / "index"
        self._place = Place(folder / "disk", file_bytes=16 * KIB)
        self.environment = VirtualEnvironment(1)

    def close(self) -> None:
        self.disk.release()

    async def own(self) -> Container:
        place, calls = self._place, self.disk
        return await place.own(self.environment, STILL, calls=calls, index="../index")

    async def live(self, script: Script) -> None:
        """Two owners, until the power goes."""
        for work in (script.first, script.second):
            container = await self.own()
            try:
                await work(container)
            finally:
                await container.close()

    async def look(self) -> None:
        container = await self.own()
        try:
            await self.ledger.look(container)
            assert await damage(container) == []
        finally:
            await container.close()

    async def use_again(self, script: Script) -> None:
        container = await self.own()
        try:
            await self.ledger.look(container)
            assert await damage(container) == []
            await script.afterwards(container)
            await self.ledger.look(container)
        finally:
            await container.close()
        await self.look()


async def story(world: World, number: int, keep: float) -> int:
    """Play the script with a cut before call ``number``; return how many calls it made."""
    script = Script(world.ledger)
    cut = Cut(world.disk, number, keep)
    try:
        await world.live(script)
    except (SiltstoneError, OSError):
        assert cut.count >= number, "it failed although the power was there"
    if cut.count < number:
        return cut.count
    world.disk.restart()
    if number % 3 == 0:
        shutil.rmtree(world.index, ignore_errors=True)
    await world.use_again(script)
    return cut.count


def cut_at(folder: Path, number: int, keep: float) -> int:
    world = World(folder)
    try:
        with world.environment.runner() as runner:
            return int(runner.run(story(world, number, keep)))
    finally:
        world.close()


def count_calls(folder: Path) -> int:
    return cut_at(folder, 1 << 62, 0.0)


def sweep(folder: Path, cuts: Iterable[tuple[int, float]]) -> None:
    for number, keep in cuts:
        place = folder / f"{number}-{keep}"
        try:
            cut_at(place, number, keep)
        except BaseException as error:
            error.add_note(f"cut before call {number}, keeping {keep}")
            raise
        shutil.rmtree(place)


@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.parametrize("part", range(4))
def test_a_power_cut_loses_nothing_acknowledged(tmp_path: Path, part: int) -> None:
    count = count_calls(tmp_path / "count")
    numbers = range(1 + part * SAMPLE_STEP, count, 4 * SAMPLE_STEP)
    sweep(tmp_path, ((number, (0.0, 0.5)[number % 2]) for number in numbers))


@pytest.mark.soak
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("part", range(4))
def test_a_power_cut_at_every_call_loses_nothing_acknowledged(memory_path: Path, part: int) -> None:
    count = count_calls(memory_path / "count")
    quarter = -(-count // 4)
    numbers = range(1 + part * quarter, min(count, (part + 1) * quarter) + 1)
    sweep(memory_path, shared(product(numbers, (0.0, 0.5))))
