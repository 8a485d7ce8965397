"""Cuts of runs into ranges of keys, for splits of a snapshot and for items of a large merge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from siltstone.collections.rows.open_part import open_part
from siltstone.collections.rows.row_schema import RowSchema
from siltstone.collections.rows.stored_run import Bounds, Piece, ReadPart, reader_of


def key_ranges(
    runs: Sequence[Sequence[Piece]],
    schemas: Mapping[int, RowSchema],
    read: ReadPart | None,
    size_bytes: int,
) -> list[Bounds]:
    """Return ranges of keys that together are all keys, in order.

    Args:
        runs: parts in the order of keys.
        schemas: by id, those of the parts.
        read: reads footers of parts that are larger than a range; ``None`` means that ranges are
            cut at bounds of parts alone.
        size_bytes: of encoded rows in a range, about. A key, and keys whose first 32 bytes are
            alike, are in one range, of any size.

    Raises:
        CorruptDataError: a footer is not what was written.
        Exception: what ``read`` raises.
    """
    cuts: list[bytes] = []
    size = 0
    for first, length in sorted(_starts(runs, schemas, read, size_bytes)):
        if size >= size_bytes and first > (cuts[-1] if cuts else b""):
            cuts.append(first)
            size = 0
        size += length
    lows, highs = (None, *cuts), (*cuts, None)
    return [Bounds(low, high) for low, high in zip(lows, highs, strict=True)]


def _starts(
    runs: Sequence[Sequence[Piece]],
    schemas: Mapping[int, RowSchema],
    read: ReadPart | None,
    size_bytes: int,
) -> Iterator[tuple[bytes, int]]:
    """Bounds of first keys, of parts or of their row groups, and how many bytes these have."""
    for run in runs:
        for piece in run:
            part = piece.part
            if read is None or part.inline is not None or part.length <= size_bytes:
                yield part.key_min, part.length
                continue
            opened = open_part(part, schemas, reader_of(read, piece), where=piece.where)
            yield from zip(opened.group_bounds, opened.group_bytes, strict=True)
