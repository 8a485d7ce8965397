"""Work on threads of this process: what needs no Spark."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from siltstone.core.environment import Pool, SystemEnvironment
from siltstone.core.errors import SettingsError
from siltstone.pipelines.work import Item, Outcome, Step, Work
from siltstone.store.background_loop import BackgroundLoop

THREADS_MAX: Final = 256
THREADS_PER_CORE: Final = 2
_AHEAD: Final = 2
"""Packs that are taken before a thread is free for them, for each thread."""


class LocalExecutor:
    """Runs packs on threads of this process.

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

    def run(self, work: Work, packs: Iterable[Sequence[Item]]) -> Iterator[Outcome]:
        """See ``Executor``."""
        with work.open() as step:
            yield from on_threads(step, packs, self._threads)

    def close(self) -> None:
        """Nothing is kept between runs."""


def on_threads(step: Step, packs: Iterable[Sequence[Item]], threads: int) -> Iterator[Outcome]:
    """Do packs on so many threads, and yield what became of their items."""
    environment = SystemEnvironment()
    loop = BackgroundLoop(name="siltstone-pipeline")
    try:
        results = partial(_results, environment, step, iter(packs), threads)
        for outcomes in loop.iterate(results, batch=1):
            yield from outcomes
    finally:
        loop.close()
        environment.close()


async def _results(
    environment: SystemEnvironment, step: Step, packs: Iterator[Sequence[Item]], threads: int
) -> AsyncIterator[list[Outcome]]:
    pool = Pool(name="siltstone-pipeline", threads=threads)
    running: set[asyncio.Future[list[Outcome]]] = set()
    try:
        while True:
            while len(running) < _AHEAD * threads:
                pack = next(packs, None)
                if pack is None:
                    break
                call = partial(do_pack, step, pack)
                running.add(environment.run_blocking(pool, call))
            if not running:
                return
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                yield one.result()
    finally:
        for one in running:
            one.cancel()


def do_pack(step: Step, pack: Sequence[Item]) -> list[Outcome]:
    """Do one pack, item by item."""
    return [step(item) for item in pack]
