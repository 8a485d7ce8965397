"""Bringing salvaged bytes into a new store, so that a run may be killed and repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

from siltstone.container.models.segments import check_limits
from siltstone.core.constants import MIB
from siltstone.core.errors import (
    AttributeLimitError,
    CorruptDataError,
    SegmentExistsError,
    SegmentNotFoundError,
)
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.metadata.checkpoint import INDEX_POOL
from siltstone.migration.salvage.piece_reads import read_piece
from siltstone.migration.salvage.report import SalvagedSegment, SalvagedTable, SalvageTarget
from siltstone.store.async_store import AsyncStore
from siltstone.store.handles.async_segment import AsyncSegment
from siltstone.store.system_table import for_keyspaces

PARALLEL = 16
"""Segments that are written at a time: each append waits for its frame."""

APPEND_BYTES = MIB
ATTRIBUTES = "salvage.attributes"
"""Attribute that says whether a checkpoint proves those of the older segment."""

PLAN = "salvage.plan"
"""Attribute that says what a segment is made of, so that a repeated run knows its own."""


Read = Callable[[int, int], Awaitable[bytes]]
"""Returns some bytes of what is brought, from an offset on."""


async def bring(
    segments: Sequence[SalvagedSegment],
    tables: Sequence[SalvagedTable],
    storage: AsyncChunkStorage,
    store: AsyncStore,
) -> tuple[int, int]:
    """Write all targets and the lines of tables, sealed; return bytes written and segments.

    What an earlier run wrote is continued. The bytes of a target are those of its plan, which is an
    attribute from its first moment, so what is there is always a beginning of them.

    Raises:
        SegmentExistsError: there is a segment of such a name that is not of this plan.
        CorruptDataError: chunks changed meanwhile.
    """
    store = for_keyspaces(store)  # of theirs, too: a rebuild makes keyspaces of them
    work = [(segment, target) for segment in segments for target in segment.targets]
    written = 0
    for begin in range(0, len(work), PARALLEL):
        some = work[begin : begin + PARALLEL]
        written += sum(await asyncio.gather(*(_bring(*one, storage, store) for one in some)))
    for table in tables:
        written += await _bring_table(table, store)
    return written, len(work) + len(tables)


async def _bring(
    segment: SalvagedSegment, target: SalvageTarget, storage: AsyncChunkStorage, store: AsyncStore
) -> int:
    attributes = {
        PLAN: target.plan,
        "salvage.verdict": segment.verdict.value,
        "salvage.offset": str(target.offset),
    }
    if segment.proven is not None:
        attributes["salvage.proven"] = str(segment.proven)
    if segment.attributes:
        kept = segment.attributes | attributes
        proven = "exact" if segment.attributes_proven else "guessed"
        try:
            check_limits(target.name, kept | {ATTRIBUTES: proven})
        except AttributeLimitError:
            attributes[ATTRIBUTES] = "left out"
        else:
            attributes = kept | {ATTRIBUTES: proven}
    copy = await _begun(target.name, target.plan, attributes, store)

    async def read(offset: int, length: int) -> bytes:
        at = target.offset + offset
        piece = next(piece for piece in target.pieces if piece.offset <= at < piece.end)
        return await read_piece(piece, storage, at, min(length, piece.end - at))

    return await _filled(copy, target.name, target.length, read)


async def _bring_table(table: SalvagedTable, store: AsyncStore) -> int:
    attributes = {
        PLAN: table.plan,
        "salvage.verdict": table.verdict.value,
        "salvage.version": str(table.version),
    }
    if table.proven is not None:
        attributes["salvage.proven"] = str(table.proven)
    copy = await _begun(table.target, table.plan, attributes, store)

    async def read(offset: int, length: int) -> bytes:
        call = partial(_read_file, table.lines, offset, length)
        return await store.environment.run_blocking(INDEX_POOL, call)

    return await _filled(copy, table.target, table.length, read)


def _read_file(path: Path, offset: int, length: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(length)


async def _filled(copy: AsyncSegment, name: str, length: int, read: Read) -> int:
    """Append what is missing up to ``length`` and seal; return how much that was."""
    info = await copy.info()
    position = info.length
    if position > length or (info.sealed and position != length):
        raise SegmentExistsError("the segment holds other bytes", segment=name)
    if info.sealed:
        return 0
    written = length - position
    append_bytes = min(APPEND_BYTES, copy.append_bytes_max)
    while position < length:
        data = await read(position, min(append_bytes, length - position))
        if not data:
            raise CorruptDataError("what was found changed during the salvage", where=name)
        await copy.append(data, expected_offset=position)
        position += len(data)
    await copy.seal()
    return written


async def _begun(
    name: str, plan: str, attributes: dict[str, str], store: AsyncStore
) -> AsyncSegment:
    """The segment of this name, made now or by an earlier run."""
    copy = store.segment(name)
    try:
        found = (await copy.info()).attributes
    except SegmentNotFoundError:
        return await store.create(name, attributes=attributes)
    if found.get(PLAN) != plan:
        raise SegmentExistsError(
            "a segment of this name is there, and not of this salvage", segment=name
        )
    return copy
