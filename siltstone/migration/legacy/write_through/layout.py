"""Writing on in a legacy layout: which bytes go to which file, and what the header says then. Pure.

A file is filled to ``rolling_bytes``, and the next one begins there. Nothing else decides where a
file begins. So every owner, and one that was overtaken too, puts the same bytes at the same places,
in chunks and in the header: whatever of it was done before may be done again, and late.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from siltstone.core.checksums import crc32c
from siltstone.core.chunk_storage import Capabilities
from siltstone.core.errors import ChunkError
from siltstone.core.records.legacy_row import LegacyRow
from siltstone.migration.legacy.names import chunk_of, header_of

SEALED: Final = "_sealed"
"""What the name of a sealed file ends with, where modes do not tell."""

FILE_BYTES_MAX: Final = 2**40
"""A file of a segment without rolling ends here, far below every file system's limit."""

KEY_PART_BYTES_MAX: Final = 255 - 40
"""Of a part of a segment's name: the offset of a file, and what tells its epoch, come after it."""


class LegacyChangedError(ChunkError):
    """Another program changed a file that a store writes in the legacy layout; nothing was written.

    The bytes stay in tier 1.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart:
    """Bytes of a segment that go to one file.

    Attributes:
        start: offset in the segment of the file's first byte.
        begin: of the first byte to write.
        end: after the last one.
        key: of the file.
        entry: what the header gets for it; empty when it lists the file.
    """

    start: int
    begin: int
    end: int
    key: str
    entry: str


def can_be_written(able: Capabilities) -> bool:
    """Whether a service can write a legacy layout: files of it grow, and are sealed."""
    return able.append and able.overwrite and able.seal


def name_problem(source: str) -> str:
    """Why a segment of this name cannot be written in a legacy layout; empty when it can."""
    if "&" in source:
        return "the name holds &, which no header can hold"
    if any(part in ("", ".", "..") for part in source.split("/")):
        return "the name is no path below a folder"
    if max(len(part.encode("utf-8")) for part in source.split("/")) > KEY_PART_BYTES_MAX:
        return "the name is too long for a file"
    return ""


def new_origin(row: LegacyRow) -> str:
    """What ``ORIGIN`` says of a segment that was made while the layout was written."""
    return f"0/0/open/{row.rolling_bytes}/code-only"


def header_key(row: LegacyRow) -> str:
    """Key of a segment's header, while that is open."""
    return f"{row.prefix}{header_of(row.source)}{row.suffix}"


def chunk_entry(start: int, name: str) -> str:
    """What a header says of a chunk that begins at an offset."""
    return f"{start}={name}&"


def file_bytes(row: LegacyRow) -> int:
    """Bytes that a file takes."""
    return min(row.rolling_bytes, FILE_BYTES_MAX)


def plan_parts(
    row: LegacyRow, opened: tuple[int, str] | None, begin: int, end: int, *, parts_max: int
) -> list[FilePart]:
    """Say which file takes which bytes of ``[begin, end)``.

    Args:
        row: of the segment.
        opened: start and key of the file that the bytes below ``begin`` end in, if that is one
            which the store writes.
        begin: the flushed length.
        end: above it.
        parts_max: at most this many; then they end before ``end``.
    """
    size = file_bytes(row)
    parts = []
    if opened is not None and begin < opened[0] + size:
        start, key = opened
        stop = min(end, start + size)
        parts.append(FilePart(start=start, begin=begin, end=stop, key=key, entry=""))
        begin = stop
    while begin < end and len(parts) < parts_max:
        stop = min(end, begin + size)
        if row.listed and not parts:
            key, entry = row.prefix + row.listed, ""
        else:
            name = chunk_of(row.source, begin)
            key, entry = f"{row.prefix}{name}{row.suffix}", chunk_entry(begin, name)
        parts.append(FilePart(start=begin, begin=begin, end=stop, key=key, entry=entry))
        begin = stop
    return parts


def ahead_starts(row: LegacyRow) -> range:
    """Where the files begin that a flush may have begun, and that no chunk names."""
    return range(row.ahead_start, row.ahead_end, file_bytes(row))


def reaching(row: LegacyRow, parts: Sequence[FilePart]) -> LegacyRow:
    """The row that says of the new files among ``parts`` that they may be there."""
    new = [part for part in parts if part.entry]
    if not new:
        return row
    start = row.ahead_start if row.ahead_end else new[0].start
    return replace(row, ahead_start=start, ahead_end=max(row.ahead_end, new[-1].end))


def reached(row: LegacyRow, end: int) -> LegacyRow:
    """The row when chunks name all files that begin below ``end``."""
    size = file_bytes(row)
    start = row.ahead_start + max(0, -(-(end - row.ahead_start) // size)) * size
    if start >= row.ahead_end:
        return replace(row, ahead_start=0, ahead_end=0)
    return replace(row, ahead_start=start)


def withdrawn(row: LegacyRow, start: int) -> LegacyRow:
    """The row when what begins at ``start`` is not ours, and what follows is not there."""
    if start <= row.ahead_start:
        return replace(row, ahead_start=0, ahead_end=0)
    return replace(row, ahead_end=min(row.ahead_end, start))


def header_begin(row: LegacyRow) -> str:
    """What a header begins with that is not there yet; empty for one that is."""
    if row.header_length:
        return ""
    bare = chunk_entry(0, row.source) if row.bare else ""
    return f"maxsize={row.rolling_bytes}&{bare}"


def header_ahead(
    row: LegacyRow, opened: tuple[int, str] | None, begin: int, until: int
) -> Iterator[str]:
    """What may be in the header beyond what the row says, when bytes up to ``until`` are there.

    Args:
        row: of the segment.
        opened: see ``plan_parts``.
        begin: the flushed length.
        until: the length.
    """
    size = file_bytes(row)
    first = begin
    if opened is not None:
        first = opened[0] + size
    elif row.listed:
        first = begin + size
    yield header_begin(row)
    for start in range(first, until, size):
        yield chunk_entry(start, chunk_of(row.source, start))


def with_header(row: LegacyRow, text: str) -> LegacyRow:
    """The row when ``text`` follows what the header was."""
    raw = text.encode("utf-8")
    return replace(
        row,
        header_length=row.header_length + len(raw),
        header_crc=crc32c(raw, row.header_crc),
    )


def is_ours(found: bytes | bytearray, wanted: bytes | memoryview) -> bool:
    """Whether bytes can be what was left of a write of ``wanted``, which are no fewer.

    Where they differ they are zero, as in a file that grew when the power failed.
    """
    if found == wanted[: len(found)]:
        return True
    return all(one in (0, other) for one, other in zip(found, wanted, strict=False))
