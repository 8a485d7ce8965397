"""Bringing salvaged bytes into a new store, so that a run may be killed and repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from siltstone.core.errors import CorruptDataError, SegmentExistsError, SegmentNotFoundError
from siltstone.core.threads import AsyncChunkStorage
from siltstone.core.words import MIB
from siltstone.migration.salvage.reading import read_piece
from siltstone.migration.salvage.report import SalvagedSegment, Target
from siltstone.store.async_segment import AsyncSegment
from siltstone.store.async_store import AsyncStore

PARALLEL = 16
"""Segments that are written at a time: each append waits for its frame."""

APPEND_BYTES = MIB
PLAN = "salvage.plan"
"""Attribute that says what a segment is made of, so that a repeated run knows its own."""


async def bring(
    segments: Sequence[SalvagedSegment], storage: AsyncChunkStorage, store: AsyncStore
) -> tuple[int, int]:
    """Write all targets of ``segments`` to ``store``, sealed; return bytes written and segments.

    What an earlier run wrote is gone on with. The bytes of a target are those of its plan, which is
    an attribute from its first moment, so what is there is always a beginning of them.

    Raises:
        SegmentExistsError: there is a segment of such a name that is not of this plan.
        CorruptDataError: chunks changed meanwhile.
    """
    work = [(segment, target) for segment in segments for target in segment.targets]
    written = 0
    for begin in range(0, len(work), PARALLEL):
        some = work[begin : begin + PARALLEL]
        written += sum(await asyncio.gather(*(_bring(*one, storage, store) for one in some)))
    return written, len(work)


async def _bring(
    segment: SalvagedSegment, target: Target, storage: AsyncChunkStorage, store: AsyncStore
) -> int:
    copy = await _begun(segment, target, store)
    info = await copy.info()
    position = info.length
    if position > target.length or (info.sealed and position != target.length):
        raise SegmentExistsError("the segment holds other bytes", segment=target.name)
    if info.sealed:
        return 0
    written = target.length - position
    append_bytes = min(APPEND_BYTES, copy.append_bytes_max)
    for piece in target.pieces:
        begin, end = piece.offset - target.offset, piece.end - target.offset
        while position < end:
            length = min(append_bytes, end - position)
            data = await read_piece(piece, storage, piece.offset + position - begin, length)
            if len(data) != length:
                raise CorruptDataError("a chunk changed during the salvage", where=piece.chunk)
            await copy.append(data, expected_offset=position)
            position += length
    await copy.seal()
    return written


async def _begun(segment: SalvagedSegment, target: Target, store: AsyncStore) -> AsyncSegment:
    """The segment of a target, made now or by an earlier run."""
    attributes = {
        PLAN: target.plan,
        "salvage.verdict": segment.verdict.value,
        "salvage.offset": str(target.offset),
    }
    if segment.proven is not None:
        attributes["salvage.proven"] = str(segment.proven)
    copy = store.segment(target.name)
    try:
        found = (await copy.info()).attributes
    except SegmentNotFoundError:
        return await store.create(target.name, attributes=attributes)
    if found.get(PLAN) != target.plan:
        raise SegmentExistsError(
            "a segment of this name is there, and not of this salvage", segment=target.name
        )
    return copy
