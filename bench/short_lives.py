"""Owners that live for seconds: what many of them write and leave, and what the next opening costs.

SQLite does the same lives next to them: a process or a connection that opens the database, inserts
one row, and closes. Bytes, memory and processor time are bounded; each bound is shown as a peer.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import siltstone
from bench.figure import MIB, MILLISECONDS, SECONDS, Better, Figure, Unit, alternate, bounded
from bench.workshop import Loop, Stopwatch, Workshop, async_store, in_flight

LIVES = 26
RECORD = b"abc"
BULK_BYTES = 60 * 2**20
COUNTS = (120_000, 300_000)
QUICK_COUNT = 2_000
FILES = Unit(text="files", better=Better.LOWER)
LARGE_BYTES = 800 * 2**20
IN_FLIGHT = 1_000
SHORT_COUNT = 10_000
"""Segments that each of several short owners makes."""

WRITTEN_MIB_MAX = 1.0
SMALL_STORE_MIB_MAX = 2.0
READER_MIB_MAX = 100.0
STAT_S_MAX = 1.0
CHUNKS_MAX = 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a process used.

    Attributes:
        seconds: from its start to its end.
        processor_s: user and system time.
        peak_mib: most memory that it had.
        written_mib: to file systems.
    """

    seconds: float
    processor_s: float
    peak_mib: float
    written_mib: float


def run(workshop: Workshop) -> list[Figure]:
    """Short lives, openings of many segments after each kind of end, and one large append."""
    figures = [*_lives(workshop), *_bulk_and_lives(workshop)]
    for count in COUNTS:
        chosen = workshop.pick(count, QUICK_COUNT)
        for end in ("killed", "closed", "short"):
            figures += _openings(workshop, chosen, end)
    return [*figures, *_large_append(workshop)]


# --- lives --------------------------------------------------------------------------------------


def _lives(workshop: Workshop) -> list[Figure]:
    """One append or one row per life, in this process and by the command."""
    lives = workshop.pick(LIVES, 3)
    with workshop.place() as place, Loop() as loop:
        file = workshop.store(place)
        database = place / "lives.sqlite"
        _sqlite(database, "CREATE TABLE rows (bytes BLOB)")
        with async_store(loop, file) as store:
            loop(store.create("a"))
        before = _disk_mib(file.parent)

        def ours() -> float:
            with Stopwatch() as watch:
                for _ in range(lives):
                    with async_store(loop, file) as store:
                        loop(_appended(store))
            return watch.seconds * 1e3 / lives

        def theirs() -> float:
            with Stopwatch() as watch:
                for _ in range(lives):
                    _sqlite(database, "INSERT INTO rows VALUES (?)", (RECORD,))
            return watch.seconds * 1e3 / lives

        mine, other = alternate(workshop.rounds, ours, theirs)
        left = (_disk_mib(file.parent) - before) / workshop.rounds
        made = workshop.rounds * lives
        looked = _silt(file, "ls")
        tier1 = _count(file.parent / "tier1", "*.log")
        by_command = [_silt(file, "append", "a", data=RECORD) for _ in range(10)]
    with workshop.place() as place:
        fresh = workshop.store(place)
        _silt(fresh, "create", "a")
        for _ in range(10):
            _silt(fresh, "append", "a", data=RECORD)
        small = _disk_mib(fresh.parent)
    rounds = workshop.rounds
    return [
        Figure(
            what="one life: open, append 3 B, close",
            peer="SQLite: open, insert, close",
            unit=MILLISECONDS,
            ours=mine,
            theirs=other,
        ),
        bounded(f"… grown on disk by {lives} lives", MIB, [left], SMALL_STORE_MIB_MAX),
        bounded(f"… files of tier 1 after {made} lives", FILES, [float(tier1)], 2),
        bounded(f"… ls after {made} lives, peak memory", MIB, [looked.peak_mib], READER_MIB_MAX),
        bounded(
            "one append of 3 B by the command, written",
            MIB,
            [each.written_mib for each in by_command[:rounds]],
            WRITTEN_MIB_MAX,
        ),
        bounded("a new store after 10 such appends, on disk", MIB, [small], SMALL_STORE_MIB_MAX),
    ]


def _bulk_and_lives(workshop: Workshop) -> list[Figure]:
    """A large append by the command, then small ones: what is written to chunks for it."""
    size = workshop.pick(BULK_BYTES, 2**20)
    lives = workshop.pick(LIVES, 3)
    with workshop.place() as place:
        file = workshop.store(place, "flush: {age: 50ms}\n")
        _silt(file, "create", "a")
        _silt(file, "append", "a", data=os.urandom(size))
        for _ in range(lives):
            _silt(file, "append", "a", data=RECORD)
        data = (size + lives * len(RECORD)) / 2**20
        chunks = _disk_mib(file.parent / "chunks" / "data")
    what = f"{size / 2**20:.0f} MiB and {lives} appends of 3 B by the command, in chunks"
    return [bounded(what, MIB, [chunks], CHUNKS_MAX * data)]


# --- openings -----------------------------------------------------------------------------------


def _openings(workshop: Workshop, count: int, end: str) -> list[Figure]:
    """``stat`` and an owner's opening of many segments, after an owner of each kind of end."""
    with workshop.place() as place:
        file = workshop.store(place)
        child = (sys.executable, "-m", "bench.short_lives", str(file), str(count), end)
        subprocess.run(child, check=end != "killed", stdout=subprocess.DEVNULL)
        stat = [_silt(file, "stat", "some/000000001") for _ in range(workshop.rounds)]
        opened = [_python(_OPEN, str(file)) for _ in range(workshop.rounds)]
    what = f"{count:,} segments, the owner {end}"
    return [
        bounded(
            f"stat of {what}, processor time",
            SECONDS,
            [each.processor_s for each in stat],
            STAT_S_MAX,
        ),
        bounded("… peak memory", MIB, [each.peak_mib for each in stat], READER_MIB_MAX),
        Figure(
            what=f"open as owner, {what}",
            peer="stat",
            unit=SECONDS,
            ours=[each.seconds for each in opened],
            theirs=[each.seconds for each in stat],
        ),
    ]


_OPEN = "import siltstone, sys\nsiltstone.open(sys.argv[1]).close(flush='never')\n"


def _large_append(workshop: Workshop) -> list[Figure]:
    """Memory of verbs after a large append that was not flushed."""
    size = workshop.pick(LARGE_BYTES, 2**20)
    with workshop.place() as place:
        settings = (
            "close: {flush: never}\nflush: {bytes: 2GiB, age: 1h}\nback_pressure: {bytes: 4GiB}\n"
        )
        file = workshop.store(place, settings)
        _silt(file, "create", "a")
        _silt(file, "append", "a", data=b"x" * size)
        verbs = (("ls",), ("stat", "a"), ("cat", "a", "--length", "10"))
        ran = [[_silt(file, *verb) for _ in range(workshop.rounds)] for verb in verbs]
    what = f"after {size / 2**20:.0f} MiB that are only in tier 1, peak memory"
    return [
        bounded(f"{verb[0]} {what}", MIB, [each.peak_mib for each in of_verb], READER_MIB_MAX)
        for verb, of_verb in zip(verbs, ran, strict=True)
    ]


# --- tools --------------------------------------------------------------------------------------


async def _appended(store: siltstone.AsyncStore) -> None:
    await store.segment("a").append(RECORD)


def _sqlite(database: Path, statement: str, values: Sequence[bytes] = ()) -> None:
    connection = sqlite3.connect(database)
    with connection:
        connection.execute(statement, values)
    connection.close()


def _silt(file: Path, *verb: str, data: bytes = b"") -> Ran:
    return _ran([sys.executable, "-m", "siltstone", "--store", str(file), *verb], data)


def _python(text: str, *arguments: str) -> Ran:
    return _ran([sys.executable, "-c", text, *arguments], b"")


_LAUNCH = """
import json, os, sys, time
begun = time.perf_counter()
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ,
    file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
_, status, used = os.wait4(pid, 0)
print(json.dumps({
    "status": os.waitstatus_to_exitcode(status), "seconds": time.perf_counter() - begun,
    "processor_s": used.ru_utime + used.ru_stime, "peak_mib": used.ru_maxrss / 1024,
    "written_mib": used.ru_oublock * 512 / 2**20,
}))
"""
"""Starts a process from a small one: the kernel's peak begins with the peak of the starter."""


def _ran(command: Sequence[str], data: bytes) -> Ran:
    """Run a process to its end, with ``data`` as its input; it must succeed."""
    launcher = [sys.executable, "-I", "-S", "-c", _LAUNCH, *command]
    told = json.loads(
        subprocess.run(launcher, input=data, stdout=subprocess.PIPE, check=True).stdout
    )
    if status := told.pop("status"):
        raise subprocess.CalledProcessError(status, list(command))
    return Ran(**told)


def _disk_mib(folder: Path) -> float:
    """What files have on disk, holes not counted."""
    files = (path.stat() for path in folder.rglob("*") if path.is_file())
    return sum(stat.st_blocks * 512 for stat in files) / 2**20


def _count(folder: Path, pattern: str) -> int:
    return sum(1 for _ in folder.rglob(pattern))


# --- the owner of many segments, in a process of its own ----------------------------------------


def _owner(file: Path, count: int, end: str) -> None:
    """Make the segments and end: killed, closed, or as many short owners."""
    share = count if end != "short" else SHORT_COUNT
    for begin in range(0, count, share):
        _make(file, begin, min(begin + share, count), end)


def _make(file: Path, begin: int, until: int, end: str) -> None:
    with Loop() as loop, async_store(loop, file) as store:

        async def make(number: int) -> None:
            await store.create(f"some/{begin + number:09}")

        loop(in_flight(IN_FLIGHT, until - begin, make))
        if end == "killed":
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    _owner(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
