"""A figure: what Siltstone and its peer did, alternation by alternation, and their ratio."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from math import inf
from statistics import median


class Better(Enum):
    """In which direction a unit gets better."""

    HIGHER = "higher"
    LOWER = "lower"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What is measured, and in which direction it gets better."""

    text: str
    better: Better


PER_SECOND = Unit(text="/s", better=Better.HIGHER)
MIB_PER_SECOND = Unit(text="MiB/s", better=Better.HIGHER)
MICROSECONDS = Unit(text="µs", better=Better.LOWER)
MILLISECONDS = Unit(text="ms", better=Better.LOWER)
SECONDS = Unit(text="s", better=Better.LOWER)
MIB = Unit(text="MiB", better=Better.LOWER)
SHARE = Unit(text="%", better=Better.LOWER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of a table.

    Attributes:
        what: what was done.
        peer: that with which it is compared.
        unit: of both.
        ours: one value for each alternation.
        theirs: the peer's, of the same alternations.
        goal: the ratio that is wanted; ``None`` if the peer does much less work, so that the figure
            only shows how much less.
    """

    what: str
    peer: str
    unit: Unit
    ours: Sequence[float]
    theirs: Sequence[float]
    goal: float | None = None

    @property
    def ratios(self) -> list[float]:
        """The speed in parts of the peer's, ascending: 1 is as fast, and more is better."""
        pairs = zip(self.ours, self.theirs, strict=True)
        if self.unit.better is Better.HIGHER:
            return sorted(ours / theirs for ours, theirs in pairs)
        return sorted(theirs / ours if ours else inf for ours, theirs in pairs)

    @property
    def row(self) -> list[str]:
        """The cells of the line; see ``HEAD``."""
        ratios = self.ratios
        return [
            self.what,
            _amount(median(self.ours), self.unit),
            self.peer,
            _amount(median(self.theirs), self.unit),
            *(
                f"{ratio:.{2 if ratio >= 0.1 else 4}f}"
                for ratio in (ratios[0], median(ratios), ratios[-1])
            ),
            "" if self.goal is None else f"≥ {self.goal:g}",
        ]


def bounded(what: str, unit: Unit, ours: Sequence[float], bound: float) -> Figure:
    """Return a figure whose peer is a number that is to be kept."""
    theirs = [bound] * len(ours)
    return Figure(what=what, peer="bound", unit=unit, ours=ours, theirs=theirs, goal=1)


HEAD = ["what", "Siltstone", "peer", "peer", "ratio min", "median", "max", "goal"]


def alternate(rounds: int, *measures: Callable[[], float]) -> list[list[float]]:
    """Call all ``measures`` in turn, ``rounds`` times; return the values of each.

    Every other round goes backwards, so that none always follows the same one.
    """
    values: list[list[float]] = [[] for _ in measures]
    order = list(range(len(measures)))
    for _ in range(rounds):
        for index in order:
            values[index].append(measures[index]())
        order.reverse()
    return values


def table(figures: Sequence[Figure]) -> str:
    """Return a Markdown table that is also easy to read in a terminal."""
    rows = [HEAD, *(figure.row for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines) + "\n"


def _amount(value: float, unit: Unit) -> str:
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    space = "" if unit is PER_SECOND else " "
    return f"{value:,.{digits}f}{space}{unit.text}"
