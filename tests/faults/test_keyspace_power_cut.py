"""A keyspace whose power is cut at any file call of its log and its chunks.

What may fail: the power, while objects are put and deleted, value segments roll, are flushed and
compacted, and another owner opens. What was not synced is gone, or any part of it is.
What may not fail: what a sync that returned made durable.
What must hold after: each acknowledged change is there; of those that were on their way the first
ones are, as whole objects; rows, records and what a rebuild would find agree; everything continues.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest

from siltstone.bindings.nfs.chunk_storage import NfsChunkStorage
from siltstone.core.constants import KIB
from siltstone.core.errors import SiltstoneError
from siltstone.testing.faults.power_cut import PowerCut
from siltstone.tier1.file.fenced_log import FileFencedLog
from tests.support.container.container_world import World, world
from tests.support.faults.failing_calls import SETTINGS
from tests.support.faults.power_cuts import READS, Cut
from tests.support.objects.compaction_life import (
    CompactionLife,
    Key,
    Model,
    Stored,
    imports_into,
    visible,
)
from tests.support.objects.space_world import open_owner
from tests.support.soak import shared

SAMPLE_STEP = 13
"""CI tries one call in this many."""

Changes = list[tuple[Key, bytes | None, int | None]]


def puts(*numbers: int, size: int) -> Changes:
    return [(("o", f"k{number}"), b"%d" % (number % 10) * size, None) for number in numbers]


STORY: list[Changes | str] = [
    puts(*range(8), size=60),
    puts(1, 2, 5, size=200),
    [(("x", "kept"), b"x" * 100, None), (("o", "k0"), None, None)],
    "flush",
    puts(1, 2, 5, size=90),
    puts(3, 4, size=400),
    "compact",
    "another owner",
    [(("x", "kept"), b"y", None), (("o", "k3"), None, None)],
    puts(*range(6, 12), size=150),
    "compact",
    puts(7, size=10),
]


class Place:
    """A world on a disk of the model, and what its application knows."""

    def __init__(self, folder: Path) -> None:
        self.disk = PowerCut(folder)
        self.world: World = world(
            settings=SETTINGS,
            new_log=lambda: FileFencedLog(
                str(folder / "log"), 0, file_bytes=64 * KIB, calls=self.disk
            ),
            new_storage=lambda: NfsChunkStorage(folder / "chunks", calls=self.disk),
        )
        self.life = CompactionLife(self.world)
        self.possible: list[Model] = [{}]

    async def live(self) -> None:
        """Play the story until the power goes."""
        await self.life.begin()
        for step in STORY:
            if isinstance(step, list):
                await self.change(step)
            elif step == "flush":
                await self.life.process.store.flush()
            elif step == "compact":
                await self.life.compact(run_max=2)
            else:
                await self.life.reopen(dies=False)
        await self.life.end(dies=False)

    async def change(self, changes: Changes) -> None:
        """Put and delete at once; until all is acknowledged, the first ones may be there."""
        self.possible = [dict(self.life.model)]
        for key, value, _ in changes:
            model = dict(self.possible[-1])
            if value is None:
                model.pop(key, None)
            else:
                model[key] = Stored(value, 0)
            self.possible.append(model)
        await self.life.change(changes)
        del self.possible[:-1]

    async def use_again(self) -> None:
        """Open what is there, look at all of it, and go on."""
        self.life.opened = await open_owner(self.world)
        with suppress(SiltstoneError):
            await self.life.opened.make()  # the power went before it was there
        self.life.keyspace = await self.life.opened.keyspace()
        objects = self.life.keyspace.objects
        found = {
            (tag, each.head.key): each.value
            for tag in ("o", "x")
            async for each in objects("b", tag=tag)
        }
        models = [model for model in self.possible if visible(model, 0) == found]
        assert models, "an acknowledged change is gone, or one is torn"
        self.life.model = models[0]
        await self.life.check()
        await self.life.change(puts(1, 20, size=300))
        await self.life.compact(run_max=2)
        await self.life.reopen(dies=False)
        await self.life.end(dies=False)


async def story(place: Place, number: int, keep: float) -> int:
    """Live with a cut before call ``number``; return how many calls there were."""
    cut = Cut(place.disk, number, keep, passed=READS)
    try:
        await place.live()
    except (SiltstoneError, OSError):
        assert cut.count >= number, "it failed although the power was there"
    if cut.count < number:
        return cut.count
    if place.life.opened is not None:
        with suppress(SiltstoneError, OSError):
            await place.life.end(dies=False)
    place.disk.restart()
    if number % 3 == 0:
        shutil.rmtree(place.world.folder / "index", ignore_errors=True)
    await place.use_again()
    return cut.count


def cut_at(folder: Path, number: int, keep: float) -> int:
    folder.mkdir(parents=True)
    place = Place(folder)
    try:
        with place.world, pytest.MonkeyPatch.context() as patch:
            imports_into(place.world, patch)
            return int(place.world.run(story(place, number, keep)))
    finally:
        place.disk.release()


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
def test_a_power_cut_loses_no_acknowledged_object(tmp_path: Path) -> None:
    count = count_calls(tmp_path / "count")
    numbers = range(1, count, SAMPLE_STEP)
    sweep(tmp_path, ((number, (0.0, 0.5)[number % 2]) for number in numbers))


@pytest.mark.soak
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("part", range(4))
def test_a_power_cut_at_every_call_loses_no_acknowledged_object(
    memory_path: Path, part: int
) -> None:
    count = count_calls(memory_path / "count")
    quarter = -(-count // 4)
    numbers = range(1 + part * quarter, min(count, (part + 1) * quarter) + 1)
    sweep(memory_path, shared(product(numbers, (0.0, 0.5))))
