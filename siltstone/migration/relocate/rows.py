"""What a store names, for a new place; and which names may have other bytes at that place.

A name in place may come again, for another chunk with a higher id. So the first copy of a store
notes the highest id of such a chunk in each container. What has no higher one lay there then, and
has the same bytes for as long as it is a chunk. All others are compared by each later copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from siltstone.container.reads.chunk_rows import ChunkRows
from siltstone.pipelines.window import pack_sums

MARKS: Final = "system/copied/"
"""What the names of objects begin with that hold such an id, ``<container>-<chunk id>``."""


class Content(NamedTuple):
    """What an object is to hold.

    Attributes:
        length: bytes that are copied.
        sums: CRC32C of each block: u32[], little-endian; none of what has none.
        crc: CRC32C of all bytes; ``None`` where that is not known.
    """

    length: int
    sums: bytes = b""
    crc: int | None = None


def contents_of(rows: Iterable[ChunkRows]) -> dict[str, Content]:
    """Every chunk, by its name."""
    return {row.chunk.name: Content(row.chunk.length, pack_sums(row.sums)) for row in rows}


def mark_names(rows: Iterable[ChunkRows]) -> list[str]:
    """The names of the objects that a first copy of these chunks leaves."""
    highest: dict[int, int] = {}
    for row in rows:
        if row.chunk.in_place:
            highest[row.container] = max(row.chunk.chunk_id, highest.get(row.container, 0))
    return [f"{MARKS}{container}-{chunk_id}" for container, chunk_id in highest.items()]


def doubted(rows: Iterable[ChunkRows], found: Mapping[str, int]) -> set[str]:
    """The names of chunks of which a new place may have other bytes.

    Args:
        rows: of the store now.
        found: by the names of all that is there.
    """
    marks: dict[int, int] = {}
    for name in found:
        container, _, chunk_id = name.removeprefix(MARKS).partition("-")
        if name.startswith(MARKS) and container.isdecimal() and chunk_id.isdecimal():
            marks[int(container)] = int(chunk_id)
    return {
        row.chunk.name
        for row in rows
        if row.chunk.in_place and row.chunk.chunk_id > marks.get(row.container, 0)
    }
