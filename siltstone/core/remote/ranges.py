"""Requests for a range of bytes, and whether an answer is the one to what was asked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from siltstone.core.errors import ChunkUnavailableError
from siltstone.core.remote.target import Target

RANGE: Final = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)", re.ASCII)
PARTIAL: Final = 206
"""The status of an answer that holds a range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeRead(Target):
    """A range of an object, as a verb asks for it.

    Attributes:
        offset: the first byte.
        length: how many bytes, fewer are right at the end of the object only; 0 asks for the end.
        version: the object must still be this one; ``None`` takes any.
    """

    offset: int
    length: int
    version: str | None = None

    @property
    def header(self) -> str:
        """The value of the header ``Range``."""
        return f"bytes={self.offset}-{self.offset + self.length - 1}"

    def answered_count(self, status: int, content_range: str, content_length: str) -> int:
        """Return how many bytes an answer holds, if it is the answer to this.

        Args:
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
            is_whole = count == self.length or (found[3] != "*" and last + 1 == int(found[3]))
            is_asked = first == self.offset and 0 < count <= self.length
            if is_asked and content_length == str(count) and is_whole:
                return count
        raise self.another(status)

    def another(self, status: int | None = None) -> ChunkUnavailableError:
        """The error of an answer that is not what was asked for."""
        reason = "the service sent another range than was asked for"
        return self.error(ChunkUnavailableError, reason, status=status)

    def broken_off(self, expected: int, actual: int) -> ChunkUnavailableError:
        """The error of an answer that ended before its last byte."""
        reason = "the answer broke off"
        return self.error(ChunkUnavailableError, reason, expected=expected, actual=actual)

    def at_end(self, length: int) -> int:
        """Return 0, what there is to read at the end of an object of ``length`` bytes.

        Raises:
            ChunkOffsetError: the range begins beyond it.
        """
        if self.offset > length:
            raise self.wrong_offset(expected=length, actual=self.offset)
        return 0


def told_length(content_range: str) -> int | None:
    """The length of the object that the header of a refused range tells, if it does."""
    told = content_range.rpartition("/")[2]
    return int(told) if told.isascii() and told.isdigit() else None
