"""What must hold of rows and chunks at any time, as functions for ``check`` and the tests.

Each raises ``CorruptDataError`` whose message begins with the number of the invariant. Pure
functions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from siltstone.core.chunk_names import epoch_of
from siltstone.core.chunk_storage import ChunkStat
from siltstone.core.errors import CorruptDataError, LostDataError
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent
from siltstone.core.records.layout import Layout
from siltstone.core.storage.block_sums import block_count


def check_growth(before: Chunk, after: Chunk) -> None:
    """I1: bytes below the committed length never change, so a row only grows, and ends closed."""
    same = replace(after, length=before.length, closed=before.closed, references=before.references)
    if same != before or after.length < before.length:
        raise CorruptDataError("I1: a chunk became another one", where=before.name)
    if before.closed and (not after.closed or after.length > before.length):
        raise CorruptDataError("I1: a closed chunk was written", where=before.name)


def check_chunk(chunk: Chunk, stat: ChunkStat) -> None:
    """I2: the committed length is not above the physical length; in place, they are equal.

    An open one in place is still written, so it may be longer: A20 is its rule.

    Raises:
        LostDataError: the chunk is shorter.
        CorruptDataError: an object in place is longer: another program has changed it.
    """
    if stat.length < chunk.length:
        raise LostDataError(
            "I2: chunk is shorter than its committed length",
            where=chunk.name,
            needed=chunk.length,
            found=stat.length,
        )
    if chunk.in_place and chunk.closed and stat.length != chunk.length:
        raise CorruptDataError(
            "I2: an object in place is longer than when it was adopted",
            where=chunk.name,
            expected=chunk.length,
            found=stat.length,
        )


def check_epoch(chunk: Chunk) -> None:
    """I3: a chunk is written by the one epoch that its name states; an adopted one by none."""
    if chunk.adopted:
        if chunk.epoch != 0:
            raise CorruptDataError("I3: an adopted chunk has an epoch", where=chunk.name)
    elif epoch_of(chunk.name) != chunk.epoch:
        raise CorruptDataError(
            "I3: a chunk has another epoch than its name", where=chunk.name, epoch=chunk.epoch
        )


def check_layout(layout: Layout, extents: Sequence[Extent]) -> None:
    """I6: extents are contiguous from the storage start to the storage length."""
    where = f"segment {layout.segment_id}"
    position = layout.storage_start
    for extent in extents:
        if extent.segment_id != layout.segment_id or extent.length < 1:
            raise CorruptDataError("I6: impossible extent", where=where, start=extent.start)
        if extent.start != position:
            raise CorruptDataError(
                "I6: extents are not contiguous", where=where, start=extent.start, end=position
            )
        position = extent.end
    if position != layout.storage_length:
        raise CorruptDataError(
            "I6: extents end elsewhere than the layout",
            where=where,
            end=position,
            storage_length=layout.storage_length,
        )


def check_placed(layout: Layout, placed: Sequence[Extent]) -> None:
    """I6: what a concat placed and did not show yet follows the storage length without gap."""
    position = layout.storage_length
    for extent in placed:
        if extent.start != position or extent.length < 1:
            raise CorruptDataError(
                "I6: extents after the layout are not contiguous",
                where=f"segment {layout.segment_id}",
                start=extent.start,
                end=position,
            )
        position = extent.end


def check_last_chunk(layout: Layout, extents: Sequence[Extent], chunk: Chunk | None) -> None:
    """I6: the chunk that the next flush may append to is open and ends with the last extent.

    Args:
        layout: the row.
        extents: at least the last of them.
        chunk: the row of ``layout.last_chunk_id``.
    """
    if layout.last_chunk_id == 0:
        return
    where = f"segment {layout.segment_id}"
    if chunk is None or chunk.closed or (chunk.adopted and not chunk.in_place) or not extents:
        raise CorruptDataError("I6: the last chunk is not open", where=where)
    last = extents[-1]
    if last.chunk_id != chunk.chunk_id or last.chunk_offset + last.length != chunk.length:
        raise CorruptDataError("I6: the last chunk does not end with the segment", where=where)


def check_sums(chunk: Chunk, sums: Sequence[int]) -> None:
    """I14: what is read can be verified: a chunk has a sum for each of its blocks.

    One in place may have none at all, until they are recorded.
    """
    if chunk.in_place and not sums:
        return
    if len(sums) != block_count(chunk.length):
        raise CorruptDataError(
            "I14: a chunk has a wrong count of sums",
            where=chunk.name,
            length=chunk.length,
            count=len(sums),
        )


def check_names(chunks: Iterable[Chunk]) -> None:
    """I16: no two chunks have one name."""
    names = Counter(chunk.name for chunk in chunks)
    for name, count in names.most_common(1):
        if count > 1:
            raise CorruptDataError("I16: a name is used twice", where=name, count=count)


def check_references(chunks: Mapping[int, Chunk], extents: Iterable[Extent]) -> None:
    """I17: the references of a chunk are the extents that name it, and each lies within it.

    Args:
        chunks: all rows, by id; one without references waits for its task.
        extents: all extents of all segments.
    """
    counts: Counter[int] = Counter()
    for extent in extents:
        chunk = chunks.get(extent.chunk_id)
        if chunk is None:
            raise CorruptDataError(
                "I17: an extent names no chunk", where=f"chunk {extent.chunk_id}"
            )
        if extent.chunk_offset < 0 or extent.chunk_offset + extent.length > chunk.length:
            raise CorruptDataError(
                "I2: an extent reaches beyond its chunk", where=chunk.name, start=extent.start
            )
        counts[extent.chunk_id] += 1
    for chunk_id, chunk in chunks.items():
        if counts[chunk_id] != chunk.references:
            raise CorruptDataError(
                "I17: references are not the extents that name a chunk",
                where=chunk.name,
                references=chunk.references,
                extents=counts[chunk_id],
            )
