"""``python -m bench [NAME…] [--quick] [--write] [--folder PATH]``."""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from bench import (
    ages,
    appends,
    flushes,
    layouts,
    machine,
    openings,
    packs,
    peers,
    populations,
    reads,
    report,
    requests,
    updates,
)
from bench.figure import Figure, table
from bench.workshop import Workshop

PARTS: dict[str, tuple[str, Callable[[Workshop], list[Figure]]]] = {
    "appends": ("Durable appends", appends.run),
    "flushes": ("Append and flush", flushes.run),
    "packs": ("Many small segments", packs.run),
    "requests": ("Requests to long-term storage", requests.run),
    "layouts": ("Many chunks", layouts.run),
    "reads": ("Reads", reads.run),
    "updates": ("Segments and tables", updates.run),
    "peers": ("Segments and tables beside other engines", peers.run),
    "openings": ("Opening", openings.run),
    "populations": ("Opening very many segments", populations.run),
    "ages": ("Opening an old store", ages.run),
}
PAGE = Path(__file__).with_name("README.md")


def main(arguments: Sequence[str]) -> None:
    """Run the parts that are named, or all."""
    options = _options(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="bench-") as folder:
        workshop = Workshop(folder=Path(folder), quick=options.quick)
        facts = machine.facts(workshop.folder)
        for key, value in facts.items():
            print(f"{key}: {value}")
        tables = {}
        for name in options.names or PARTS:
            title, run = PARTS[name]
            print(f"\n{title}", flush=True)
            figures = run(workshop)
            print(table(figures), flush=True)
            tables[name] = (title, figures)
    if options.write:
        command = shlex.join(["python", "-m", "bench", *arguments])
        PAGE.write_text(report.page(command, facts, tables, workshop.rounds), encoding="utf-8")


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="only see that it works")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.parent.name}/README.md")
    parser.add_argument(
        "--folder", type=Path, default=Path("build"), help="where to write; default: %(default)s"
    )
    options = parser.parse_args(arguments)
    unknown = set(options.names) - set(PARTS)
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    return options


if __name__ == "__main__":
    main(sys.argv[1:])
