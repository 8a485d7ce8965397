"""Counts of things, as people read them."""

from __future__ import annotations


def counted(count: int, thing: str) -> str:
    """Return a count and what it counts: ``1 chunk``, ``2,000 chunks``.

    Args:
        count: how many.
        thing: one of them, whose plural ends in an s, with what may follow: ``file of an index``.
    """
    name, space, rest = thing.partition(" ")
    return f"{count:,} {name if count == 1 else name + 's'}{space}{rest}"
