"""What the command costs before and after its work: processor time of whole processes."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import siltstone
from bench.figure import MILLISECONDS, Figure, alternate
from bench.workshop import Workshop

SQLITE = ("-c", "import sqlite3")
"""A library with a store in files, only imported."""

NOTHING = ("-c", "pass")

RUNS = 11
"""A process is short and machines are busy, so the median of a few runs says little."""


def run(workshop: Workshop) -> list[Figure]:
    """Helps and verbs of a small store in folders, each next to two processes of Python alone."""
    with workshop.place() as place:
        store = (place / "store").resolve()
        siltstone.init(store)
        with siltstone.open(store) as opened:
            opened.create("segment").append(b"bytes")
        of_it = ("-m", "siltstone", "--store", str(store))
        cases: dict[str, tuple[str, ...]] = {
            "siltstone --help": ("-m", "siltstone", "--help"),
            "siltstone append --help": ("-m", "siltstone", "append", "--help"),
            "siltstone ls": (*of_it, "ls"),
            "siltstone stat": (*of_it, "stat", "segment"),
            "siltstone append": (*of_it, "append", "segment"),
            "import siltstone": ("-c", "import siltstone"),
            "siltstone.open": ("-c", f"import siltstone; siltstone.open({str(store)!r}).close()"),
        }
        peers = {"python -c pass": NOTHING, "python -c 'import sqlite3'": SQLITE}
        calls = [_processor(place, arguments) for arguments in (*cases.values(), *peers.values())]
        for call in calls:
            call()  # Bytecode is written once.
        found = alternate(workshop.pick(RUNS, 1), *calls)
    ours, theirs = found[: len(cases)], found[len(cases) :]
    return [
        Figure(
            what=f"{name}, the processor's time",
            peer=peer,
            unit=MILLISECONDS,
            ours=times,
            theirs=other,
        )
        for name, times in zip(cases, ours, strict=True)
        for peer, other in zip(peers, theirs, strict=True)
    ]


def _processor(place: Path, arguments: tuple[str, ...]) -> Callable[[], float]:
    """Return a call that runs Python with ``arguments`` and returns processor milliseconds."""
    variables = {key: text for key, text in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}

    def run() -> float:
        before = _children_s()
        subprocess.run(
            [sys.executable, *arguments],
            cwd=place,
            env={**variables, "PYTHONPATH": str(Path(siltstone.__file__).parents[1])},
            input=b"bytes",
            stdout=subprocess.DEVNULL,
            check=True,
        )
        return (_children_s() - before) * 1e3

    return run


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
