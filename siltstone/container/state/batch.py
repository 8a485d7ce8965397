"""The batch that becomes the next frame, while it is being filled. No I/O."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import accumulate, islice

from siltstone.container.state.open_segment import OpenPiece
from siltstone.core.constants import KIB, Buffer
from siltstone.core.records.piece import (
    CONTROL_HEADER,
    ControlKind,
    append_header,
    control_piece,
    encode_time_record,
    table_header,
)
from siltstone.metadata.assigned_update import AssignedUpdate

BORDER_BYTES = 64 * KIB
LOG_INDEX = -1
"""A result that stands for the index of the frame."""

TOLD_COUNT = 512
"""Callers that are told in one turn of the loop. If many more continued together, what they
allocate would let Python look for garbage with each frame: it does that every 700 objects."""

TIME_BYTES = CONTROL_HEADER.size + len(encode_time_record(0))
"""What every frame's body holds in addition to its operations."""


class SealedPiece:
    """A piece whose appends were joined: what goes into the frame and then into the tail."""

    __slots__ = ("borders", "data", "joint_end", "marks", "offset", "segment")

    def __init__(self, piece: OpenPiece) -> None:
        parts = piece.parts
        self.segment = piece.segment
        self.offset = piece.offset
        self.joint_end = piece.joint_end
        self.data = parts[0] if len(parts) == 1 else b"".join(parts)
        self.marks = tuple(piece.marks.values()) if piece.marks else ()
        self.borders = _borders(piece.offset, parts, len(self.data))


def _borders(offset: int, parts: list[bytes], length: int) -> tuple[int, ...]:
    """Append borders, at most one in every ``BORDER_BYTES``, the end included."""
    if length <= BORDER_BYTES or len(parts) == 1:
        return (offset + length,)
    chosen = []
    last = 0
    for end in accumulate(map(len, parts)):
        if end - last >= BORDER_BYTES:
            chosen.append(offset + end)
            last = end
    if last != length:
        chosen.append(offset + length)
    return tuple(chosen)


class Batch:
    """What will be one frame.

    Attributes:
        size: bytes of its body so far, headers of pieces included, roughly and never too few.
        relief: it holds nothing but what helps to free space, so it may use the log's reserve.
        admitted: bytes of its appends that back-pressure has counted already.
        futures: who waits, and what each is told.
    """

    __slots__ = (
        "admitted",
        "controls",
        "futures",
        "pieces",
        "relief",
        "results",
        "size",
        "updates",
    )

    def __init__(self) -> None:
        self.pieces: list[OpenPiece] = []
        self.updates: list[AssignedUpdate] = []
        self.controls: list[bytes] = []
        self.futures: list[asyncio.Future[int]] = []
        self.results: list[int] = []
        self.size = 0
        self.relief = True
        self.admitted = 0

    @property
    def empty(self) -> bool:
        """Whether it would be a frame without pieces."""
        return not (self.pieces or self.updates or self.controls)

    async def tell(self, index: int) -> None:
        """Give all who wait their results, now that the frame is acknowledged as ``index``."""
        results = self.results
        if self.controls:
            results = [index if result == LOG_INDEX else result for result in results]
        # The futures are freed one by one while their callers continue, not all at once later.
        futures, self.futures = self.futures, []
        pairs = zip(futures, results, strict=True)
        turns = len(futures) // TOLD_COUNT
        del futures
        try:
            for _ in range(turns):
                _tell(islice(pairs, TOLD_COUNT))
                await asyncio.sleep(0)
        finally:  # the container may be stopped meanwhile
            _tell(pairs)

    def seal(self, now_ms: int) -> tuple[list[SealedPiece], list[Buffer], int]:
        """Return the joined pieces, the frame's body and the count of its pieces.

        ``now_ms`` is kept in the frame: replay is a function of the frame alone.
        """
        buffers: list[Buffer] = [control_piece(ControlKind.TIME, encode_time_record(now_ms))]
        sealed = []
        if self.updates:
            parts = [
                part
                for update in self.updates
                for part in (table_header(len(update.record)), update.record)
            ]
            # One buffer for many small records; one that is alone may be large.
            buffers += parts if len(self.updates) == 1 else [b"".join(parts)]
        for piece in self.pieces:
            joined = SealedPiece(piece)
            sealed.append(joined)
            buffers.append(
                append_header(
                    piece.segment.segment_id, piece.offset, len(joined.data), list(joined.marks)
                )
            )
            buffers.append(joined.data)
            # Piece and batch name each other, so without this both would stay in memory, and their
            # appends next to the joined copy, until the garbage collector comes by.
            piece.parts.clear()
            piece.batch = None
        buffers.extend(self.controls)
        count = 1 + len(self.updates) + len(self.pieces) + len(self.controls)
        return sealed, buffers, count


def _tell(pairs: Iterable[tuple[asyncio.Future[int], int]]) -> None:
    """Set the results of futures."""
    for future, result in pairs:
        try:  # cheaper than to ask each future first
            future.set_result(result)
        except asyncio.InvalidStateError:  # its caller was cancelled
            continue
