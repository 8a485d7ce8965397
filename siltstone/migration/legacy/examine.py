"""From the files of a legacy layout to what each of its segments is, byte for byte.

A header says where chunks begin; files say how long they are. A chunk ends where the next one
begins, the last one with its file. What is not there at the head was truncated. All else that does
not add up is a refusal: no segment is imported with a byte that may not be its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final

from siltstone.core.constants import MIB
from siltstone.core.errors import ChunkError
from siltstone.core.records.envelope import HEADER_BYTES, RecordKind, claimed_kind
from siltstone.core.text import counted
from siltstone.migration.legacy.chunk_list import ByteSpans, Refused, pieces_of, spans_of
from siltstone.migration.legacy.files import LegacyFile, LegacyFiles, resolve
from siltstone.migration.legacy.findings import (
    ImportVerdict,
    LayoutFindings,
    LegacyFinding,
    Note,
    Oddity,
    Reason,
)
from siltstone.migration.legacy.header import (
    NO_ROLLING,
    ChunkOrderError,
    Header,
    HeaderChunk,
    HeaderError,
    parse_header,
)
from siltstone.migration.legacy.links import Links, links_of
from siltstone.migration.legacy.names import HEADER, LegacyLayoutError, naming_of, segment_of_chunk
from siltstone.migration.legacy.shared import settle_shared
from siltstone.migration.source.places import LegacyPlace, PlacedFile
from siltstone.store.manifest import MANIFEST_NAME

HEADER_BYTES_MAX: Final = 256 * MIB
"""Of some three million chunks; a longer file is no header."""


def examine(place: LegacyPlace, known: Collection[str] = ()) -> LayoutFindings:
    """Look at every file of a place, read every header, and write nothing.

    Args:
        place: where they lie.
        known: segments that came from there, see ``naming_of``.

    Raises:
        LegacyLayoutError: no file is of a legacy layout, several layouts are mixed, a store lies
            there too, or the place is a part of a layout, or more than it.
        OSError, ChunkError: the place cannot be listed.
    """
    found = list(place.files())
    store = next((file.key for file in found if _is_store(place, file)), None)
    if store is not None:
        raise LegacyLayoutError(
            "a store lies there as well: give a folder without it", where=place.where, file=store
        )
    naming = naming_of([file.key for file in found], place.where, known)
    files = resolve(found, naming)
    links = links_of(found, naming)
    examiner = _Examiner(place, files, links)
    findings = settle_shared(list(links.settle(examiner.findings())))
    return LayoutFindings(
        where=place.where,
        naming=naming,
        segments=tuple(sorted(findings, key=lambda finding: finding.segment)),
        strays=tuple(sorted((*files.strays, *examiner.strays, *links.strays))),
        missing_sealed=tuple(sorted(place.told_sealed.difference(file.key for file in found))),
    )


def _is_store(place: LegacyPlace, file: PlacedFile) -> bool:
    if file.is_link or f"/{file.key}"[-len(MANIFEST_NAME) - 1 :] != f"/{MANIFEST_NAME}":
        return False
    head = bytearray(HEADER_BYTES)
    try:
        place.read_into(file.key, 0, memoryview(head))
    except (OSError, ChunkError):
        return False
    return claimed_kind(head) == RecordKind.STORE_MANIFEST


@dataclass(frozen=True, slots=True)
class _Parsed:
    """A header that was read: what it says, or why it cannot be taken."""

    header: Header | None
    refused: Refused | None


class _Examiner:
    """Looks at the files of one place."""

    def __init__(self, place: LegacyPlace, files: LegacyFiles, links: Links) -> None:
        self._place = place
        self._links = links
        self._files = files.by_name
        self._ignored = files.ignored
        self._chunks_of: dict[str, list[tuple[int, LegacyFile]]] = {}
        self.strays: list[str] = []

    def findings(self) -> list[LegacyFinding]:
        """One for each segment; fills ``strays``."""
        for name, file in self._files.items():
            made = segment_of_chunk(name)
            if made is not None:
                self._chunks_of.setdefault(made[0], []).append((made[1], file))
        headers = {
            name.removesuffix(HEADER): file
            for name, file in self._files.items()
            if name.endswith(HEADER) and name != HEADER
        }
        parsed = {
            segment: self._parse(file) for segment, file in headers.items() if file.length > 0
        }
        self._check_folder(parsed)
        listed = {
            chunk.name
            for each in parsed.values()
            if each.header is not None
            for chunk in (*each.header.chunks, *_taken(each.header))
        }
        found = [
            self._with_header(segment, headers[segment], each, listed)
            for segment, each in parsed.items()
        ]
        found += [
            self._empty_header(segment, file)
            for segment, file in headers.items()
            if segment not in parsed and segment not in self._files
        ]
        found += self._bare(headers, parsed, listed)
        return found

    def _check_folder(self, parsed: dict[str, _Parsed]) -> None:
        """Check that headers name files from this place, and not all from one above or below."""
        names = {
            segment: each.header.chunks[-1].name
            for segment, each in parsed.items()
            if each.header is not None and each.header.chunks
        }
        if not names or not all(self._is_displaced(*one) for one in names.items()):
            return
        segment, name = next(iter(names.items()))
        raise LegacyLayoutError(
            "headers name their files from another folder: give the one from which they do",
            where=self._place.where,
            header=segment + HEADER,
            named=name,
        )

    def _is_displaced(self, segment: str, chunk: str) -> bool:
        made = segment_of_chunk(chunk)
        if (
            made is None
            or chunk in self._files
            or segment + chunk[len(made[0]) :] not in self._files
        ):
            return False
        return made[0].endswith(f"/{segment}") or segment.endswith(f"/{made[0]}")

    # --- segments with a header -------------------------------------------------------------------

    def _parse(self, file: LegacyFile) -> _Parsed:
        if file.length > HEADER_BYTES_MAX:
            text = f"{file.key} has {counted(file.length, 'byte')}, more than a header can have"
            return _Parsed(None, Refused(Reason.BAD_HEADER, text))
        raw = bytearray()
        try:
            for part in file.parts:
                read = bytearray(part.length)
                raw += read[: self._place.read_into(part.key, 0, memoryview(read))]
        except (OSError, ChunkError) as error:
            return _Parsed(None, Refused(Reason.UNREADABLE, f"{file.key}: {_told(error)}"))
        try:
            return _Parsed(parse_header(bytes(raw), file.key), None)
        except ChunkOrderError as error:
            text = f"{error}; a source that itself held a concat does this"
            return _Parsed(None, Refused(Reason.NESTED_CONCAT, text))
        except HeaderError as error:
            return _Parsed(None, Refused(Reason.BAD_HEADER, str(error)))

    def _with_header(
        self, segment: str, file: LegacyFile, parsed: _Parsed, listed: set[str]
    ) -> LegacyFinding:
        refused = _name_problem(segment) or parsed.refused or _rivals(file)
        if refused is None and file.sealed is None:
            text = f"nothing tells whether {file.key} is sealed"
            refused = Refused(Reason.SEALED_UNKNOWN, text)
        header = parsed.header
        if refused is not None or header is None:
            assert refused is not None, "what cannot be parsed is refused"
            return _refusal(segment, file.key, refused)
        if not header.entries:
            torn = self._first_entry_torn(segment, file, header)
            if torn is not None:
                return torn
        chunks = [*header.chunks, *self._torn(segment, header)]
        spans = spans_of(chunks, self._files)
        refused = self._links.refused(chunks, self._files) or _span_problem(header, spans)
        if refused is not None:
            return _refusal(segment, file.key, refused)
        notes = [*file.notes, *self._notes(segment, header, spans, file, listed)]
        return LegacyFinding(
            segment=segment,
            verdict=ImportVerdict.IMPORTABLE,
            pieces=spans.pieces,
            start=spans.start,
            length=spans.length,
            sealed=bool(file.sealed),
            rolling_bytes=header.rolling_bytes,
            header_key=file.key,
            other_keys=(*spans.empty_keys, *(part.key for part in file.parts[:-1])),
            notes=tuple(notes),
        )

    def _first_entry_torn(
        self, segment: str, file: LegacyFile, header: Header
    ) -> LegacyFinding | None:
        """What a header that holds no whole entry comes to, unless the original reads it."""
        if any(chunk.length for _, chunk in self._chunks_of.get(segment, ())):
            text = f"{file.key} is torn in its first entry, though chunks lie there"
            return _refusal(segment, file.key, Refused(Reason.BAD_HEADER, text))
        return None if header.torn[-1:].isdecimal() else self._absent(segment, file)

    def _torn(self, segment: str, header: Header) -> tuple[HeaderChunk, ...]:
        """The torn entry, if only its end is missing: the original writes there too."""
        chunk = header.torn_chunk
        whole = chunk is not None and segment_of_chunk(chunk.name) == (segment, chunk.start)
        return (chunk,) if chunk is not None and whole and chunk.name in self._files else ()

    def _notes(
        self,
        segment: str,
        header: Header,
        spans: ByteSpans,
        file: LegacyFile,
        listed: set[str],
    ) -> Iterable[Note]:
        if segment + HEADER in self._ignored:
            text = f"{self._ignored[segment + HEADER]} was never finished"
            yield Note(oddity=Oddity.REPLACING, text=text)
        if header.torn:
            yield Note(oddity=Oddity.TORN_HEADER, text=f"ends with {header.torn!r}")
        if header.dead_markers:
            text = f"{counted(header.dead_markers, 'concat')} began and did not take place"
            yield Note(oddity=Oddity.FAILED_CONCAT, text=text)
        yield from spans.notes
        if spans.start and file.sealed:
            text = f"sealed and cut at a chunk, up to {spans.start}: truncated, or half deleted"
            yield Note(oddity=Oddity.MAYBE_HALF_DELETED, text=text)
        elif spans.start:
            yield Note(oddity=Oddity.TRUNCATED, text=f"begins at {spans.start}")
        if spans.open_key:
            text = f"{spans.open_key} is open though another chunk follows: a copy that keeps no "
            text += "modes loses what is sealed"
            yield Note(oddity=Oddity.OPEN_CHUNK, text=text)
        if spans.last_sealed and not file.sealed:
            text = f"{spans.last_key} is sealed, the segment is not"
            yield Note(oddity=Oddity.LAST_CHUNK_SEALED, text=text)
        if spans.longest > header.rolling_bytes:
            text = f"a chunk has {counted(spans.longest, 'byte')}, the limit is "
            text += f"{header.rolling_bytes:,}"
            yield Note(oddity=Oddity.LONG_CHUNK, text=text)
        for start, chunk in sorted(self._chunks_of.get(segment, ()), key=lambda one: one[0]):
            if chunk.name not in listed and chunk.name not in spans.names:
                text = f"{chunk.key} at {start}, {counted(chunk.length, 'byte')}, is in no header"
                yield Note(oddity=Oddity.UNLISTED_CHUNK, text=text)

    def _empty_header(self, segment: str, file: LegacyFile) -> LegacyFinding:
        if any(chunk.length for _, chunk in self._chunks_of.get(segment, ())):
            text = f"{file.key} is empty, though chunks lie there"
            return _refusal(segment, file.key, Refused(Reason.EMPTY_HEADER, text))
        return self._absent(segment, file)

    def _absent(self, segment: str, file: LegacyFile) -> LegacyFinding:
        note = Note(oddity=Oddity.EMPTY_HEADER, text=f"{file.key} was never written")
        return LegacyFinding(
            segment=segment,
            verdict=ImportVerdict.ABSENT,
            header_key=file.key,
            message="its creation died half-way",
            notes=(note,),
        )

    # --- segments without one ---------------------------------------------------------------------

    def _bare(
        self, headers: dict[str, LegacyFile], parsed: dict[str, _Parsed], listed: set[str]
    ) -> Iterable[LegacyFinding]:
        """Segments without a header; what is none of them goes to ``strays``."""
        self.strays += self._ignored.values()
        for name, file in self._files.items():
            self.strays += file.empty_rivals
            if name.endswith(HEADER) or name in listed:
                continue
            made = segment_of_chunk(name)
            if made is not None:
                if made[0] not in parsed:
                    self.strays += (part.key for part in file.parts)
            elif name in parsed:
                self.strays += (part.key for part in file.parts)
            else:
                yield self._bare_segment(name, file, headers.get(name))

    def _bare_segment(
        self, name: str, file: LegacyFile, header: LegacyFile | None
    ) -> LegacyFinding:
        refused = _name_problem(name) or _rivals(file)
        if refused is None and file.sealed is None:
            text = f"nothing tells whether {file.key} is sealed"
            refused = Refused(Reason.SEALED_UNKNOWN, text)
        if refused is not None:
            return _refusal(name, None, refused)
        notes = [*file.notes, Note(oddity=Oddity.NO_HEADER, text="one file, made before rolling")]
        if header is not None:
            text = f"{header.key} was never written"
            notes.append(Note(oddity=Oddity.EMPTY_HEADER, text=text))
        return LegacyFinding(
            segment=name,
            verdict=ImportVerdict.IMPORTABLE,
            pieces=tuple(pieces_of(file, 0, file.length)),
            length=file.length,
            sealed=bool(file.sealed),
            rolling_bytes=NO_ROLLING,
            other_keys=tuple(part.key for part in file.parts if not part.length),
            notes=tuple(notes),
        )


def _refusal(segment: str, header_key: str | None, refused: Refused) -> LegacyFinding:
    return LegacyFinding(
        segment=segment,
        verdict=ImportVerdict.REFUSED,
        reason=refused.reason,
        message=refused.message,
        header_key=header_key,
    )


def _name_problem(segment: str) -> Refused | None:
    if "&" in segment:
        return Refused(Reason.BAD_NAME, "the name holds &, which no header can hold")
    return None


def _rivals(file: LegacyFile) -> Refused | None:
    if file.gap:
        return Refused(Reason.AMBIGUOUS_FILES, file.gap)
    if not file.rivals:
        return None
    text = f"{file.key} and {', '.join(file.rivals)} hold bytes, and stand for one file"
    return Refused(Reason.AMBIGUOUS_FILES, text)


def _span_problem(header: Header, spans: ByteSpans) -> Refused | None:
    if header.missing_chunks:
        text = f"not in the header: {counted(header.missing_chunks, 'chunk')} of the last concat"
        return Refused(Reason.UNFINISHED_CONCAT, text)
    if spans.refused is not None and header.nested:
        text = f"a source that itself held a concat was merged: {spans.refused.message}"
        return replace(spans.refused, reason=Reason.NESTED_CONCAT, message=text)
    if header.nested and any(note.oddity is Oddity.GARBAGE_TAIL for note in spans.notes):
        text = "a source that itself held a concat was merged, and chunks do not fit"
        return Refused(Reason.NESTED_CONCAT, text)
    return spans.refused


def _taken(header: Header) -> tuple[HeaderChunk, ...]:
    return () if header.torn_chunk is None else (header.torn_chunk,)


def _told(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)
