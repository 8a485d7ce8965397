"""How a caller names several segments at once. Pure functions."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache


class NameMatch(StrEnum):
    """What a text that chooses segments means.

    ``NAME``: the segment of exactly this name. ``PREFIX``: all whose names begin so. ``GLOB``: all
    whose names match: ``*`` and ``?`` stand for characters other than ``/``, ``**`` for any.
    """

    NAME = "name"
    PREFIX = "prefix"
    GLOB = "glob"


def fixed_prefix(text: str, match: NameMatch) -> str:
    """Return what all names that ``text`` chooses begin with."""
    return re.split(r"[*?]", text, maxsplit=1)[0] if match is NameMatch.GLOB else text


def chooses(text: str, match: NameMatch, name: str) -> bool:
    """Whether ``text`` chooses the segment ``name``."""
    if match is NameMatch.NAME:
        return name == text
    if match is NameMatch.PREFIX:
        return name.startswith(text)
    return _pattern(text).fullmatch(name) is not None


@lru_cache(maxsize=16)
def _pattern(glob: str) -> re.Pattern[str]:
    kinds = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*|\*|\?)", glob)
    return re.compile("".join(kinds.get(part, re.escape(part)) for part in parts), re.DOTALL)
