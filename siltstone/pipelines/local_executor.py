"""Work on threads of this process: what needs no Spark."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Generator, Iterable, Iterator, Sequence
from functools import partial
from resource import RUSAGE_THREAD, getrusage
from typing import Final

from siltstone.core.constants import KIB
from siltstone.core.environment import Pool, SystemEnvironment
from siltstone.core.errors import SettingsError
from siltstone.core.pauses import Stop
from siltstone.pipelines.work import Item, ItemOutcome, Step, Work
from siltstone.store.blocking.background_loop import BackgroundLoop

THREADS_MAX: Final = 256
THREADS_PER_CORE: Final = 2
_SMALL_BYTES: Final = 256 * KIB
"""Reading and summing up more than this runs without the interpreter most of the time."""

_WAITED_SHARE: Final = 4
"""Storage is slow when the thread gave up the processor once in this many items."""

_PROBE_ITEMS: Final = 32
_BUSY_SHARE: Final = 0.5
"""A large pack that used the processor for less of its time waited for storage."""

_PATIENCE_S: Final = 0.25
"""Work that only reads and sums up finishes a pack in less."""

_LOOK_S: Final = 1.0
"""How often to look for a call to long-term storage that hangs, when nothing else happens."""

_AHEAD: Final = 2
"""Packs that are taken before a thread is free for them, for each thread."""


class LocalExecutor:
    """Runs packs on threads of this process.

    As long as no thread has to wait for storage, small items are done by one thread at a time: they
    hold the interpreter all the time, and threads that pass it to and fro cost twice as much as
    one. Large ones are done by a thread for each core, as more would only wait for each other.

    Args:
        threads: packs at a time; ``None`` means two for each core. More of them help where storage
            is slow to answer, not where the machine has the bytes in memory.
    """

    def __init__(self, threads: int | None = None) -> None:
        count = THREADS_PER_CORE * len(os.sched_getaffinity(0)) if threads is None else threads
        if not 1 <= count <= THREADS_MAX:
            raise SettingsError(f"threads are between 1 and {THREADS_MAX}, not {count}")
        self._threads = count

    @property
    def workers(self) -> int:
        """See ``Executor``."""
        return self._threads

    def run(self, work: Work, packs: Iterable[Sequence[Item]]) -> Generator[ItemOutcome]:
        """See ``Executor``."""
        with work.open() as step:
            yield from on_threads(step, packs, self._threads)

    def close(self) -> None:
        """Nothing is kept between runs."""


def on_threads(step: Step, packs: Iterable[Sequence[Item]], threads: int) -> Generator[ItemOutcome]:
    """Do packs on this many threads, and yield what became of their items."""
    environment = SystemEnvironment()
    loop = BackgroundLoop(name="siltstone-pipeline")
    stop = Stop()
    try:
        results = partial(_results, environment, stop, step, _probed(packs), threads)
        for outcomes in loop.iterate(results, batch=1):
            yield from outcomes
    finally:
        stop.set()
        loop.close()
        environment.close()


async def _results(
    environment: SystemEnvironment,
    stop: Stop,
    step: Step,
    packs: Iterator[Sequence[Item]],
    threads: int,
) -> AsyncIterator[list[ItemOutcome]]:
    pool = Pool(name="siltstone-pipeline", threads=threads)
    done: set[asyncio.Future[list[ItemOutcome]]] = set()
    running: set[asyncio.Future[list[ItemOutcome]]] = set()
    turns = _Turns(threads)
    pack = next(packs, None)
    try:
        while pack is not None or running:
            alone = False
            while pack is not None and not alone and len(running) < turns.packs:
                alone = turns.takes_all(pack)
                if alone and running:
                    break
                call = partial(turns.do_alone if alone else turns.do, stop, step, pack)
                running.add(environment.run_blocking(pool, partial(stop.run, call)))
                pack = next(packs, None)
            done, running = await asyncio.wait(
                running, timeout=turns.patience_s, return_when=asyncio.FIRST_COMPLETED
            )
            if not done:
                turns.waited = True
                stop.check_calls(environment.monotonic())
            for one in done:
                yield one.result()
    finally:
        for one in done | running:
            if not one.cancel():
                one.exception()  # several fail at once, and asyncio prints what was not asked for


def _probed(packs: Iterable[Sequence[Item]]) -> Iterator[Sequence[Item]]:
    """The packs, the first one in two parts: it is soon known whether a pack has to wait."""
    source = iter(packs)
    first = next(source, ())
    yield from (part for part in (first[:_PROBE_ITEMS], first[_PROBE_ITEMS:]) if part)
    yield from source


class _Turns:
    """How many packs are done at a time.

    Attributes:
        waited: whether storage was waited for. It stays so.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self.waited = False

    @property
    def packs(self) -> int:
        """How many may be on their way to threads, and with them."""
        if self.waited:
            return _AHEAD * self._threads
        return min(self._threads, len(os.sched_getaffinity(0)))

    @property
    def patience_s(self) -> float:
        """When a pack has waited, if none is done before; later on, when to look at its calls."""
        return _LOOK_S if self.waited else _PATIENCE_S

    def takes_all(self, pack: Sequence[Item]) -> bool:
        """Whether it has small items, and those before had nothing to wait for."""
        return not self.waited and sum(item.size for item in pack) <= _SMALL_BYTES * len(pack)

    def do_alone(self, stop: Stop, step: Step, pack: Sequence[Item]) -> list[ItemOutcome]:
        """Do a pack of small items alone, and check whether the thread had to wait for storage."""
        before = getrusage(RUSAGE_THREAD).ru_nvcsw
        outcomes = _do(stop, step, pack)
        waits = getrusage(RUSAGE_THREAD).ru_nvcsw - before
        self.waited |= waits * _WAITED_SHARE >= len(pack)
        return outcomes

    def do(self, stop: Stop, step: Step, pack: Sequence[Item]) -> list[ItemOutcome]:
        """Do a pack while others run, where threads wait for each other too."""
        start, busy = time.monotonic(), time.thread_time()
        outcomes = _do(stop, step, pack)
        passed = time.monotonic() - start
        self.waited |= time.thread_time() - busy < _BUSY_SHARE * passed
        return outcomes


def _do(stop: Stop, step: Step, pack: Sequence[Item]) -> list[ItemOutcome]:
    """Do a pack as long as the caller waits for it. Raises ``StoppedError``."""
    outcomes = []
    for item in pack:
        stop.check()
        outcomes.append(step(item))
    return outcomes


def do_pack(step: Step, pack: Sequence[Item]) -> list[ItemOutcome]:
    """Do one pack, item by item."""
    return [step(item) for item in pack]
