"""All that is acknowledged of a container at one moment, so that another one can begin from it.

The index has every table, the frames have the bytes that lie in no chunk yet, and the chunks have
all others. Nothing here has a history: neither journal nor table log is part of it.

The call of a read-only container that takes an image of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from siltstone.container.reads.chunk_rows import ChunkRows
from siltstone.container.state.replica import Replica
from siltstone.container.state.tail import LogSlice, TailPiece
from siltstone.core.constants import FRAME_BYTES_MAX, Buffer
from siltstone.core.errors import CorruptDataError
from siltstone.core.records.frame import (
    KIND_BATCH,
    OVERHEAD_BYTES,
    Frame,
    decode_frame,
    encode_frame,
)
from siltstone.core.records.piece import (
    WRITER_MARK,
    ControlKind,
    append_header,
    control_piece,
    encode_time_record,
)

if TYPE_CHECKING:
    pass

_BODY_BYTES_MAX: Final = FRAME_BYTES_MAX // 2
"""A piece is at most as long as a frame's body, and a frame gets no more pieces beyond this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerImage:
    """A container at one moment.

    Attributes:
        container: its index in the store.
        lineage: of its table log.
        epoch: the highest that its log or its journal knew.
        table_version: up to which the index files hold every update, exactly.
        table_crc: running CRC32C of the table log at that version.
        index_files: local files that make the index; empty for an empty one.
        tail: encoded frames with the bytes that lie in no chunk; may be empty.
        chunks: every chunk that an extent names.
        segments: how many there are.
    """

    container: int
    lineage: bytes
    epoch: int
    table_version: int
    table_crc: int
    index_files: tuple[Path, ...]
    tail: tuple[Buffer, ...]
    chunks: tuple[ChunkRows, ...]
    segments: int


def tail_pieces(replica: Replica) -> list[tuple[TailPiece, int]]:
    """What the tails of all segments are made of, each with its segment, as the log has them."""
    return sorted(
        (
            (piece, segment_id)
            for segment_id, segment in replica.dirty.items()
            for piece in segment.tail.pieces
        ),
        # Not by time: the clock of an owner may go back, and bytes of a segment have to follow.
        key=lambda found: (found[0].index, found[1], found[0].offset),
    )


def encoded_tail(
    pieces: Sequence[tuple[TailPiece, int]],
    fetched: Mapping[LogSlice, Buffer],
    lineage: bytes,
    epoch: int,
) -> tuple[Buffer, ...]:
    """Write tails as frames that ``Replica.apply_all`` takes, in their order.

    A frame has pieces of one time, and each piece is what one frame of the log had of a segment.
    ``fetched`` has the bytes of those that memory lacks.
    """
    frames: list[Buffer] = []
    previous_crc = 0
    for index, group in enumerate(_grouped(pieces)):
        body: list[Buffer] = []
        time_ms = group[0][0].made_ms
        if time_ms:
            body.append(control_piece(ControlKind.TIME, encode_time_record(time_ms)))
        for piece, segment_id in group:
            header = append_header(segment_id, piece.offset, len(piece.data), list(piece.marks))
            data = piece.data
            body += (header, fetched[data] if isinstance(data, LogSlice) else data)
        encoded = encode_frame(
            body,
            kind=KIND_BATCH,
            lineage=lineage,
            epoch=epoch,
            index=index,
            previous_crc=previous_crc,
            count=len(group) + bool(time_ms),
        )
        previous_crc = encoded.crc
        frames += encoded.buffers
    return tuple(frames)


def decoded_tail(data: Buffer, *, where: str) -> tuple[Frame, ...]:
    """Read what ``encoded_tail`` wrote.

    Raises:
        CorruptDataError: it is damaged; ``where`` is named.
        FormatError: a newer version wrote it.
    """
    frames: list[Frame] = []
    position = 0
    view = memoryview(data)
    while position < len(view):
        frame = decode_frame(view, position)
        previous = frames[-1].crc if frames else 0
        if frame is None or frame.index != len(frames) or frame.previous_crc != previous:
            raise CorruptDataError("a frame of the tail is damaged", where=where, at=position)
        frames.append(frame)
        position += frame.size
    return tuple(frames)


def _grouped(
    pieces: Sequence[tuple[TailPiece, int]],
) -> Iterator[list[tuple[TailPiece, int]]]:
    """Cut pieces into frames: of one time each, and not too large."""
    group: list[tuple[TailPiece, int]] = []
    size = 0
    for piece, segment_id in pieces:
        length = OVERHEAD_BYTES + len(piece.data) + len(piece.marks) * WRITER_MARK.size
        if group and (piece.made_ms != group[0][0].made_ms or size + length > _BODY_BYTES_MAX):
            yield group
            group, size = [], 0
        group.append((piece, segment_id))
        size += length
    if group:
        yield group


IMAGE_TRIES: Final = 5
"""Looks at a log that an owner truncates meanwhile."""
