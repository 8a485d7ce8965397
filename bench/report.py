"""The page that a run writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.figure import Figure, table

_HEAD = """\
# Benchmarks

This page is written by `{command}`; every number on it is from that one run.

Siltstone and its peer take turns, {rounds} times, on the same file system. A ratio is made of two
neighbours, so what else the machine does at the time hits both. **1.00 is as fast as the peer, and
more is better**, also where the unit is a time. The columns of the two show medians; the ratios are
the smallest, the median and the largest one. A peer does only what physics asks for: none has
fencing, checksums of chunks, recovery or metadata. So 1.00 is rarely possible, and a goal stands
only where one was set.

"""


def page(
    command: str,
    machine: Mapping[str, str],
    tables: Mapping[str, tuple[str, Sequence[Figure]]],
    rounds: int,
) -> str:
    """Return the page: ``tables`` are title and figures by the name of their part."""
    lines = [_HEAD.format(command=command, rounds=rounds), "## Machine\n\n| | |\n|---|---|\n"]
    lines += [f"| {key} | {value} |\n" for key, value in machine.items()]
    for name, (title, figures) in tables.items():
        lines.append(f"\n## {title}\n\n`python -m bench {name}`\n\n{table(figures)}")
    return "".join(lines)
