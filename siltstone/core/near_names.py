"""Names that a person may have meant when writing an unknown one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def meant(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'X'?`` for a message; empty when no known name is near."""
    near = get_close_matches(name, sorted(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
