"""The chunk row: what is known of one chunk."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """One chunk; its bytes below ``length`` never change.

    Attributes:
        chunk_id: never used again; above 0.
        name: key on long-term storage.
        epoch: the only epoch that may write it; an adopted chunk has 0.
        length: committed bytes; the physical length is never less.
        closed: nothing is appended any more.
        adopted: made by somebody else, never appended to, merged only by copying.
        references: count of extents that name it.
    """

    chunk_id: int
    name: str
    epoch: int
    length: int
    closed: bool = False
    adopted: bool = False
    references: int = 1
