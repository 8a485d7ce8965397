"""The last block of what a job has: compared, by its sum, before the job continues after it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from siltstone.container.models.segments import SegmentInfo
from siltstone.core.checksums import crc32c
from siltstone.core.constants import BLOCK_BYTES
from siltstone.core.errors import CorruptDataError, SegmentNotFoundError, SegmentTruncatedError

READS_PARALLEL: Final = 16
"""Each may wait for a service, and holds a block in memory."""

Bytes = tuple[SegmentInfo, int, int]
"""Some bytes of a segment: first offset and end."""


def block_before(start: int, end: int) -> int:
    """Where the bytes begin that are compared before a job continues at ``end``.

    Args:
        start: the first offset that can be read.
        end: what lies beyond it is new.
    """
    return min(max(start, end - BLOCK_BYTES), end)


def last_block(start: int, length: int) -> tuple[int, int]:
    """The range of the last block of a chunk that begins at ``start`` and is not empty."""
    return start + (length - 1) // BLOCK_BYTES * BLOCK_BYTES, start + length


async def sums_of(
    ranges: Sequence[Bytes], read: Callable[[SegmentInfo, int, int], Awaitable[bytes]]
) -> list[int | CorruptDataError | None]:
    """CRC32C of each of the ranges, several read at a time.

    An error stands for damaged bytes, ``None`` for those that were truncated or deleted meanwhile.
    """
    turns = asyncio.Semaphore(READS_PARALLEL)

    async def one(info: SegmentInfo, start: int, end: int) -> int | CorruptDataError | None:
        async with turns:
            try:
                return crc32c(await read(info, start, end))
            except (SegmentNotFoundError, SegmentTruncatedError):
                return None
            except CorruptDataError as error:
                return error

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(*some)) for some in ranges]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from failed
    return [task.result() for task in tasks]
