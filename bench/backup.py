"""A backup, a restore and a copy of a store in a folder, compared with ``cp`` of the same chunks.

``cp`` reads each file and writes it once; it verifies nothing, and syncs nothing: when it ends, the
bytes are in memory, and the disk has few of them. So durable work reaches its speed only if the
disk is as fast as memory. A second peer is ``cp`` followed by a ``sync`` of the file system,
because everything that a backup made is durable. All bytes of the small store that are read are in
memory before the first measure. The large store has half as many bytes as the machine has memory:
more than the kernel lets a process leave unwritten, so that ``cp`` waits for the disk as well; and
none of them is in memory before a measure. A second backup has to move only what was appended since
the first, however much the store holds: its bytes are counted here, and compared with those of the
new chunks.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import siltstone
from bench.figure import MIB_PER_SECOND, Better, Figure, Unit
from bench.workshop import Workshop
from siltstone.migration.backup.create import create_backup
from siltstone.migration.backup.restore import restore_backup
from siltstone.pipelines.copy_segments import copy
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.pipelines.owned_store import owned_store
from siltstone.pipelines.store_view import store_view
from siltstone.pipelines.work import OK, ItemOutcome

MIB: Final = 2**20
GOAL: Final = 0.8
PLAIN: Final = "cp of the chunks"
SYNCED: Final = "cp of the chunks, and sync"
ROUNDS_LARGE: Final = 3
"""Alternations of the large store: each is minutes."""
MOVED: Final = Unit(text="MiB", better=Better.LOWER)


def run(workshop: Workshop) -> list[Figure]:
    """Measure backups, restores and copies by wall."""
    chunk_bytes = workshop.pick(64, 2) * MIB
    small = workshop.pick(16, 2) * chunk_bytes
    large = workshop.pick(memory_bytes() // 2 // chunk_bytes, 3) * chunk_bytes
    return [
        *of_size(workshop, chunk_bytes, small, workshop.rounds, prepare=read_all),
        *of_size(workshop, chunk_bytes, large, workshop.pick(ROUNDS_LARGE, 1), prepare=forget_all),
    ]


def of_size(
    workshop: Workshop,
    chunk_bytes: int,
    total: int,
    rounds: int,
    *,
    prepare: Callable[[Path], None],
) -> list[Figure]:
    """Measure a store of this size, in this many alternations; each begins with ``prepare``."""
    size = f"{total / MIB:,.0f} MiB"
    with workshop.place() as place:
        file = workshop.store(place, settings(chunk_bytes))
        append(file, total)
        ways: dict[str, Callable[[Path], None]] = {
            "first backup": lambda to: first(file, to, total),
            "restore": lambda to: restored(place / "backups", to),
            "copy into another store": lambda to: copied(file, siltstone.init(to)),
            PLAIN: lambda to: plain(file, to, sync=False),
            SYNCED: lambda to: plain(file, to, sync=True),
        }
        create_backup(file, place / "backups")
        rates: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, way in ways.items():
                os.sync()
                prepare(place)
                rates[name].append(total / MIB / timed(way, place / "there"))
        figures = [
            Figure(
                what=f"{name}, {size}",
                peer=peer,
                unit=MIB_PER_SECOND,
                ours=rates[name],
                theirs=rates[peer],
                goal=GOAL,
            )
            for name in ways
            if name not in (PLAIN, SYNCED)
            for peer in (PLAIN, SYNCED)
        ]
        return [*figures, later(file, place / "backups", chunk_bytes, size)]


def memory_bytes() -> int:
    """Of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def settings(chunk_bytes: int) -> str:
    """Of a store whose chunks are whole and stay as they are."""
    return (
        f"\nsegments:\n  chunk_size: {chunk_bytes}\nflush:\n  age: 1h\n"
        "optimiser:\n  enabled: false\n"
    )


def append(file: Path, length: int) -> None:
    """Append this many incompressible bytes, and flush them."""
    with siltstone.open(file) as store:
        segment = store.create("bench", exist_ok=True)
        for begin in range(0, length, 4 * MIB):
            segment.append(os.urandom(min(4 * MIB, length - begin)))
        store.flush()


def read_all(folder: Path) -> None:
    """Have all files in memory: a backup leaves none of its bytes there."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb", buffering=0) as file:
                while file.read(MIB):
                    pass


def forget_all(folder: Path) -> None:
    """Leave no byte of the files in memory."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def timed(way: Callable[[Path], None], to: Path) -> float:
    begun = time.perf_counter()
    way(to)
    took = time.perf_counter() - begun
    shutil.rmtree(to)
    return took


def first(file: Path, to: Path, total: int) -> None:
    report = create_backup(file, to)
    if report.copied_bytes != total:
        raise SystemExit(f"a first backup copied {report.copied_bytes} bytes of {total}")


def restored(backups: Path, to: Path) -> None:
    restore_backup(backups, to)


def copied(source: Path, target: Path) -> None:
    """Copy a store into another existing one."""
    with store_view(source) as view, owned_store(target) as owned:
        check(copy(view, owned, LocalExecutor(), view.segments()))


def check(outcomes: Iterable[ItemOutcome]) -> None:
    """Check that all outcomes of a job are good."""
    for outcome in outcomes:
        if outcome.status != OK:
            raise SystemExit(f"{outcome.subject}: {outcome.status}: {outcome.message}")


def plain(file: Path, to: Path, *, sync: bool) -> None:
    """Let ``cp`` copy the chunks of a store into a folder that does not exist yet."""
    subprocess.run(["cp", "-r", file.parent / "chunks" / "data", to], check=True)
    if sync:
        subprocess.run(["sync", "-f", to], check=True)


def later(file: Path, backups: Path, chunk_bytes: int, size: str) -> Figure:
    """Back up a store that has grown by one chunk."""
    append(file, chunk_bytes)
    report = create_backup(file, backups)
    return Figure(
        what=f"bytes of a backup of what is new, {size}",
        peer="bytes of the new chunks",
        unit=MOVED,
        ours=[report.copied_bytes / MIB],
        theirs=[chunk_bytes / MIB],
        goal=1.0,
    )
