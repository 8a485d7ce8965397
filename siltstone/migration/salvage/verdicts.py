"""From proven and named pieces to verdicts. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from siltstone.core.constants import SEGMENT_NAME_BYTES_MAX
from siltstone.migration.salvage.pieces import ChunkPiece, gaps, painted, runs
from siltstone.migration.salvage.report import (
    MissingBytes,
    SalvagedSegment,
    SalvageTarget,
    Verdict,
)

PREFIX = "salvage/"
_KEPT_BYTES = SEGMENT_NAME_BYTES_MAX - 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What a checkpoint says of a segment.

    Attributes:
        start_offset: its first readable byte.
        length: the offset after its last byte that lies in chunks.
        sealed_length: its whole length, if it was sealed.
        pieces: what of it is there and matches its sums, in order.
        missing: what is not, in order.
    """

    start_offset: int
    length: int
    sealed_length: int | None
    pieces: tuple[ChunkPiece, ...]
    missing: tuple[MissingBytes, ...]


@dataclass(slots=True, kw_only=True)
class Evidence:
    """All that is known of one segment.

    Attributes:
        name: its name, or what stands for it.
        container: that it was found in.
        proof: what a checkpoint says; ``None`` when none does.
        named: pieces that names of chunks speak of and no checkpoint does, the oldest first.
        doubts: why it is not certain whose bytes the named ones are.
        attributes: that are known.
        attributes_proven: a checkpoint says so.
    """

    name: str
    container: int
    proof: Proof | None = None
    named: list[ChunkPiece] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    attributes: dict[str, str] = field(default_factory=dict)
    attributes_proven: bool = False


def judged(evidence: Evidence) -> SalvagedSegment:
    """Say what there is of a segment and what it may be called; targets have no names yet."""
    proof = evidence.proof
    proven = () if proof is None else proof.pieces
    start = 0 if proof is None else proof.start_offset
    named = [
        piece.between(max(start, piece.offset), piece.end)
        for piece in evidence.named
        if piece.end > start
    ]
    beneath, why = painted(named)
    pieces, _ = painted([*beneath, *proven])
    used = [piece for piece in pieces if not piece.proven]
    why = [*evidence.doubts, *why] if used else []
    why += _overlaps(named, proof, used)
    if proof is None and pieces and pieces[0].offset > 0:
        first = pieces[0].offset
        why.append(f"nothing tells whether the bytes below {first} were truncated or are missing")
    known_end = max(
        pieces[-1].end if pieces else start,
        0 if proof is None else max(proof.length, proof.sealed_length or 0),
    )
    missing = _missing(pieces, proof, start if proof else 0, known_end)
    in_order = len(runs(pieces)) <= 1 and (not pieces or pieces[0].offset == start)
    if proof is not None and not missing and not used:
        verdict = Verdict.EXACT
    elif in_order and pieces and not why:
        verdict = Verdict.PREFIX
        behind = "no checkpoint proves its end" if used else "its end is missing"
        why.append(behind)
    else:
        verdict = Verdict.GUESSED
        if len(runs(pieces)) > 1:
            why.append("bytes between others are missing")
        elif not pieces:
            why.append("none of its bytes are there")
        elif not in_order and proof is not None:
            why.append("its first bytes are missing")
    return SalvagedSegment(
        name=evidence.name,
        container=evidence.container,
        verdict=verdict,
        start_offset=start if proof or not pieces else pieces[0].offset,
        end=pieces[-1].end if pieces else start,
        proven=None if proof is None else proof.length,
        missing=missing,
        why=tuple(dict.fromkeys(why)),
        targets=_targets(pieces, start, verdict),
        attributes=evidence.attributes,
        attributes_proven=evidence.attributes_proven,
    )


def _overlaps(
    named: Sequence[ChunkPiece], proof: Proof | None, used: Sequence[ChunkPiece]
) -> list[str]:
    """Named chunks that count in part only, because a checkpoint proves the rest otherwise."""
    if proof is None:
        return []
    counted = {piece.chunk: piece for piece in used}
    return [
        f"{piece.chunk} holds other bytes too, which a checkpoint says lie elsewhere"
        for piece in named
        if piece.chunk in counted
        and piece.offset < proof.length
        and not piece.chunk_offset
        and any(p.offset < piece.end and piece.offset < p.end for p in proof.pieces)
    ]


def _missing(
    pieces: Sequence[ChunkPiece], proof: Proof | None, start: int, end: int
) -> tuple[MissingBytes, ...]:
    """The gaps, each with the reason that is known."""
    if proof is None:
        return tuple(
            MissingBytes(offset=begin, length=stop - begin, reason="no chunk holds them")
            for begin, stop in gaps(pieces, start, end)
        )
    found = []
    for begin, stop in gaps(pieces, start, proof.length):
        reasons = [
            one.reason
            for one in proof.missing
            if one.offset < stop and begin < one.offset + one.length
        ]
        reason = "; ".join(dict.fromkeys(reasons))
        found.append(MissingBytes(offset=begin, length=stop - begin, reason=reason))
    reason = "they were never flushed, or what tells where they are is lost"
    for begin, stop in gaps(pieces, max(start, proof.length), end):
        found.append(MissingBytes(offset=begin, length=stop - begin, reason=reason))
    return tuple(found)


def _targets(
    pieces: Sequence[ChunkPiece], start: int, verdict: Verdict
) -> tuple[SalvageTarget, ...]:
    groups = runs(pieces)
    if not groups and verdict is Verdict.EXACT:
        return (SalvageTarget(name="", pieces=(), offset=start),)
    return tuple(
        SalvageTarget(name="", pieces=tuple(group), offset=group[0].offset) for group in groups
    )


def target_name(name: str, offset: int | None, taken: set[str]) -> str:
    """Return the name in the new store, and add it to ``taken``.

    Args:
        name: of the older segment, or what stands for it.
        offset: of the run, for a segment with several; else ``None``.
        taken: names that others have.
    """
    raw = name.encode("utf-8")[:_KEPT_BYTES].decode("utf-8", "ignore")
    found = f"{PREFIX}{raw}" if offset is None else f"{PREFIX}{raw}@{offset:020d}"
    while found in taken:
        found += "~"
    taken.add(found)
    return found
