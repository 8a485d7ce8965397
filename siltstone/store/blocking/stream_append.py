"""Appending a stream from a blocking caller: it reads while the piece before is made durable."""

from __future__ import annotations

import io
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

from siltstone.store.blocking.background_loop import awaited
from siltstone.store.handles.arguments import check_stream
from siltstone.store.handles.streams import (
    PIECE_BYTES,
    DurableAppends,
    StreamProgress,
    has_more,
    read_some,
)

if TYPE_CHECKING:
    from siltstone.store.blocking.background_loop import BackgroundLoop
    from siltstone.store.handles.async_segment import AsyncSegment


def append_stream(
    loop: BackgroundLoop,
    segment: AsyncSegment,
    stream: BinaryIO,
    progress: Callable[[StreamProgress], None] | None,
) -> StreamProgress:
    """Append ``stream`` to its end, one append at a time; see ``Segment.append_from``."""
    check_stream(stream)
    size = min(PIECE_BYTES, segment.append_bytes_max)
    appended = DurableAppends(segment.name, progress)
    flying: tuple[Future[int], int] | None = None
    with appended.telling():
        try:
            while True:
                piece = _next_piece(stream, size, flying[0] if flying else None)
                if flying is not None:
                    landed, flying = flying, None
                    appended.add(landed[0].result(), landed[1])
                if not piece:
                    return appended.progress
                flying = loop.submit(awaited(partial(segment.append, piece))), len(piece)
        except BaseException:
            if flying is not None and not flying[0].cancelled():
                # The stream failed, or the caller was interrupted: what is on its way still counts.
                appended.add(flying[0].result(), flying[1])
            raise


def _next_piece(stream: BinaryIO, size: int, flying: Future[int] | None) -> bytes:
    """Read the next piece; of a raw stream what is there, more only while an append runs."""
    if not isinstance(stream, io.RawIOBase):
        return read_some(stream, size)
    parts = [read_some(stream, size)]
    length = len(parts[0])
    while parts[-1] and length < size and flying is not None and not flying.done():
        if not _has_more_now(stream):
            break
        parts.append(read_some(stream, size - length))
        length += len(parts[-1])
    return b"".join(parts)


def _has_more_now(stream: io.RawIOBase) -> bool:
    try:
        return has_more(stream, 0)
    except io.UnsupportedOperation:  # without a descriptor: its next read is one of its own
        return False
