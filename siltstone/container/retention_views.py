"""What retention is told and tells: frozen values, no behaviour."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRule:
    """How much of some segments is kept. With neither limit, everything is.

    Attributes:
        name: of a segment, or the beginning of names.
        prefix: whether it is about every segment whose name starts with ``name``.
        bytes_max: the oldest bytes of a segment go while it holds more than so many.
        age_max_s: bytes that were appended longer ago go, seconds.
    """

    name: str
    prefix: bool
    bytes_max: int | None
    age_max_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionCut:
    """One segment that a rule shortens.

    Attributes:
        segment: its name.
        start_offset: first readable byte before.
        cut_offset: first readable byte afterwards, where an append ends.
        length: its end.
        rule: which rule says so.
    """

    segment: str
    start_offset: int
    cut_offset: int
    length: int
    rule: RetentionRule
