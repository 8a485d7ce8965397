"""What a commit of an import looks at before anything is done: names, and what lies there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from siltstone.container.models.imports import ImportedChunk, ImportOutput, ImportSessionError
from siltstone.core.chunk_arguments import check_chunk_name
from siltstone.core.chunk_names import is_ours, session_of
from siltstone.core.constants import GIB, check_segment_name
from siltstone.core.errors import ChunkNotFoundError, CorruptDataError, LostDataError
from siltstone.core.records.import_row import PARTS_MAX, ImportRow
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.metadata.import_rows import chunk_id_of
from siltstone.metadata.rows import Rows

STATS_PARALLEL: Final = 16
IN_PLACE_BYTES_MAX: Final = 256 * GIB
"""The sums of more would not fit into one frame of the log, and an object's rows come at once."""


def check_outputs(outputs: Sequence[ImportOutput]) -> None:
    """Raise ``ValueError`` if there are too many segments, or something is named twice."""
    names = [check_segment_name(output.segment) for output in outputs]
    if len(names) > PARTS_MAX:
        raise ValueError(f"an import gives bytes to {PARTS_MAX} segments at most")
    chunks = [chunk.name for output in outputs for chunk in output.chunks]
    if len(set(names)) < len(names) or len(set(chunks)) < len(chunks):
        raise ValueError("an import names each segment and each chunk once")


def check_names(
    container: int, rows: Rows, row: ImportRow, outputs: Sequence[ImportOutput]
) -> None:
    """Compare the names of chunks with the session, and those in place with all that are known.

    Raises:
        ValueError: a chunk is neither under the session's prefix nor may it be in place.
        ImportSessionError: an object is a chunk of the store already.
    """
    for output in outputs:
        for chunk in output.chunks:
            if session_of(chunk.name, container) == row.session_id:
                if not chunk.length:
                    raise ValueError(f"a chunk that was written has bytes: {chunk.name}")
                if chunk.sums is None:
                    raise ValueError(f"a chunk that was written has sums: {chunk.name}")
            elif not row.adoption or is_ours(chunk.name):
                raise ValueError(f"not a chunk of this session: {chunk.name}")
            else:
                _check_object(rows, row, chunk)


def _check_object(rows: Rows, row: ImportRow, chunk: ImportedChunk) -> None:
    check_chunk_name(chunk.name, "import")
    if chunk.length > IN_PLACE_BYTES_MAX:
        raise ValueError(f"an object in place has {IN_PLACE_BYTES_MAX} bytes at most: {chunk.name}")
    chunk_id = chunk_id_of(rows.tables, chunk.name)
    known = None if chunk_id is None else rows.pending_chunk(chunk_id)
    if known is not None and known.session_id != row.session_id:
        raise already_known(row.name, chunk.name)


def already_known(session: str, name: str) -> ImportSessionError:
    """The error of an object that is a chunk already, of whatever container."""
    return ImportSessionError(
        "the object is a chunk of the store already; one whose segment was deleted can be released",
        session=session,
        chunk=name,
    )


async def check_chunks(storage: AsyncChunkStorage, outputs: Sequence[ImportOutput]) -> None:
    """Every chunk must lie there as described.

    Raises:
        LostDataError: it does not lie there.
        CorruptDataError: it has another length, or has changed since it was looked at.
        ChunkError: long-term storage did not answer.
    """
    limit = asyncio.Semaphore(STATS_PARALLEL)

    async def one(chunk: ImportedChunk) -> None:
        try:
            async with limit:
                stat = await storage.stat(chunk.name)
        except ChunkNotFoundError as error:
            raise LostDataError("imported chunk is not there", where=chunk.name) from error
        if stat.length != chunk.length:
            raise CorruptDataError(
                "imported chunk has another length",
                where=chunk.name,
                expected=chunk.length,
                actual=stat.length,
            )
        if chunk.version not in (None, stat.version):
            raise CorruptDataError("object was changed during the import", where=chunk.name)

    try:
        async with asyncio.TaskGroup() as group:
            for output in outputs:
                for chunk in output.chunks:
                    group.create_task(one(chunk))
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from failed
