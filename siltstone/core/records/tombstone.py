"""The tombstone row: what became of a segment that was concatenated, so that a repeat is recognised."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstone:
    """A segment's name whose bytes became a part of another segment.

    Attributes:
        name: the source's name.
        source_id: the source's id.
        target_id: the segment that took its bytes.
        offset: where they begin in the target.
        length: how many they are.
        made_ms: when, milliseconds since 1970.
    """

    name: str
    source_id: int
    target_id: int
    offset: int
    length: int
    made_ms: int
