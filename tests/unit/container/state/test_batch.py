"""The batch while it is filled and sealed."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from siltstone.container.state.batch import Batch
from siltstone.container.state.open_segment import OpenPiece, OpenSegment
from siltstone.core.records.segment_state import SegmentState


class Part(bytes):
    """Bytes that show whether they are still in memory."""

    alive = 0

    def __init__(self, *_: object) -> None:
        type(self).alive += 1

    def __del__(self) -> None:
        type(self).alive -= 1


@contextmanager
def no_collector() -> Iterator[None]:
    """Let objects be freed only when nothing refers to them."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def test_appends_leave_memory_when_they_were_joined() -> None:
    segment = OpenSegment(SegmentState(segment_id=1, name="a", created_ms=0), 0)
    with no_collector():
        batch = Batch()
        piece = OpenPiece(batch, segment)
        segment.piece = piece
        batch.pieces.append(piece)
        piece.parts += [Part(b"one"), Part(b"two")]
        sealed, _, _ = batch.seal(0)
        assert sealed[0].data == b"onetwo"
        assert Part.alive == 0
