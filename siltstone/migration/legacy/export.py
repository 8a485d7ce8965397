"""Export: segments of a store become a folder in the legacy layout.

Each run of bytes in one chunk becomes a file, so what was imported comes out in the same
pieces. Offsets stay: a truncated segment begins where it does in the store. A header is written
last, without concats; before that, no reader knows of the segment.
"""

from __future__ import annotations

import stat as modes
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from siltstone.container.models.segments import SegmentInfo
from siltstone.container.reads.same_segment import same_segment
from siltstone.core.errors import SiltstoneError
from siltstone.migration.legacy.folder_write import Span, is_begun, write_chunks, write_header
from siltstone.migration.legacy.header import NO_ROLLING, HeaderChunk, written_header
from siltstone.migration.legacy.importer import CONFLICT, REFUSED
from siltstone.migration.legacy.names import chunk_of, header_of
from siltstone.migration.legacy.plan import ORIGIN, read_origin
from siltstone.pipelines.work import FAILED, OK, SAME, ItemOutcome
from siltstone.store.blocking.segment import Segment
from siltstone.store.store import Store

NAME_BYTES_MAX: Final = 255
"""Of a part of a path, on every common file system."""


def export(store: Store, infos: Iterable[SegmentInfo], folder: Path) -> Generator[ItemOutcome]:
    """Write segments into a folder; what an earlier run wrote whole is skipped.

    Args:
        store: open, read-only suffices.
        infos: which, as they are to be written.
        folder: made if it is not there.

    Yields:
        For each segment ``ok`` with its bytes, ``same``, ``conflict`` where the folder has another
        segment of this name, ``refused`` where no header can hold its name, or ``failed``.
    """
    for info in infos:
        problem = _name_problem(info.name)
        if problem:
            yield ItemOutcome(subject=info.name, status=REFUSED, message=problem)
            continue
        try:
            yield _exported(store.segment(info.name), info, folder)
        except (SiltstoneError, OSError) as error:
            yield ItemOutcome(subject=info.name, status=FAILED, message=str(error))


def _exported(segment: Segment, info: SegmentInfo, folder: Path) -> ItemOutcome:
    spans = list(_spans(segment, info))
    same_segment(info.segment_id, segment.info())
    origin = read_origin(info.attributes.get(ORIGIN, ""))
    size = NO_ROLLING if origin is None else origin.rolling_bytes
    chunks = [HeaderChunk(start=span.start, name=chunk_of(info.name, span.start)) for span in spans]
    path = folder / header_of(info.name)
    if path.exists():
        same = path.read_bytes() == written_header(size, chunks, str(path))
        if not same or not _is_ours(segment, spans, folder):
            message = "the folder has another segment of this name, or an older export of it"
            return ItemOutcome(subject=info.name, status=CONFLICT, message=message)
        if _is_there(info, spans, folder):
            return ItemOutcome(subject=info.name, status=SAME)
    write_chunks(segment, info.segment_id, info.name, spans, folder)
    write_header(path, size, chunks, sealed=info.sealed)
    return ItemOutcome(subject=info.name, status=OK, length=info.length - info.start_offset)


def _is_ours(segment: Segment, spans: Iterable[Span], folder: Path) -> bool:
    """Whether those files that are there have the bytes of the segment, or the first of them."""
    paths = ((span, folder / chunk_of(segment.name, span.start)) for span in spans)
    return all(not path.exists() or is_begun(segment, span, path) for span, path in paths)


def _is_there(info: SegmentInfo, spans: Iterable[Span], folder: Path) -> bool:
    """Whether all files have their lengths, and the header says whether the segment is sealed."""
    sealed = not (folder / header_of(info.name)).stat().st_mode & modes.S_IWUSR
    paths = ((span, folder / chunk_of(info.name, span.start)) for span in spans)
    return sealed == info.sealed and all(
        path.exists() and path.stat().st_size == span.length for span, path in paths
    )


def _spans(segment: Segment, info: SegmentInfo) -> Iterator[Span]:
    """What becomes a chunk each; an empty one keeps the length of a segment without bytes."""
    position, end = info.start_offset, info.length
    borders = [min(chunk.start + chunk.length, end) for chunk in segment.chunks(position)]
    for border in [*borders, end]:
        if border > position:
            yield Span(start=position, length=border - position, sealed=info.sealed or border < end)
            position = border
    if info.start_offset == end > 0:
        yield Span(start=end, length=0, sealed=info.sealed)


def _name_problem(name: str) -> str:
    if "&" in name:
        return "the name holds &, which no header can hold"
    parts = name.split("/")
    if name.startswith("/") or any(part in ("", ".", "..") for part in parts):
        return "the name is no path below a folder"
    if len(PurePosixPath(header_of(name)).name.encode("utf-8")) > NAME_BYTES_MAX - 32:
        return "the name is too long for a file"
    return ""
