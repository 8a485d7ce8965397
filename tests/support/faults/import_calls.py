"""What an import brings, and a number that no call has."""

from __future__ import annotations

from siltstone.container.models.imports import (
    ImportedChunk,
    ImportMode,
    ImportOutput,
    ImportTicket,
)
from tests.support.container.imported_chunks import bring, gives
from tests.support.faults.failing_calls import (
    Mortal,
)

Brought = list[tuple[ImportedChunk, bytes]]


Given = tuple[ImportOutput, bytes]
"""What a segment is to get, and its bytes."""


def brought(life: Mortal, ticket: ImportTicket, *lengths: int) -> Brought:
    """Chunks of these lengths; next to them lie those of an attempt that was lost."""
    storage = life.world.new_storage()
    bring(storage, ticket, [b"lost", b"too"], attempt=7)
    data = [life.data(length) for length in lengths]
    return list(zip(bring(storage, ticket, data), data, strict=True))


def given(segment: str, chunks: Brought, mode: ImportMode = ImportMode.CREATE) -> Given:
    data = b"".join(data for _, data in chunks)
    return gives(segment, [chunk for chunk, _ in chunks], mode), data


NEVER = 10**6
