"""Writing what was appended since into a legacy layout that is a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from siltstone.core.posix import SystemFileCalls, sync_folder
from siltstone.migration.legacy.findings import LayoutFindings, LegacyFinding
from siltstone.migration.legacy.folder_write import (
    Span,
    cut,
    is_begun,
    set_sealed,
    write_chunks,
    write_header,
)
from siltstone.migration.legacy.header import NO_ROLLING, HeaderChunk, parse_header
from siltstone.migration.legacy.imported import (
    MigratedSegment,
)
from siltstone.migration.legacy.names import (
    Naming,
    chunk_of,
    header_of,
    read_name,
    suffix_of,
)
from siltstone.migration.legacy.write_through.layout import FILE_BYTES_MAX, SEALED
from siltstone.store.blocking.segment import Segment
from siltstone.store.store import Store

WAY_OUT: Final = "migrate export writes the segment elsewhere; then delete it here, and repeat"
"""What to do with a segment that cannot be written back."""


class FolderWriter:
    """Adds to segments of a layout in a folder."""

    def __init__(self, folder: Path, layout: LayoutFindings, store: Store) -> None:
        self._folder = folder
        self._naming = layout.naming
        self._store = store
        self._used = {piece.key for found in layout.segments for piece in found.pieces}

    def write(self, one: MigratedSegment, finding: LegacyFinding) -> int:
        """Let the layout have all that the store has of a segment; return how many bytes."""
        suffix = suffix_of(finding.main_key, self._naming)
        key = finding.header_key or f"{header_of(finding.segment)}{suffix}"
        header = self._folder / key
        spans = _lacking(one, finding)
        if spans:
            chunks, rolling = self._listed(finding)
            if spans[0].start > finding.length:
                chunks = []  # they end before the segment begins: they stay, and no header has them
            segment = self._store.segment(one.info.name)
            for span in spans:
                self._check_free(segment, f"{chunk_of(finding.segment, span.start)}{suffix}", span)
            segment_id = one.info.segment_id
            made = write_chunks(segment, segment_id, finding.segment, spans, self._folder, suffix)
            names = {chunk.name for chunk in made}
            kept = [chunk for chunk in chunks if chunk.name not in names]
            write_header(header, rolling, [*kept, *made], sealed=one.info.sealed)
        if one.info.sealed:
            self._seal(finding, header if header.exists() else None)
        return sum(span.length for span in spans)

    def _check_free(self, segment: Segment, key: str, span: Span) -> None:
        """Let only what an earlier rollback began be overwritten. Raises ``OSError``."""
        path = self._folder / key
        if not path.exists():
            return
        if key in self._used or not is_begun(segment, span, path):
            raise FileExistsError(f"{path} is in the way; {WAY_OUT}")

    def _listed(self, finding: LegacyFinding) -> tuple[list[HeaderChunk], int]:
        """What the header lists, and its limit; of a segment without one, its file."""
        if finding.header_key is None:
            return [HeaderChunk(start=0, name=finding.segment)], NO_ROLLING
        path = self._folder / finding.header_key
        header = parse_header(path.read_bytes(), str(path))
        chunks = list(header.chunks)
        if header.torn_chunk is not None and header.torn_chunk.name.startswith(finding.segment):
            known = {(piece.start, self._name(piece.key)) for piece in finding.pieces}
            torn = header.torn_chunk
            chunks += [torn] if (torn.start, torn.name) in known else []
        return chunks, header.max_size or NO_ROLLING

    def _name(self, key: str) -> str:
        """A file's name as headers know it."""
        known = read_name(key, self._naming)
        assert known is not None, "it was found under this name"
        return known.name

    def _seal(self, finding: LegacyFinding, header: Path | None) -> None:
        path = header or self._folder / finding.main_key
        if self._naming is Naming.FILES:
            set_sealed(path, sealed=True)
            return
        known = read_name(path.name, self._naming)
        if known is not None and not known.sealed:
            path.replace(path.with_name(f"{known.name}{SEALED}"))
            sync_folder(SystemFileCalls(), str(path.parent))


def _lacking(one: MigratedSegment, finding: LegacyFinding) -> list[Span]:
    """What the layout lacks of a segment. One that begins beyond its end has a chunk of its own."""
    begin = max(finding.length, one.info.start_offset)
    size = min(finding.rolling_bytes, FILE_BYTES_MAX)
    spans = list(cut(begin, one.info.length, size, sealed=one.info.sealed))
    if not spans and begin > finding.length:
        return [Span(start=begin, length=0, sealed=one.info.sealed)]
    return spans
