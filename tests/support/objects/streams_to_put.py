"""Streams that are put, and what is left of large values in a keyspace."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import BinaryIO, cast

from siltstone.objects.open_space import OpenSpace
from siltstone.objects.records.keys import LargeStatus
from siltstone.objects.value_segments import RollLimits
from tests.support.objects.large_check import large_rows, lying

LARGE = RollLimits(length=3_000, records=20, value=1_000, piece=256)
"""A value over 1,000 bytes is a segment, whose pieces of 256 bytes have a sum."""


class Stuttering(io.RawIOBase):
    """A stream that gives a few bytes at a time, and calls ``between`` before each read.

    Args:
        data: all its bytes.
        step: most bytes of one read.
        between: gets the count of bytes that were read; what it raises, the read raises.
    """

    def __init__(
        self, data: bytes, step: int, between: Callable[[int], None] = lambda _: None
    ) -> None:
        super().__init__()
        self._data = data
        self._step = step
        self._between = between
        self._position = 0

    def read(self, size: int = -1, /) -> bytes:
        self._between(self._position)
        end = self._position + (self._step if size < 0 else min(self._step, size))
        found = self._data[self._position : end]
        self._position += len(found)
        return found


def stuttering(data: bytes, step: int, between: Callable[[int], None] = lambda _: None) -> BinaryIO:
    """The same as a file."""
    return cast(BinaryIO, Stuttering(data, step, between))


async def left(space: OpenSpace) -> tuple[set[LargeStatus], int]:
    """How far the large values of a keyspace are, and how many segments they have."""
    parts = space.parts
    rows = {key: found.value async for key, found in parts.store.table(parts.names.ledger).scan()}
    statuses = {status for status, _ in large_rows(rows).values()}
    return statuses, len(await lying(parts.store, parts.names))
