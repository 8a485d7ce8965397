"""Add to segments of a legacy layout that lies below a prefix of a binding's keys.

An object is never replaced there. So a chunk is created, and a header is either created too, or
appended to where the service can do that. A chunk is durable before a header names it, and what a
header says already stays: whenever this ends, every segment is what it was, or what it shall be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import MIB
from siltstone.core.errors import ChunkNotFoundError
from siltstone.migration.legacy.findings import LegacyFinding
from siltstone.migration.legacy.header import (
    NO_ROLLING,
    ChunkEntry,
    Entry,
    HeaderChunk,
    HeaderError,
    MaxSize,
    encode_header,
    parse_header,
)
from siltstone.migration.legacy.imported import MigratedSegment
from siltstone.migration.legacy.names import Naming, chunk_of, header_of, suffix_of
from siltstone.store.blocking.segment import Segment
from siltstone.store.store import Store

CHUNK_BYTES_MAX: Final = 64 * MIB
"""A new chunk is created by one call from memory, so it is cut here."""

_COMPARED_BYTES: Final = 4 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Bytes that become a chunk, or are one since an earlier rollback."""

    start: int
    length: int
    name: str
    there: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """How a segment is written.

    Attributes:
        parts: its new chunks.
        header: key of its header.
        position: bytes of the header that are there; ``None`` when there is none.
        entries: what it gets.
    """

    parts: tuple[_Part, ...]
    header: str
    position: int | None
    entries: bytes


class CannotWriteError(Exception):
    """Why the layout cannot take the new bytes of a segment; the message says it."""


class LegacyStorageWriter:
    """Adds to segments of a layout on long-term storage.

    Args:
        storage: where the layout lies; stays the caller's.
        prefix: of its keys.
        naming: which binding wrote it.
        store: has the segments.
    """

    def __init__(self, storage: ChunkStorage, prefix: str, naming: Naming, store: Store) -> None:
        self._storage = storage
        self._prefix = prefix
        self._naming = naming
        self._store = store

    def check(self, one: MigratedSegment, finding: LegacyFinding, *, sealed: bool) -> None:
        """Check whether ``write`` can do its work; nothing is changed.

        Args:
            one: the segment.
            finding: what the layout holds of it.
            sealed: whether it shall be sealed there.

        Raises:
            CannotWriteError: it cannot.
            ChunkError, SegmentError: storage or the store did not answer.
        """
        if finding.sealed != sealed:
            raise CannotWriteError("it was sealed since, which nothing can say there")
        self._plan(one, finding)

    def write(self, one: MigratedSegment, finding: LegacyFinding) -> int:
        """Let the layout have all that the store has of a segment; return how many bytes.

        Raises:
            CannotWriteError: something got in the way since the check.
            ChunkError, SegmentError: storage or the store failed; a repeat continues.
        """
        plan = self._plan(one, finding)
        segment = self._store.segment(one.info.name)
        for part in plan.parts:
            if not part.there:
                data = segment.read(part.start, part.length)
                self._storage.create(self._prefix + part.name, [data])
        key = self._prefix + plan.header
        if plan.position is None:
            self._storage.create(key, [plan.entries])
        elif plan.entries:
            self._storage.write(key, plan.position, [plan.entries])
        return sum(part.length for part in plan.parts)

    def _plan(self, one: MigratedSegment, finding: LegacyFinding) -> _Plan:
        if one.info.start_offset > finding.length:
            text = f"bytes {finding.length:,} to {one.info.start_offset:,} were truncated since"
            raise CannotWriteError(f"{text}, and its header cannot leave out what lies before")
        suffix = suffix_of(finding.main_key, self._naming)
        parts = tuple(self._parts(one, finding, suffix))
        names = [part.name.removesuffix(suffix) for part in parts]
        new = [ChunkEntry(offset=p.start, name=n) for p, n in zip(parts, names, strict=True)]
        if finding.header_key is None:
            first = ChunkEntry(offset=0, name=finding.segment)
            header = f"{header_of(finding.segment)}{suffix}"
            every: list[Entry] = [MaxSize(size=NO_ROLLING), first, *new]
            entries = self._encoded(every, header)
            return _Plan(parts=parts, header=header, position=None, entries=entries)
        raw = self._read(finding.header_key)
        entries = self._continued(raw, new, finding.header_key)
        if entries and not self._storage.capabilities.append:
            raise CannotWriteError("its header is an object that this binding cannot append to")
        return _Plan(parts=parts, header=finding.header_key, position=len(raw), entries=entries)

    def _continued(self, raw: bytes, new: list[ChunkEntry], key: str) -> bytes:
        """What has to be appended to a header, so that it lists ``new`` after all others."""
        before = parse_header(raw, key)
        entries = self._encoded(new, key)
        torn = before.torn.encode()
        if torn and not entries.startswith(torn):
            raise CannotWriteError("its header ends in the middle of an entry")
        entries = entries[len(torn) :]
        wanted = [*before.chunks, *(HeaderChunk(start=n.offset, name=n.name) for n in new)]
        if list(parse_header(raw + entries, key).chunks) != wanted:
            raise CannotWriteError("its header waits for chunks of a concat")
        return entries

    def _encoded(self, entries: Sequence[Entry], key: str) -> bytes:
        try:
            return encode_header(entries, key)
        except HeaderError as error:
            raise CannotWriteError(str(error)) from error

    def _parts(self, one: MigratedSegment, finding: LegacyFinding, suffix: str) -> Iterator[_Part]:
        """Cut what the layout lacks; where an earlier rollback made a chunk, that is one part."""
        segment = self._store.segment(one.info.name)
        used = {piece.key for piece in finding.pieces} | set(finding.other_keys)
        most = self._storage.capabilities.chunk_bytes_max
        size = min(finding.rolling_bytes, CHUNK_BYTES_MAX, most)
        position, stop = finding.length, one.info.length
        while position < stop:
            name = f"{chunk_of(finding.segment, position)}{suffix}"
            there = self._length(name)
            if there is not None and (
                name in used
                or not 0 < there <= stop - position
                or not self._is_of(segment, position, name, there)
            ):
                raise CannotWriteError(f"{name} is in the way")
            length = min(size, stop - position) if there is None else there
            yield _Part(start=position, length=length, name=name, there=there is not None)
            position += length

    def _length(self, name: str) -> int | None:
        try:
            return self._storage.stat(self._prefix + name).length
        except ChunkNotFoundError:
            return None

    def _is_of(self, segment: Segment, start: int, name: str, length: int) -> bool:
        for offset in range(0, length, _COMPARED_BYTES):
            count = min(_COMPARED_BYTES, length - offset)
            if bytes(segment.read(start + offset, count)) != self._bytes(name, offset, count):
                return False
        return True

    def _read(self, key: str) -> bytes:
        return self._bytes(key, 0, self._storage.stat(self._prefix + key).length)

    def _bytes(self, key: str, offset: int, length: int) -> bytes:
        buffer = bytearray(length)
        count = self._storage.read_into(self._prefix + key, offset, buffer)
        return bytes(buffer[:count])
