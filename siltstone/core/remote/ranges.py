"""Answers to requests for a range of bytes: whether they are what was asked for."""

from __future__ import annotations

import re
from typing import Final

from siltstone.core.errors import ChunkOffsetError, ChunkUnavailableError

RANGE: Final = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)", re.ASCII)
PARTIAL: Final = 206
"""The status of an answer that holds a range."""


def answered_count(
    name: str,
    operation: str,
    *,
    offset: int,
    wanted: int,
    status: int,
    content_range: str,
    content_length: str,
) -> int:
    """Return how many bytes an answer holds, if it is the answer to what was asked.

    Args:
        name: of the chunk.
        operation: the verb.
        offset: the first byte that was asked for.
        wanted: how many bytes were, above 0; fewer are right at the end of the object only.
        status: of the answer.
        content_range: its header ``Content-Range``, or empty.
        content_length: its header ``Content-Length``, or empty.

    Raises:
        ChunkUnavailableError: it is another range, or none.
    """
    found = RANGE.fullmatch(content_range)
    if status == PARTIAL and found is not None:
        first, last = int(found[1]), int(found[2])
        count = last - first + 1
        is_whole = count == wanted or (found[3] != "*" and last + 1 == int(found[3]))
        if first == offset and 0 < count <= wanted and content_length == str(count) and is_whole:
            return count
    raise another_range(name, operation, status)


def another_range(name: str, operation: str, status: int | None = None) -> ChunkUnavailableError:
    """The error of an answer that is not what was asked for."""
    return ChunkUnavailableError(
        "the service sent another range than was asked for",
        chunk=name,
        operation=operation,
        status=status,
    )


def told_length(content_range: str) -> int | None:
    """The length of the object that the header of a refused range tells, if it does."""
    told = content_range.rpartition("/")[2]
    return int(told) if told.isascii() and told.isdigit() else None


def at_end(name: str, offset: int, length: int, operation: str) -> int:
    """Return 0, what there is to read at the end. Raises ``ChunkOffsetError`` beyond it."""
    if offset > length:
        raise ChunkOffsetError(chunk=name, operation=operation, expected=length, actual=offset)
    return 0
