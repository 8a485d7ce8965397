"""What the log says of the journal: whether its newest files are there.

A journal says by itself that something in the middle is missing, and not that its end is. The log
names each checkpoint and states each truncation once the journal file that it relies on is durable.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterable, Iterator
from dataclasses import replace

from siltstone.container.found import Found
from siltstone.core.chunk_names import epoch_of
from siltstone.core.errors import ChunkNotFoundError, CorruptDataError
from siltstone.core.records.frame import Frame
from siltstone.core.records.piece import ControlKind, ControlPiece, decode_outlines
from siltstone.core.threads import AsyncChunkStorage
from siltstone.journal.retention import journal_number

logger = logging.getLogger(__name__)

_INDEX = struct.Struct("<Q")


async def compared(where: Found, name: str | None, storage: AsyncChunkStorage) -> Found:
    """Compare the newest checkpoint that the log names with the journal; return ``where``, warned.

    A checkpoint that is gone is passed over: the one before it serves, with the batches behind it.
    """
    recovered = where.recovered
    if recovered is None or name is None or _place(name) <= _place(recovered.checkpoint_file):
        return where
    try:
        await storage.stat(name)
    except ChunkNotFoundError:
        warning = f"passed over missing checkpoint: where={name}"
        logger.warning("%s", warning)
        return replace(where.warned(warning), repaired=True)
    # A living owner wrote it meanwhile, or it is damaged, which was told.
    return where


def check_truncation(where: Found, frames: Iterable[Frame]) -> None:
    """Find out whether it is the journal that lacks something when the log begins too late.

    Raises:
        CorruptDataError: the log was truncated as a durable journal file allowed, and no file of
            the journal says so.
    """
    recovered = where.recovered
    stated = max(_truncations(frames), default=0)
    if recovered is not None and stated > recovered.safe_index:
        raise CorruptDataError(
            "the journal ends before a statement that the log relies on",
            where=recovered.newest_file,
            stated=stated,
            found=recovered.safe_index,
        )


def _place(name: str) -> tuple[int, int]:
    return epoch_of(name), journal_number(name) or 0


def _truncations(frames: Iterable[Frame]) -> Iterator[int]:
    return (
        _INDEX.unpack(piece.payload)[0]
        for frame in frames
        for piece in decode_outlines(frame.body, frame.count, where=f"frame {frame.index}")
        if isinstance(piece, ControlPiece) and piece.control is ControlKind.TRUNCATION
    )
