"""Write segments into a folder in the legacy layout, so that a reader of it reads them.

A chunk is durable before a header names it, and a header is replaced whole. So whenever this ends,
the layout is one in which every segment has what it had before, or more of what it shall have.
"""

from __future__ import annotations

import os
import stat as modes
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from siltstone.container.reads.same_segment import same_segment
from siltstone.core.posix import SystemFileCalls, make_folder, sync_folder
from siltstone.core.storage.durable_writes import OUT_BYTES, write_stream_durably
from siltstone.migration.legacy.header import HeaderChunk, written_header
from siltstone.migration.legacy.names import REPLACING, chunk_of
from siltstone.store.blocking.segment import Segment

BUFFER_BYTES: Final = OUT_BYTES
_WRITABLE: Final = modes.S_IRUSR | modes.S_IWUSR | modes.S_IRGRP | modes.S_IROTH
_SEALED: Final = modes.S_IRUSR | modes.S_IRGRP | modes.S_IROTH


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Bytes of a segment that become a chunk of the legacy layout; there may be none.

    Attributes:
        start: offset in the segment.
        length: bytes.
        sealed: whether no process may add to the chunk.
    """

    start: int
    length: int
    sealed: bool


def write_chunks(
    segment: Segment,
    segment_id: int,
    name: str,
    spans: Iterable[Span],
    folder: Path,
    suffix: str = "",
) -> list[HeaderChunk]:
    """Write chunks, durably; return how a header has to list them.

    Args:
        segment: whose bytes they are.
        segment_id: its id, which tells it from a later one of the same name.
        name: of the segment in the layout.
        spans: what becomes a chunk each.
        folder: of the layout.
        suffix: what its binding puts after names.

    Raises:
        SiltstoneError: the segment cannot be read, or was deleted.
        OSError: the folder cannot be written to.
    """
    made = []
    for span in spans:
        chunk = HeaderChunk(start=span.start, name=chunk_of(name, span.start))
        path = folder / f"{chunk.name}{suffix}"
        replace_file(path, _bytes_of(segment, segment_id, span), sealed=span.sealed)
        made.append(chunk)
    return made


def write_header(path: Path, max_size: int, chunks: Sequence[HeaderChunk], *, sealed: bool) -> None:
    """Write a header, durably, in place of what is there. Raises ``HeaderError``, ``OSError``."""
    replace_file(path, [written_header(max_size, chunks, str(path))], sealed=sealed)


def replace_file(path: Path, buffers: Iterable[bytes | memoryview], *, sealed: bool) -> None:
    """Let a file have these bytes, durably, and whole or not at all. Raises ``OSError``."""
    make_folder(SystemFileCalls(), str(path.parent))
    beside = path.with_name(path.name + REPLACING)
    try:
        with beside.open("wb", buffering=0) as file:
            write_stream_durably(SystemFileCalls(), file.fileno(), buffers, 0)
        set_sealed(beside, sealed=sealed)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync_folder(SystemFileCalls(), str(path.parent))


def set_sealed(path: Path, *, sealed: bool) -> None:
    """Let a file say, durably, whether it is sealed. Raises ``OSError``."""
    with path.open("rb") as file:
        os.fchmod(file.fileno(), _SEALED if sealed else _WRITABLE)
        os.fsync(file.fileno())


def is_begun(segment: Segment, span: Span, path: Path) -> bool:
    """Whether a file holds the first bytes of a span, or all of them, and no other ones."""
    if path.stat().st_size > span.length:
        return False
    offset = span.start
    with path.open("rb") as file:
        while data := file.read(BUFFER_BYTES):
            if bytes(segment.read(offset, len(data))) != data:
                return False
            offset += len(data)
    return True


def cut(start: int, stop: int, size: int, *, sealed: bool) -> Iterator[Span]:
    """Cut ``[start, stop)`` into spans of at most ``size`` bytes; none of no byte.

    All but the last are sealed, and that is when the segment is.
    """
    for begin in range(start, stop, size):
        end = min(stop, begin + size)
        yield Span(start=begin, length=end - begin, sealed=sealed or end < stop)


def _bytes_of(segment: Segment, segment_id: int, span: Span) -> Iterator[bytes]:
    done = 0
    while done < span.length:
        data = segment.read(span.start + done, min(BUFFER_BYTES, span.length - done))
        yield data
        done += len(data)
    same_segment(segment_id, segment.info())
