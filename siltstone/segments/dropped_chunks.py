"""Which rows go when extents of a segment go: the plan that trim, skip and remove share. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from siltstone.core.constants import ROWS_PER_SLICE
from siltstone.core.errors import CorruptDataError
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropping:
    """Rows that go, and those that stay with fewer references.

    Attributes:
        extents: rows that go, in order.
        chunks_put: chunks that another extent still names.
        chunks_dropped: chunks that nothing names any more, as they were.
        shared: whether other extents name one of these chunks, so that its row may change by
            another segment's transaction as well.
    """

    extents: tuple[Extent, ...] = ()
    chunks_put: tuple[Chunk, ...] = ()
    chunks_dropped: tuple[Chunk, ...] = ()
    shared: bool = False


def plan_dropping(
    extents: Iterable[Extent],
    chunk_of: Callable[[int], Chunk],
    *,
    rows_max: int = ROWS_PER_SLICE,
) -> Dropping:
    """Plan to drop the first of ``extents``: as many as ``rows_max`` extents and chunks.

    Args:
        extents: in order.
        chunk_of: the row of a chunk.
        rows_max: at least 2.

    Raises:
        CorruptDataError: a chunk has fewer references than extents.
    """
    taken: list[Extent] = []
    names: Counter[int] = Counter()
    for extent in extents:
        if len(taken) + 1 + len(names) + (extent.chunk_id not in names) > rows_max:
            break
        taken.append(extent)
        names[extent.chunk_id] += 1
    kept, dropped = [], []
    for chunk_id, count in names.items():
        chunk = chunk_of(chunk_id)
        if chunk.references < count:
            raise CorruptDataError(
                "I17: fewer references than extents",
                where=chunk.name,
                references=chunk.references,
                extents=count,
            )
        if chunk.references == count:
            dropped.append(chunk)
        else:
            kept.append(replace(chunk, references=chunk.references - count))
    return Dropping(
        extents=tuple(taken),
        chunks_put=tuple(kept),
        chunks_dropped=tuple(dropped),
        shared=bool(kept),
    )
