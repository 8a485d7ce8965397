"""Where and how large a run is: folders on one file system, and stores in them."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import siltstone
from siltstone.store.blocking.background_loop import new_event_loop

T = TypeVar("T")

_numbers = count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """What every part of the benchmarks is given.

    Attributes:
        folder: everything is written below it, Siltstone's bytes and the peers'.
        quick: only check that everything works.
    """

    folder: Path
    quick: bool

    @property
    def rounds(self) -> int:
        """Alternations of each figure."""
        return 1 if self.quick else 5

    def pick(self, full: int, quick: int) -> int:
        """Return the size for this run."""
        return quick if self.quick else full

    @contextmanager
    def place(self) -> Iterator[Path]:
        """A new folder, which is removed in the end."""
        path = self.folder / f"place-{next(_numbers)}"
        path.mkdir()
        try:
            yield path
        finally:
            shutil.rmtree(path)

    def store(self, place: Path, settings: str = "") -> Path:
        """Make a store with ``settings``, lines of YAML besides the defaults; return its file."""
        file = siltstone.init(place / "store")
        with file.open("a", encoding="utf-8") as text:
            text.write(settings)
        return file


class Loop:
    """An event loop of the kind that a blocking store uses, for many calls from outside it."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner(loop_factory=new_event_loop)

    def __call__(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` to its end."""
        return self._runner.run(work)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop itself."""
        return self._runner.get_loop()

    def __enter__(self) -> Loop:
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.close()


@contextmanager
def async_store(loop: Loop, file: Path) -> Iterator[siltstone.AsyncStore]:
    """An open store on ``loop``."""
    store = loop(siltstone.open_async(file))
    try:
        yield store
    finally:
        loop(store.close())


class Stopwatch:
    """Seconds of the clock and of all threads' processor time, while it is entered.

    Attributes:
        seconds: by the clock.
        cpu_s: processor time of this process.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.cpu_s = 0.0

    def __enter__(self) -> Stopwatch:
        gc.collect()
        self._cpu = time.process_time()
        self._start = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._start
        self.cpu_s = time.process_time() - self._cpu


def seconds_of(call: Callable[[], object]) -> float:
    """Return how long ``call`` takes."""
    with Stopwatch() as watch:
        call()
    return watch.seconds


def peak_mib() -> float:
    """Return the most memory that this process has had, in MiB.

    Not ``ru_maxrss``: that begins with the memory of the process that started this one.
    """
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("the kernel tells the peak of memory")


async def in_flight(width: int, total: int, call: Callable[[int], Any]) -> None:
    """Await ``call(number)`` for every number below ``total``, ``width`` of them at a time."""
    numbers = iter(range(total))

    async def work() -> None:
        for number in numbers:
            await call(number)

    await asyncio.gather(*(work() for _ in range(width)))


def distinct(length: int) -> Callable[[int], bytes]:
    """Return a maker of buffers of ``length`` random bytes, each in memory of its own."""
    pattern = os.urandom(length + 4096)
    return lambda number: pattern[number % 4096 : number % 4096 + length]
