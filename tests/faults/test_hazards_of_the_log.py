"""Two ways to lose what the file log acknowledged or showed, at every file call of the older owner.

What may fail: the older owner is paused before any file call of its log, its boot included;
meanwhile a newer one takes over and appends, or the power goes. Then the older one continues. At
the end the power goes in any case, and what was not synced may be gone. What must hold: what either
owner acknowledged, and what a read-only open showed at any time, is there for the next owner.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from siltstone.container.reader.read_container import ReadContainer
from siltstone.core.errors import FencedError, SegmentNotFoundError, SiltstoneError
from siltstone.core.fenced_log import FencedLog
from tests.support.container.container_world import Owner, World, close_quietly, with_settings
from tests.support.faults.acknowledged import Acknowledged
from tests.support.file_log.log_world import DirectDisk, Interrupt, log_at
from tests.support.soak import shared

QUIET = with_settings(
    flush_bytes=1 << 30,
    flush_age_s=1e6,
    table_flush_age_s=1e6,
    checkpoint_age_s=1e6,
    garbage_interval_s=1e6,
    optimiser_interval_s=1e6,
    pack_bytes=1,
)
"""Nothing happens by itself, so a call has the same number in every run."""

PARTS = 4
"""The calls are dealt into this many tests."""

LENGTH = 3_000
"""Of an append: a few of them fill a file of the log."""


class Process:
    """One process: a world of its own over the services of another, and a thread for its loop."""

    def __init__(self, services: World, new_log: Any) -> None:
        self.world = World(settings=QUIET, new_log=new_log, new_storage=services.new_storage)
        self.world.environment.clock = services.environment.clock
        self._thread = ThreadPoolExecutor(1)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run ``work`` to its end while every other process is paused."""
        return self._thread.submit(self.world.run, work).result()

    def close(self) -> None:
        self._thread.shutdown()
        self.world.close()


class Scene:
    """The services, three processes, and what each of them was told.

    Attributes:
        told: what owners acknowledged.
        shown: the most that a reader showed.
    """

    def __init__(self, folder: Path) -> None:
        (folder / "disk").mkdir(parents=True)
        self.disk = DirectDisk(folder / "disk")
        self.path = folder / "disk" / "log"
        self.told = Acknowledged()
        self.shown = b""
        self.layer = Interrupt(0, lambda: None, self.disk)
        self.services = World(settings=QUIET, new_log=lambda: log_at(self.path, self.layer))
        self.newer = Process(self.services, self._plain_log)
        self.reading = Process(self.services, self._plain_log)
        self.owner: Owner | None = None
        self.reader: ReadContainer | None = None

    def _plain_log(self) -> FencedLog:
        return log_at(self.path, self.disk)

    # --- owners -----------------------------------------------------------------------------------

    def prepare(self, *, reader: bool) -> None:
        """A store with a segment, and a reader that follows it."""

        async def first() -> None:
            owner = await self.newer.world.open()
            await owner.container.create("a")
            await self.told.append(owner.container, 100)
            await owner.container.close()

        async def follow() -> None:
            self.reader = await self.reading.world.open_reader()

        self.newer.run(first())
        if reader:
            self.reading.run(follow())

    def live(self) -> None:
        """The older owner, until it ends; in its calls the others have their turn."""

        async def life() -> None:
            owner: Owner | None = None
            with suppress(SiltstoneError):
                owner = await self.services.open(index="older")
                for _ in range(4):
                    await self.told.append(owner.container, LENGTH)
            await close_quietly(owner)

        self.services.run(life())

    def take_over(self) -> None:
        async def work() -> None:
            self.owner = await self.newer.world.open(takeover=True, index="newer")
            await self.told.check(self.owner)
            await self.told.append(self.owner.container, 700)

        self.newer.run(work())

    def is_current(self) -> bool:
        """Whether the newer owner has the log: not if the older one made its claim after all."""

        async def work() -> bool:
            if self.owner is None:
                return False
            try:
                await self.told.append(self.owner.container, 50)
            except FencedError:
                await self.newer.world.crash(self.owner, keep_index=False)
                return False
            return True

        return bool(self.newer.run(work()))

    def check(self) -> bytes:
        """What the newest owner has, in which all is that any process was told."""

        async def work() -> bytes:
            assert self.owner is not None, "an owner took over"
            data = await self.told.check(self.owner)
            assert data.startswith(self.shown), "a reader showed what is not there"
            return data

        return bytes(self.newer.run(work()))

    def lose_power(self, keep: float, seed: int) -> None:
        """Cut the power, end the newer owner with it, and switch it on again."""

        async def crash() -> None:
            if self.owner is not None:
                await self.newer.world.crash(self.owner, keep_index=False)
                self.owner = None

        self.disk.cut(keep=keep, seed=seed)
        self.newer.run(crash())
        self.disk.restart()

    # --- readers ----------------------------------------------------------------------------------

    def look(self) -> None:
        """A reader that follows, and a new one, never show less than was shown."""

        async def work() -> None:
            follower = self.reader
            newcomer = await self.reading.world.open_reader()
            for reader in (newcomer, follower):
                assert reader is not None, "the scene has a reader"
                await reader.refresh()
                length = (await reader.info("a")).length
                data = await reader.read("a", 0, length)
                assert data.startswith(self.shown), "it shows less, or something else"
                self.shown = data
            await newcomer.close()

        with suppress(SegmentNotFoundError):
            self.reading.run(work())

    def close(self) -> None:
        async def end() -> None:
            if self.reader is not None:
                await self.reader.close()

        self.reading.run(end())
        self.newer.run(close_quietly(self.owner))
        for process in (self.newer, self.reading):
            process.close()
        self.services.close()
        self.disk.release()


@contextmanager
def scene(folder: Path, *, reader: bool) -> Iterator[Scene]:
    made = Scene(folder)
    try:
        made.prepare(reader=reader)
        yield made
    finally:
        made.close()


def at_calls(folder: Path, play: Any, chosen: Callable[[range], Iterable[int]]) -> None:
    """Play a story that stops at no call, then one for each file call that is chosen."""
    for number in chosen(range(1, play(folder / "0", 0) + 1)):
        try:
            play(folder / f"{number}", number)
        except BaseException as error:
            error.add_note(f"stopped before call {number}")
            raise
        rmtree(folder / f"{number}")


def ended(made: Scene, number: int) -> int:
    """The older owner is at its end: look at what is left, before and after the power goes."""
    count = made.layer.count
    if not made.is_current():
        made.take_over()
    before = made.check()
    made.lose_power((0.0, 0.5)[number % 2], number)
    made.take_over()
    after = made.check()
    assert after.startswith(before)
    return count


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_h3_an_owner_is_overtaken_at_a_file_call(tmp_path: Path, part: int) -> None:
    def play(folder: Path, number: int) -> int:
        with scene(folder, reader=False) as made:
            made.layer = Interrupt(number, made.take_over, made.disk)
            made.live()
            return ended(made, number)

    at_calls(tmp_path, play, lambda numbers: numbers[part::PARTS])


def watched(folder: Path, number: int, then: str) -> int:
    """Readers look while the older owner is paused, then comes what is said."""

    def act() -> None:
        made.look()
        if then == "power cut":
            made.lose_power((0.5, 0.0)[number % 4 < 2], number)
            made.take_over()
        else:
            made.take_over()
            made.look()

    with scene(folder, reader=True) as made:
        made.layer = Interrupt(number, act, made.disk)
        made.live()
        if then == "takeover":
            made.look()
        return ended(made, number)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_h11_readers_show_only_what_stays(tmp_path: Path, part: int) -> None:
    """All parts together stop the owner at every call, in turn for one of the two."""
    play = partial(watched, then=("power cut", "takeover")[part % 2])
    at_calls(tmp_path, play, lambda numbers: numbers[part::PARTS])


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("then", ["power cut", "takeover"])
def test_h11_readers_show_only_what_stays_at_every_call(tmp_path: Path, then: str) -> None:
    at_calls(tmp_path, partial(watched, then=then), shared)
