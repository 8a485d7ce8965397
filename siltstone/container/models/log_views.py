"""Frames of the tier-1 log as a person reads them. Nothing depends on these forms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from siltstone.core.fenced_log import ExaminedLog, FencedLog, LogCondition
from siltstone.core.records.frame import KIND_END, Frame
from siltstone.core.records.keys import METADATA_TABLE
from siltstone.core.records.piece import (
    AppendPiece,
    ControlKind,
    ControlPiece,
    TablePiece,
    decode_pieces,
    decode_time_record,
    decode_truncation_record,
)
from siltstone.core.records.table_record import TableEntry, decode_table_record
from siltstone.core.text import uuid_text
from siltstone.metadata.row_views import key_view, row_view


@dataclass(frozen=True, slots=True, kw_only=True)
class LogHead:
    """A log at a glance.

    Attributes:
        container: whose log it is.
        epoch: the newest one that was claimed; 0 if none ever was.
        alive: whether a live holder is known.
        owner: its present or last owner, as that describes itself.
        lineage: its uuid; empty for a log without history.
        first: index of the first frame that is kept.
        end: one above the newest frame that may be shown.
        dropped_tail: bytes of a torn last frame.
        doubts: why a claim would be refused, and what else to change about the place of the log;
            empty when all is well.
    """

    container: int
    epoch: int
    alive: bool
    owner: str
    lineage: str
    first: int
    end: int
    dropped_tail: int
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameView:
    """One frame.

    Attributes:
        index: its place in the log.
        epoch: of the owner that wrote it.
        lineage: its uuid.
        kind: ``batch``, or ``end``: the owner closed cleanly.
        made_ms: when, milliseconds since 1970; ``None`` for an end.
        size: bytes in the log.
        pieces: what it holds, one mapping each; ``piece`` says what it is.
    """

    index: int
    epoch: int
    lineage: str
    kind: str
    made_ms: int | None
    size: int
    pieces: tuple[Mapping[str, object], ...]


def condition_of(log: FencedLog) -> LogCondition:
    """What a log says of its place, if it looks. Blocking; raises ``LogError``."""
    return log.condition() if isinstance(log, ExaminedLog) else LogCondition()


def doubts_of(log: FencedLog) -> tuple[str, ...]:
    """What a log says of its place, as lines for people. Blocking; raises ``LogError``."""
    condition = condition_of(log)
    refused = [condition.damage] if condition.damage else []
    refused += condition.refusals
    told = tuple(f"the next claim would be refused: {each}" for each in refused)
    return told + condition.warnings


def frame_view(frame: Frame, *, rows: bool) -> FrameView:
    """Decode a frame.

    Args:
        frame: as the log has it.
        rows: decode the rows that table updates write, too.

    Raises:
        CorruptDataError: the body does not hold what the frame counts.
        FormatError: it holds something newer than this version.
    """
    where = f"frame {frame.index}"
    made_ms: int | None = None
    pieces: list[Mapping[str, object]] = []
    for piece in decode_pieces(frame.body, frame.count, where=where):
        if isinstance(piece, ControlPiece):
            if piece.control is ControlKind.TIME:
                made_ms = decode_time_record(piece.payload, where=where)
            else:
                pieces.append(_control(piece, where))
        elif isinstance(piece, AppendPiece):
            pieces.append(_append(piece))
        else:
            pieces.append(_table(piece, where, rows=rows))
    return FrameView(
        index=frame.index,
        epoch=frame.epoch,
        lineage=uuid_text(frame.lineage),
        kind="end" if frame.kind == KIND_END else "batch",
        made_ms=made_ms,
        size=frame.size,
        pieces=tuple(pieces),
    )


def _append(piece: AppendPiece) -> Mapping[str, object]:
    return {
        "piece": "append",
        "segment_id": piece.segment_id,
        "offset": piece.offset,
        "length": len(piece.data),
        "writers": len(piece.writers),
    }


def _control(piece: ControlPiece, where: str) -> Mapping[str, object]:
    name = piece.control.name.lower()
    if piece.control is ControlKind.TRUNCATION:
        index = decode_truncation_record(piece.payload, where=where)
        return {"piece": name, "before_index": index}
    return {"piece": name, "names": piece.payload.decode("utf-8", "replace").split("\n")}


def _table(piece: TablePiece, where: str, *, rows: bool) -> Mapping[str, object]:
    record = decode_table_record(piece.record, where=where)
    shown: dict[str, object] = {
        "piece": "table",
        "table_version": record.table_version,
        "length": record.length,
        "entries": len(record.entries),
    }
    if rows:
        shown["rows"] = [_entry(entry) for entry in record.entries]
    return shown


def _entry(entry: TableEntry) -> Mapping[str, object]:
    if entry.table_id != METADATA_TABLE:
        fields: dict[str, object] = {"table_id": entry.table_id, "key": entry.key.hex()}
        kind = "entry"
    elif entry.value is not None and entry.splice_at is None:
        kind, fields = row_view(entry.key, entry.value)
        return {"change": "put", "row": kind, **fields}
    else:
        kind, fields = key_view(entry.key)
    if entry.range_end is not None:
        return {"change": "remove range", "row": kind, **fields, "end": entry.range_end.hex()}
    if entry.value is None:
        return {"change": "remove", "row": kind, **fields}
    if entry.splice_at is not None:
        fields["kept"] = entry.splice_at
        return {"change": "splice", "row": kind, **fields, "length": len(entry.value)}
    return {"change": "put", "row": kind, **fields, "length": len(entry.value)}
