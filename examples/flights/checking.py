"""What the store holds, compared with the file that was loaded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import siltstone
from examples.flights.source import Source


def check_lines(segment: siltstone.Segment, source: Source, needed: Iterable[int]) -> int:
    """Read the whole segment: every needed line is there, and no line twice.

    Args:
        segment: what was loaded.
        source: what should be in it.
        needed: numbers of the lines that must be there; others of the file may be.

    Returns:
        How many lines there are.
    """
    with segment.open("rb") as file:
        found = Counter(file)
    strangers = found.keys() - set(source.lines)
    twice = sum(count > 1 for count in found.values())
    missing = sum(source.lines[number] not in found for number in needed)
    if strangers or twice or missing:
        raise SystemExit(
            f"WRONG: {missing} acknowledged lines are missing, {twice} are there twice or more, "
            f"{len(strangers)} are not of the file"
        )
    return found.total()
