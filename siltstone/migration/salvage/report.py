"""What a salvage found of each segment, and the verdict on it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from siltstone.core.records.retention_row import RetentionRow
from siltstone.migration.salvage.pieces import ChunkPiece


class Verdict(StrEnum):
    """What is known of a salvaged segment."""

    EXACT = "exact"
    """A checkpoint proves every byte, and its end."""
    PREFIX = "prefix"
    """Its bytes follow one another from its start; nothing proves that its end is there."""
    GUESSED = "guessed"
    """There are gaps or overlaps, or nothing proves whose bytes these are or where they begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingBytes:
    """Bytes of a segment that are known to be missing.

    Attributes:
        offset: of the first of them.
        length: how many.
        reason: why they are.
    """

    offset: int
    length: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SalvageTarget:
    """A segment of the new store, and what it is made of.

    Attributes:
        name: below ``salvage/``.
        pieces: its bytes in order, without gaps; empty for an empty segment.
        offset: offset of its first byte in the older segment.
    """

    name: str
    pieces: tuple[ChunkPiece, ...]
    offset: int

    @property
    def length(self) -> int:
        """How many bytes it has."""
        return sum(piece.length for piece in self.pieces)

    @property
    def plan(self) -> str:
        """A digest of what it is made of: the same for the same chunks."""
        text = "\n".join(
            f"{piece.offset} {piece.length} {piece.chunk} {piece.chunk_offset}"
            for piece in self.pieces
        )
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class SalvagedSegment:
    """What there is of one segment.

    Attributes:
        name: of the segment; of bytes whose segment is unknown, that of their chunk.
        container: that it was found in.
        verdict: what it may be called.
        start_offset: its first byte, as far as is known.
        end: the offset after its last byte that was found.
        proven: a checkpoint proves what lies below, but for ``missing``; ``None`` when none does.
        missing: known gaps, in order.
        why: why the verdict is not better; empty for an exact one.
        targets: what it becomes in the new store; several if there are gaps.
        attributes: that are known.
        attributes_proven: a checkpoint says that these are all, and what they are.
    """

    name: str
    container: int
    verdict: Verdict
    start_offset: int
    end: int
    proven: int | None
    missing: tuple[MissingBytes, ...]
    why: tuple[str, ...]
    targets: tuple[SalvageTarget, ...] = field(repr=False)
    attributes: dict[str, str] = field(default_factory=dict)
    attributes_proven: bool = False

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """First offset and length of each run that is there."""
        return [(target.offset, target.length) for target in self.targets if target.pieces]


@dataclass(frozen=True, slots=True, kw_only=True)
class SalvagedTable:
    """What there is of one table.

    Attributes:
        name: of the table; ``table N`` with its number when nothing tells its name.
        container: that it was found in.
        verdict: what it may be called. ``exact``: a checkpoint and the table log after it say all
            that is in it. ``prefix``: no update up to ``version`` is missing, later ones may be.
            ``guessed``: updates are missing in between.
        keys: that are in it, as far as is known.
        version: table version of the last update that was looked at.
        proven: table version up to which a checkpoint and the journal prove what is in it; ``None``
            when none does.
        why: why the verdict is not better; empty for an exact one.
        length: bytes of its lines.
        plan: a digest of them.
        lines: a file with a line for each key; gone when the salvage has ended.
        target: the segment of the new store that they become; empty until it has a name.
    """

    name: str
    container: int
    verdict: Verdict
    keys: int
    version: int
    proven: int | None
    why: tuple[str, ...]
    length: int
    plan: str
    lines: Path = field(repr=False)
    target: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """What a container has besides bytes, and that a salvage does not bring.

    Attributes:
        container: its index.
        proven: a checkpoint says that these are all, and what they are.
        rules: of retention.
        writers: of living segments: name of the segment, name of the writer, its last sequence,
            which is -1 before its first append.
    """

    container: int
    proven: bool
    rules: tuple[RetentionRow, ...]
    writers: tuple[tuple[str, str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SalvageReport:
    """What a salvage found, or brought into a new store.

    Attributes:
        segments: by container, then by name.
        doubts: by container, why its newest state cannot be read; none for one that is whole.
        tables: by container, then by name.
        left_out: by container, what is known and not brought; none of a container without a state,
            for nothing tells it there.
        copied: bytes that were written to the new store by this run; 0 for a look.
        done: segments of the new store that are there and sealed.
        has_left_collections: the store has collections, which a salvage does not bring.
    """

    segments: Sequence[SalvagedSegment]
    doubts: dict[int, tuple[str, ...]]
    tables: Sequence[SalvagedTable] = ()
    left_out: Sequence[LeftOut] = ()
    copied: int = 0
    done: int = 0
    has_left_collections: bool = False
