"""Recovery of a store of very many chunks whose tier 1 and local disks are gone: time and requests.

A listing has 1,000 names a request, as in a bucket; what is counted is the same for every service.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import siltstone
from bench.figure import SECONDS, Figure, Unit, alternate
from bench.requests import CALLS
from bench.workshop import Stopwatch, Workshop
from siltstone.container.models.settings import ContainerSettings
from siltstone.container.recovery.lossy_recovery import recover_container
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.environment import SystemEnvironment
from siltstone.core.storage.wrapper import WrappedChunkStorage
from siltstone.migration.salvage import salvage_store
from siltstone.store.store_assembly import assembled
from siltstone.tier1.memory.fenced_log import MemoryFencedLog
from siltstone.tier1.memory.shared_log import SharedLog

T = TypeVar("T")

CHUNK_BYTES = 1024
PAGE = 1_000
SETTINGS = f"""
segments:
  chunk_size: {CHUNK_BYTES}
optimiser:
  enabled: false
flush:
  age: 1h
"""


class _Counted(WrappedChunkStorage):
    def __init__(self, inner: ChunkStorage, calls: Counter[str]) -> None:
        super().__init__(inner)
        self._calls = calls

    def _call(self, operation: str, name: str, action: Callable[[], T]) -> T:
        self._calls[operation] += 1
        return action()


def run(workshop: Workshop) -> list[Figure]:
    """Look, open read-only, recover, salvage; each from long-term storage alone."""
    segments, each = workshop.pick(100, 2), workshop.pick(1_000, 20)
    chunks = segments * each
    with workshop.place() as place:
        file = workshop.store(place, SETTINGS)
        _fill(file, segments, each)
        look, opened, salvaged, recovered, listed = alternate(
            workshop.rounds,
            lambda: _owned_s(file, lambda: siltstone.recover(file)),
            lambda: _timed(file, lambda: siltstone.open(file, recover="read-only").close()),
            lambda: _timed(file, lambda: salvage_store(file)),
            lambda: _owned_s(file, lambda: siltstone.recover(file, accept_loss=True)),
            lambda: _timed(file, lambda: _list(file)),
        )
        calls = _calls(file)
    of = f"of {chunks:,} chunks"
    least = -(-chunks // PAGE)
    peer = "list the chunks"
    cases: list[tuple[str, Unit, list[float], list[float]]] = [
        (f"say what is lost {of}", SECONDS, look, listed),
        (f"open {of} without tier 1, read-only", SECONDS, opened, listed),
        (f"recover {of}", SECONDS, recovered, listed),
        (f"look at what salvage would bring {of}, every byte read", SECONDS, salvaged, listed),
        (f"… requests of the recovery {of}", CALLS, [float(calls)], [float(least)]),
    ]
    return [
        Figure(what=what, peer=peer, unit=unit, ours=ours, theirs=theirs)
        for what, unit, ours, theirs in cases
    ]


def _fill(file: Path, segments: int, each: int) -> None:
    data = os.urandom(CHUNK_BYTES * each)
    with siltstone.open(file) as store:
        for number in range(segments):
            store.create(f"segment-{number:03}").append(data)
        store.flush()
        store.checkpoint()


def _timed(file: Path, call: Callable[[], object]) -> float:
    """Seconds of a call on a store whose disks are gone."""
    for name in ("tier1", "index"):
        shutil.rmtree(file.parent / name, ignore_errors=True)
    with Stopwatch() as watch:
        call()
    return watch.seconds


def _owned_s(file: Path, call: Callable[[], object]) -> float:
    """Seconds of a call after an owner, and without the owner's disks."""
    _owned(file)
    return _timed(file, call)


def _owned(file: Path) -> None:
    """Let an owner open the store: without that, a recovery would only be finished."""
    siltstone.recover(file, accept_loss=True)
    siltstone.open(file).close()


def _list(file: Path) -> None:
    environment = SystemEnvironment()
    assembly = assembled(file, environment)
    storage = assembly.new_storage()
    for _ in storage.list("data/"):
        pass
    storage.close()
    assembly.close()
    environment.close()


def _calls(file: Path) -> int:
    """Requests of one recovery, with an empty log in memory instead of the lost one."""
    _owned(file)
    environment = SystemEnvironment()
    assembly = assembled(file, environment)
    counted: Counter[str] = Counter()
    shared = SharedLog()
    asyncio.run(
        recover_container(
            container=0,
            new_log=lambda: MemoryFencedLog("gone", 0, shared=shared),
            storage=_Counted(assembly.new_storage(), counted),
            environment=environment,
            settings=ContainerSettings(),
            owner="bench",
            accept_loss=True,
        )
    )
    assembly.close()
    environment.close()
    return counted.total()
