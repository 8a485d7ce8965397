"""Plain files in and out of segments, compared with ``cp``.

In place no byte is moved, so the peer for very many small files makes a link to each, ``cp -rl``.
The peer for copies is ``cp`` and then ``sync`` of the copy, because an import and an export are
durable too. All bytes that are read are in memory. The store is open before the clock starts. Each
measure deletes what it wrote, so that the next one uses the freed pages: other pages cost a guest
much more.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Final

import siltstone
from bench.figure import MIB_PER_SECOND, PER_SECOND, Figure, alternate
from bench.workshop import Workshop
from siltstone.migration.files.export_files import export_files, plan_export
from siltstone.migration.files.import_files import ImportChoices, import_files
from siltstone.migration.files.import_plan import plan_files

KIB, MIB = 2**10, 2**20
GOAL: Final = 0.8
SMALL_BYTES: Final = 16 * KIB
LINKS: Final = "cp -rl"
SYNCED: Final = "cp, sync"


def run(workshop: Workshop) -> list[Figure]:
    """Measure imports in place and by copy, and exports."""
    with workshop.place() as place:
        return [*_in_place(workshop, place), *_copies(workshop, place)]


def _in_place(workshop: Workshop, place: Path) -> list[Figure]:
    files = workshop.pick(10_000, 50)
    master = place / "small"
    _fill(master, files, SMALL_BYTES)
    numbers = count()

    def links() -> float:
        return files / _timed(lambda: _command("cp", "-rl", master, place / f"l{next(numbers)}"))

    def adopt(verify: bool) -> Callable[[], float]:
        def measure() -> float:
            home = place / f"store-{next(numbers)}"
            home.mkdir()
            file = workshop.store(home)
            root = file.parent / "chunks"
            _command("cp", "-rl", master, root / "old")
            choices = ImportChoices(adoption="bench", verify=verify)
            with siltstone.open(file) as store:

                def work() -> None:
                    planned = plan_files("{path}", [root / "old"], root=root)
                    made = sum(1 for _ in import_files(store, file, planned, choices))
                    if made != files:
                        raise SystemExit("not all files became segments")

                spent = _timed(work)
            shutil.rmtree(home)
            return files / spent

        return measure

    unread, read, linked = alternate(workshop.rounds, adopt(False), adopt(True), links)
    return [
        Figure(
            what=f"in place, {files:,} files of 16 KiB, a segment each, {how}",
            peer=LINKS,
            unit=PER_SECOND,
            ours=ours,
            theirs=linked,
        )
        for how, ours in (("no byte read", unread), ("checksums computed", read))
    ]


def _copies(workshop: Workshop, place: Path) -> list[Figure]:
    size = workshop.pick(512, 8) * MIB
    _fill(place / "large", 1, size)
    source = place / "large" / "0"
    home = place / "store"
    home.mkdir()
    file = workshop.store(home, "\ngarbage:\n  delay: 0s\n")
    numbers = count()

    def copy() -> float:
        target = place / f"copy-{next(numbers)}"

        def work() -> None:
            _command("cp", source, target)
            _command("sync", target)

        spent = _timed(work)
        target.unlink()
        return size / MIB / spent

    with siltstone.open(file) as store:

        def bring() -> float:
            name = f"s{next(numbers)}"

            def work() -> None:
                list(import_files(store, file, plan_files(name, [source]), ImportChoices()))

            spent = _timed(work)
            store.segment(name).delete()
            store.flush()
            store.collect()
            _check_gone(file.parent, size)
            return size / MIB / spent

        def take() -> float:
            target = place / f"out-{next(numbers)}"
            spent = _timed(lambda: list(export_files(store, plan_export(store, ["kept"], target))))
            target.unlink()
            return size / MIB / spent

        imported, copied = alternate(workshop.rounds, bring, copy)
        list(import_files(store, file, plan_files("kept", [source]), ImportChoices()))
        exported, again = alternate(workshop.rounds, take, copy)
    what = f"a file of {size // MIB} MiB"
    return [
        Figure(
            what=f"import by copy, {what}",
            peer=SYNCED,
            unit=MIB_PER_SECOND,
            ours=imported,
            theirs=copied,
            goal=GOAL,
        ),
        Figure(
            what=f"export, verified, {what}",
            peer=SYNCED,
            unit=MIB_PER_SECOND,
            ours=exported,
            theirs=again,
            goal=GOAL,
        ),
    ]


def _check_gone(folder: Path, size: int) -> None:
    chunks = (folder / "chunks" / "import").rglob("*")
    if sum(path.stat().st_size for path in chunks if path.is_file()) > size:
        raise SystemExit("what an import wrote is still there")


def _fill(folder: Path, files: int, size: int) -> None:
    folder.mkdir()
    for number in range(files):
        with (folder / str(number)).open("wb", buffering=0) as file:
            for begin in range(0, size, 4 * MIB):
                file.write(os.urandom(min(4 * MIB, size - begin)))


def _command(*words: object) -> None:
    subprocess.run([str(word) for word in words], check=True)


def _timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
