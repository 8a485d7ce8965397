"""What the name of a chunk says of the segment that it was made for. Pure functions."""

from __future__ import annotations

import re
from dataclasses import dataclass

from siltstone.core.chunk_names import segment_folder
from siltstone.migration.salvage.pieces import ChunkPiece

_NAME = re.compile(r"data/c[0-9]+/e([0-9]{20})/(.+)/([0-9]{20})-([0-9a-f]{16})\.chunk")
_SHARED = "_shared"
_ESCAPE = re.compile(rb"_([0-9a-f]{2})")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkFile:
    """A chunk, by its name and length.

    Attributes:
        name: its whole name.
        length: its physical length.
        folder: the folder of its segment; ``None`` when it does not tell one: shared chunks,
            imported ones, and names that are not ours.
        start: offset of its first byte in that segment.
        epoch: of the owner that made it.
        chunk_id: its id, higher for chunks that an owner began later.
    """

    name: str
    length: int
    folder: str | None
    start: int = 0
    epoch: int = 0
    chunk_id: int = 0

    @property
    def age(self) -> tuple[int, int]:
        """Its place among the chunks of a segment, the oldest first."""
        return self.epoch, self.chunk_id

    def piece(self) -> ChunkPiece:
        """All its bytes, as those of the segment that its name tells."""
        return ChunkPiece(
            offset=self.start,
            length=self.length,
            chunk=self.name,
            chunk_offset=0,
            chunk_length=self.length,
        )


def chunk_file(name: str, length: int) -> ChunkFile:
    """Take a name of a chunk apart."""
    match = _NAME.fullmatch(name)
    if match is None or match[2] == _SHARED:
        return ChunkFile(name=name, length=length, folder=None)
    return ChunkFile(
        name=name,
        length=length,
        folder=match[2],
        start=int(match[3]),
        epoch=int(match[1]),
        chunk_id=int(match[4], 16),
    )


def name_of_folder(folder: str) -> str | None:
    """Return the segment name that a folder is of; ``None`` when it was shortened to a hash."""
    try:
        parts = [b"" if part == "_" else _plain(part) for part in folder.split("/")]
        name = b"/".join(parts).decode("utf-8")
    except (UnicodeError, ValueError):
        return None
    # What is left of a long name has a hash at its end, and looks like a name of its own.
    shortened = any(re.fullmatch(r".{100}-[0-9a-f]{16}", part) for part in folder.split("/"))
    deep = folder.count("/") == 5 and re.search(r"-[0-9a-f]{16}$", folder) is not None
    return None if shortened or deep or segment_folder(name) != folder else name


def _plain(part: str) -> bytes:
    return _ESCAPE.sub(lambda match: bytes.fromhex(match[1].decode()), part.encode("ascii"))
