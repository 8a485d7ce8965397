"""Counts of things, as people read them."""

from __future__ import annotations


def counted(count: int, thing: str) -> str:
    """Return a count and what it counts: ``1 chunk``, ``2,000 chunks``. Plurals end in an s."""
    return f"{count:,} {thing if count == 1 else thing + 's'}"
