"""From the chunks of a header and the files that are there to the bytes of a segment. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from siltstone.core.text import counted
from siltstone.migration.legacy.files import LegacyFile
from siltstone.migration.legacy.findings import LegacyPiece, Note, Oddity, Reason
from siltstone.migration.legacy.header import HeaderChunk


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a segment cannot be imported."""

    reason: Reason
    message: str


@dataclass(slots=True, kw_only=True)
class ByteSpans:
    """Where the bytes of a segment lie.

    Attributes:
        pieces: in order, without gap.
        start: first readable offset.
        length: offset after the last byte.
        names: of all chunks that the header lists.
        empty_keys: files that it lists and that hold nothing at all.
        last_key: file of the last chunk; empty without chunks.
        last_sealed: whether that one is sealed.
        longest: bytes of the longest chunk.
        open_key: file of a chunk before it that is not sealed; empty without one.
        notes: oddities.
        refused: why there are no pieces, else ``None``.
    """

    pieces: tuple[LegacyPiece, ...] = ()
    start: int = 0
    length: int = 0
    names: frozenset[str] = frozenset()
    empty_keys: tuple[str, ...] = ()
    last_key: str = ""
    last_sealed: bool = False
    longest: int = 0
    open_key: str = ""
    notes: list[Note] = field(default_factory=list)
    refused: Refused | None = None


def spans_of(chunks: Sequence[HeaderChunk], files: Mapping[str, LegacyFile]) -> ByteSpans:
    """Tell where the bytes of a segment lie.

    Args:
        chunks: as its header lists them.
        files: what is there, by the names that headers know.
    """
    spans = ByteSpans(names=frozenset(chunk.name for chunk in chunks))
    if not chunks:
        return spans
    spans.refused = (
        _named_twice(chunks) or _ambiguous(chunks, files) or _missing_last(chunks, files)
    )
    if spans.refused is not None:
        return spans
    last = chunks[-1]
    last_file = files[last.name]
    spans.last_key, spans.last_sealed = last_file.key, bool(last_file.sealed)
    spans.open_key = next(_open_before(chunks, files), "")
    # Nothing lies between two chunks of one start; only the last one may be empty and count.
    held = [
        (chunk, following.start)
        for chunk, following in pairwise(chunks)
        if chunk.start < following.start
    ]
    for chunk, following in pairwise(chunks):
        file = files.get(chunk.name)
        if chunk.start == following.start and chunk.name != following.name and file and file.length:
            text = f"no byte of {file.key}, {counted(file.length, 'byte')}, belongs to the segment"
            spans.notes.append(Note(oddity=Oddity.GARBAGE_TAIL, text=text))
    present = [index for index, (chunk, _) in enumerate(held) if chunk.name in files]
    first = present[0] if present else len(held)
    pieces: list[LegacyPiece] = []
    for chunk, end in held[first:]:
        expected = end - chunk.start
        file = files.get(chunk.name)
        if file is None:
            text = f"{chunk.name} is gone, and chunks before and after it are there"
            spans.refused = Refused(Reason.MISSING_CHUNK, text)
            return spans
        if file.length < expected:
            text = f"{file.key} has {counted(file.length, 'byte')}, and should have {expected:,}"
            spans.refused = Refused(Reason.SHORT_CHUNK, text)
            return spans
        if file.length > expected:
            more = counted(file.length - expected, "byte")
            text = f"{file.key} has {more} that the segment has not"
            spans.notes.append(Note(oddity=Oddity.GARBAGE_TAIL, text=text))
        pieces += pieces_of(file, chunk.start, expected)
        spans.longest = max(spans.longest, expected)
    size = last_file.length
    spans.longest = max(spans.longest, size)
    pieces += pieces_of(last_file, last.start, size)
    spans.pieces = tuple(pieces)
    spans.start = pieces[0].start if pieces else last.start
    spans.length = last.start + size
    listed = (part for chunk in chunks if chunk.name in files for part in files[chunk.name].parts)
    spans.empty_keys = tuple(sorted({part.key for part in listed if not part.length}))
    return spans


def pieces_of(file: LegacyFile, start: int, length: int) -> Iterator[LegacyPiece]:
    """The first bytes of a file, which lie from ``start`` on in a segment: a piece of each part."""
    end = start + length
    for part in file.parts:
        count = min(part.length, end - start)
        if count:
            yield LegacyPiece(
                key=part.key,
                start=start,
                length=count,
                physical=part.length,
                version=part.version,
            )
        start += count


def _open_before(chunks: Sequence[HeaderChunk], files: Mapping[str, LegacyFile]) -> Iterator[str]:
    """Keys of files that are open though others follow; the last one's name may occur twice."""
    last = files[chunks[-1].name]
    for chunk in chunks:
        file = files.get(chunk.name)
        if file is None:
            continue
        yield from (part.key for part in file.parts[:-1] if part.length and part.sealed is False)
        if file.sealed is False and file is not last:
            yield file.key


def _named_twice(chunks: Sequence[HeaderChunk]) -> Refused | None:
    starts: dict[str, int] = {}
    for chunk in chunks:
        before = starts.setdefault(chunk.name, chunk.start)
        if before != chunk.start:
            text = f"{chunk.name} is listed at {before} and at {chunk.start}"
            return Refused(Reason.DUPLICATE_CHUNK, text)
    return None


def _ambiguous(chunks: Sequence[HeaderChunk], files: Mapping[str, LegacyFile]) -> Refused | None:
    for chunk in chunks:
        file = files.get(chunk.name)
        if file is not None and file.rivals:
            text = f"{file.key} and {', '.join(file.rivals)} hold bytes, and stand for one chunk"
            return Refused(Reason.AMBIGUOUS_FILES, text)
        if file is not None and file.gap:
            return Refused(Reason.AMBIGUOUS_FILES, file.gap)
    return None


def _missing_last(chunks: Sequence[HeaderChunk], files: Mapping[str, LegacyFile]) -> Refused | None:
    if chunks[-1].name in files:
        return None
    if any(chunk.name in files for chunk in chunks):
        text = f"the last chunk {chunks[-1].name} is gone"
    else:
        text = "no chunk is there: merged into another segment, or deleted, up to the header"
    return Refused(Reason.MISSING_LAST_CHUNK, text)
