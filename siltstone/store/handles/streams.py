"""Appending a stream in pieces: how large they are, and how far it came."""

from __future__ import annotations

import errno
import io
import selectors
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO, Final

from siltstone.core.constants import MIB
from siltstone.core.errors import SegmentError, SiltstoneError

PIECE_BYTES: Final = 4 * MIB
"""Bytes of one append of a stream: large enough that the log's sync is a small part of the time."""


def read_some(stream: BinaryIO | io.RawIOBase, size: int) -> bytes:
    """Read up to ``size`` bytes; none only at the end of the stream.

    A file that does not block says ``None`` while it has nothing, which is not its end: this waits
    until it has something.

    Raises:
        BlockingIOError: it has nothing, and no descriptor to wait for.
        OSError: it cannot be read.
    """
    while (data := stream.read(size)) is None:
        try:
            has_more(stream, None)
        except (io.UnsupportedOperation, AttributeError) as error:
            raise BlockingIOError(
                errno.EAGAIN, "the stream has nothing now, and no descriptor to wait for"
            ) from error
    return data


def has_more(stream: BinaryIO | io.RawIOBase, wait_s: float | None) -> bool:
    """Whether a read would not block; waits for that up to ``wait_s``, or for ever.

    Raises ``io.UnsupportedOperation`` of a stream that has no descriptor.
    """
    with selectors.PollSelector() as selector:
        selector.register(stream.fileno(), selectors.EVENT_READ)
        return bool(selector.select(wait_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamProgress:
    """How much of a stream is durable.

    Attributes:
        offset: where its first byte begins in the segment; ``None`` before the first append.
        length: durable bytes of the stream.
        end: the segment's offset after the last of them; ``None`` before the first append.
    """

    offset: int | None = None
    length: int = 0
    end: int | None = None


class PartialAppendError(SegmentError):
    """Appending a stream failed after a part of it was durable.

    The cause is in ``__cause__``. When the outcome is unknown, the piece after ``progress.length``
    may be there too.

    Attributes:
        progress: what is durable for certain.
    """

    def __init__(self, *, segment: str, progress: StreamProgress, cause: BaseException) -> None:
        outcome = cause.outcome if isinstance(cause, SiltstoneError) else None
        super().__init__(
            f"only the first {progress.length} bytes were appended: {cause}",
            segment=segment,
            outcome=outcome,
            end=progress.end,
        )
        self.progress = progress


class DurableAppends:
    """Counts the durable appends of one stream.

    Attributes:
        progress: what is durable so far.
    """

    def __init__(self, segment: str, tell: Callable[[StreamProgress], None] | None) -> None:
        self.progress = StreamProgress()
        self._segment = segment
        self._tell = tell

    def add(self, offset: int, length: int) -> None:
        """Note an append that is durable and tell the caller."""
        first = offset if self.progress.offset is None else self.progress.offset
        self.progress = StreamProgress(
            offset=first, length=self.progress.length + length, end=offset + length
        )
        if self._tell is not None:
            self._tell(self.progress)

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Turn a failure after the first durable append into ``PartialAppendError``."""
        try:
            yield
        except (SiltstoneError, OSError) as error:
            if not self.progress.length:
                raise
            raise PartialAppendError(
                segment=self._segment, progress=self.progress, cause=error
            ) from error
