"""Which objects were taken in place, counted by their adoption."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from siltstone.container.models.imports import Adoption
from siltstone.core.records.chunk import Chunk
from siltstone.metadata.adoption_rows import adoption_pages
from siltstone.metadata.import_rows import imported_chunk_pages
from siltstone.metadata.rows import Rows


@dataclass(slots=True)
class _Counts:
    finalised: bool = True
    chunks: int = 0
    length: int = 0
    dropped: int = 0
    dropped_length: int = 0

    def add(self, chunk: Chunk) -> None:
        if chunk.references:
            self.chunks += 1
            self.length += chunk.length
        else:
            self.dropped += 1
            self.dropped_length += chunk.length


async def list_adoptions(container: int, rows: Rows) -> list[Adoption]:
    """Return all adoptions of a container, by name. Looks at the row of every imported chunk."""
    found: dict[str, _Counts] = {}
    sessions: dict[int, _Counts] = {}
    for page in adoption_pages(rows.tables):
        for row in page:
            counts = sessions[row.session_id] = found.setdefault(row.adoption, _Counts())
            counts.finalised = counts.finalised and row.finalised
        await asyncio.sleep(0)
    async for chunk in chunks_in_place(rows, sessions):
        sessions[chunk.session_id].add(chunk)
    return [
        Adoption(
            name=name,
            container=container,
            finalised=counts.finalised,
            chunks=counts.chunks,
            length=counts.length,
            dropped=counts.dropped,
            dropped_length=counts.dropped_length,
        )
        for name, counts in sorted(found.items())
    ]


async def chunks_in_place(rows: Rows, sessions: Iterable[int]) -> AsyncIterator[Chunk]:
    """Every chunk that one of ``sessions`` took in place."""
    wanted = frozenset(sessions)
    for page in imported_chunk_pages(rows.tables) if wanted else ():
        for chunk in map(rows.chunk, page):
            if chunk is not None and chunk.session_id in wanted:
                yield chunk
        await asyncio.sleep(0)
