"""Brings chunks to an import session of a container in a test."""

from __future__ import annotations

from collections.abc import Sequence

from siltstone.container.models.imports import (
    ImportedChunk,
    ImportMode,
    ImportOutput,
    ImportTicket,
)
from siltstone.core.chunk_names import imported_chunk
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.storage.block_sums import extend_sums
from tests.support.container.container_world import Owner, World

DAY_S = 24 * 3600.0


def bring(
    storage: ChunkStorage,
    ticket: ImportTicket,
    data: Sequence[bytes],
    *,
    partition: int = 0,
    attempt: int = 0,
) -> tuple[ImportedChunk, ...]:
    """Make a chunk of each of ``data``, as a worker on another host does."""
    found = []
    for number, part in enumerate(data):
        name = imported_chunk(ticket.prefix, partition, attempt, f"{number:016x}")
        storage.create(name, [part])
        sums = tuple(extend_sums([part], 0, 0))
        found.append(ImportedChunk(name=name, length=len(part), sums=sums))
    return tuple(found)


def found(
    storage: ChunkStorage, name: str, data: bytes, *, sums: bool = True, version: str | None = None
) -> ImportedChunk:
    """An object that another program put there before."""
    storage.create(name, [data])
    return ImportedChunk(
        name=name,
        length=len(data),
        sums=tuple(extend_sums([data], 0, 0)) if sums else None,
        version=version,
    )


def gives(
    segment: str, chunks: Sequence[ImportedChunk], mode: ImportMode = ImportMode.CREATE
) -> ImportOutput:
    return ImportOutput(segment=segment, chunks=tuple(chunks), mode=mode)


async def opened(
    owner: Owner, name: str = "job", lifetime_s: float = DAY_S, adoption: str | None = None
) -> ImportTicket:
    return await owner.container.imports.open(name, lifetime_s=lifetime_s, adoption=adoption)


async def content(owner: Owner, segment: str) -> bytes:
    info = await owner.container.info(segment)
    return await owner.container.read(segment, info.start_offset, info.length)


def left(made: World) -> list[str]:
    """What lies below the prefix of all imports."""
    return made.names("import/")
