"""The page that runs write: each part has its own section, from the last run of that part."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from bench.figure import Figure, table

_HEAD = """\
# Benchmarks

This page is written by `python -m bench --write`. A run writes the sections of the parts that it
was asked for and leaves the others; each section says when and where it was measured, and every
number in it is from that one run.

Siltstone and its peer take turns, {rounds} times, on the same file system. A ratio is made of two
neighbours, so what else the machine does at the time hits both. **1.00 is as fast as the peer, and
more is better**, also where the unit is a time. The columns of the two show medians; the ratios are
the smallest, the median and the largest one. A peer does only what physics asks for: none has
fencing, checksums of chunks, recovery or metadata. So 1.00 is rarely possible, and a goal stands
only where one was set.

A virtual machine may give memory that is free back to its host. Whoever writes files that grow,
here 512 MiB, then needs 0.13 s of processor right after as many bytes were deleted, and 1.2 to
1.7 s when they were deleted more than 2 s ago. That is in the figures of both, as it falls.

Some peers have to be there: `make peers` installs those of Python. Leveled is measured by
`keyspaces` if `SILTSTONE_LEVELED` names a checkout of it, and `erl` and `erlc` are there (Debian:
`apt-get install erlang-base erlang-dev erlang-crypto erlang-eunit erlang-syntax-tools
erlang-tools`). It is compiled into the folder of the run. It compresses by LZ4 if rebar3 has built
that in the checkout; otherwise values are kept as they came. A run says on standard error what it
does not measure, and why.
"""

_SECTION = re.compile(r"^## .*\n\n`python -m bench (\w+)`\n(?:.*\n)*?(?=^## |\Z)", re.MULTILINE)


def page(old: str, order: Iterable[str], sections: Mapping[str, str], rounds: int) -> str:
    """Return the page with these sections, and those of ``old`` for the parts that have none."""
    kept = {found[1]: found[0].rstrip("\n") + "\n" for found in _SECTION.finditer(old)}
    merged = {**kept, **sections}
    return "\n".join(
        [_HEAD.format(rounds=rounds), *(merged[name] for name in order if name in merged)]
    )


def section(name: str, title: str, machine: Mapping[str, str], figures: Sequence[Figure]) -> str:
    """Return what the page says of one part."""
    facts = "; ".join(f"{key} {value}" for key, value in machine.items())
    return f"## {title}\n\n`python -m bench {name}`\n\n{facts}.\n\n{table(figures)}"
