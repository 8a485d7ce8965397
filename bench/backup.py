"""A first backup, a restore and a copy of a store in a folder, beside ``cp`` of the same chunks.

``cp`` reads each file and writes it once; it verifies nothing, and syncs nothing: when it ends, the
bytes are in memory, and the disk has few of them. So what is durable comes beside it only where the
disk is as fast as memory. A second peer is ``cp`` with a ``sync`` of the file system behind it,
since all that a backup made is durable. What is read is in memory before the first measure. A
backup of what was appended since has to move that and no more, whatever the store holds besides:
its bytes are counted here, and compared with those of the new chunks.
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
from siltstone.migration.backup import create_backup
from siltstone.migration.restore_backup import restore_backup
from siltstone.pipelines.copy_segments import copy
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.pipelines.owned_store import owned_store
from siltstone.pipelines.store_view import store_view
from siltstone.pipelines.work import OK, Outcome

MIB: Final = 2**20
GOAL: Final = 0.8
PLAIN: Final = "cp of the chunks"
SYNCED: Final = "cp of the chunks, and sync"
MOVED: Final = Unit(text="MiB", better=Better.LOWER)


def run(workshop: Workshop) -> list[Figure]:
    """Measure backups, restores and copies by wall."""
    chunk_bytes = workshop.pick(64, 2) * MIB
    total = workshop.pick(16, 2) * chunk_bytes
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
        read_all(place / "backups")
        rates: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(workshop.rounds):
            for name, way in ways.items():
                rates[name].append(total / MIB / timed(way, place / "there"))
        figures = [
            Figure(
                what=name,
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
        return [*figures, later(file, place / "backups", chunk_bytes)]


def settings(chunk_bytes: int) -> str:
    """Of a store whose chunks are whole and stay as they are."""
    return (
        f"\nsegments:\n  chunk_size: {chunk_bytes}\nflush:\n  age: 1h\n"
        "optimiser:\n  enabled: false\n"
    )


def append(file: Path, length: int) -> None:
    """Append so many bytes that nothing compresses, and flush them."""
    with siltstone.open(file) as store:
        segment = store.create("bench", exist_ok=True)
        for begin in range(0, length, 4 * MIB):
            segment.append(os.urandom(min(4 * MIB, length - begin)))
        store.flush()


def read_all(folder: Path) -> None:
    """A backup leaves none of its bytes in memory."""
    for path in folder.rglob("*"):
        if path.is_file():
            path.read_bytes()


def timed(way: Callable[[Path], None], to: Path) -> float:
    os.sync()
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
    """Copy a store into another one that is there."""
    with store_view(source) as view, owned_store(target) as owned:
        check(copy(view, owned, LocalExecutor(), view.segments()))


def check(outcomes: Iterable[Outcome]) -> None:
    """See that all of a job is well."""
    for outcome in outcomes:
        if outcome.status != OK:
            raise SystemExit(f"{outcome.subject}: {outcome.status}: {outcome.message}")


def plain(file: Path, to: Path, *, sync: bool) -> None:
    """Let ``cp`` copy the chunks of a store into a folder that is not there."""
    subprocess.run(["cp", "-r", file.parent / "chunks" / "data", to], check=True)
    if sync:
        subprocess.run(["sync", "-f", to], check=True)


def later(file: Path, backups: Path, chunk_bytes: int) -> Figure:
    """Back up a store that has grown by one chunk."""
    append(file, chunk_bytes)
    report = create_backup(file, backups)
    return Figure(
        what="bytes of a backup of what is new",
        peer="bytes of the new chunks",
        unit=MOVED,
        ours=[report.copied_bytes / MIB],
        theirs=[chunk_bytes / MIB],
        goal=1.0,
    )
