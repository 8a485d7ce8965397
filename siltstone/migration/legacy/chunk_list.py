"""From the chunks of a header and the files that are there to the bytes of a segment. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile, pairwise

from siltstone.core.text import counted
from siltstone.migration.legacy.files import LegacyFile
from siltstone.migration.legacy.findings import LegacyPiece, Note, Oddity, Reason
from siltstone.migration.legacy.header import HeaderChunk


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a segment cannot be imported."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
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
        refused: why nothing but the names is told here, else ``None``.
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
    notes: tuple[Note, ...] = ()
    refused: Refused | None = None


def spans_of(chunks: Sequence[HeaderChunk], files: Mapping[str, LegacyFile]) -> ByteSpans:
    """Tell where the bytes of a segment lie.

    Args:
        chunks: as its header lists them.
        files: what is there, by the names that headers know.
    """
    names = frozenset(chunk.name for chunk in chunks)
    if not chunks:
        return ByteSpans(names=names)
    refused = _named_twice(chunks) or _ambiguous(chunks, files) or _missing_last(chunks, files)
    held = _held(chunks, files)
    refused = refused or _unfit(held, files)
    if refused is not None:
        return ByteSpans(names=names, refused=refused)
    last = chunks[-1]
    last_file = files[last.name]
    pieces: list[LegacyPiece] = []
    for chunk, length in held:
        pieces += pieces_of(files[chunk.name], chunk.start, length)
    pieces += pieces_of(last_file, last.start, last_file.length)
    listed = (part for chunk in chunks if chunk.name in files for part in files[chunk.name].parts)
    return ByteSpans(
        pieces=tuple(pieces),
        start=pieces[0].start if pieces else last.start,
        length=last.start + last_file.length,
        names=names,
        empty_keys=tuple(sorted({part.key for part in listed if not part.length})),
        last_key=last_file.key,
        last_sealed=bool(last_file.sealed),
        longest=max([last_file.length, *(length for _, length in held)]),
        open_key=next(_open_before(chunks, files), ""),
        notes=(*_bytes_between(chunks, files), *_bytes_beyond(held, files)),
    )


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


def _held(
    chunks: Sequence[HeaderChunk], files: Mapping[str, LegacyFile]
) -> list[tuple[HeaderChunk, int]]:
    """The chunks before the last one that hold bytes, from the first that is there; their lengths.

    Nothing lies between two chunks of one start; only the last one may be empty and count.
    """
    held = [
        (chunk, following.start - chunk.start)
        for chunk, following in pairwise(chunks)
        if chunk.start < following.start
    ]
    return list(dropwhile(lambda one: one[0].name not in files, held))


def _unfit(
    held: Sequence[tuple[HeaderChunk, int]], files: Mapping[str, LegacyFile]
) -> Refused | None:
    """Why the files do not hold what the header says."""
    for chunk, length in held:
        file = files.get(chunk.name)
        if file is None:
            text = f"{chunk.name} is gone, and chunks before and after it are there"
            return Refused(Reason.MISSING_CHUNK, text)
        if file.length < length:
            text = f"{file.key} has {counted(file.length, 'byte')}, and should have {length:,}"
            return Refused(Reason.SHORT_CHUNK, text)
    return None


def _bytes_between(
    chunks: Sequence[HeaderChunk], files: Mapping[str, LegacyFile]
) -> Iterator[Note]:
    """Files that hold bytes where the header leaves no room for any."""
    for chunk, following in pairwise(chunks):
        file = files.get(chunk.name)
        if chunk.start == following.start and chunk.name != following.name and file and file.length:
            text = f"no byte of {file.key}, {counted(file.length, 'byte')}, belongs to the segment"
            yield Note(oddity=Oddity.GARBAGE_TAIL, text=text)


def _bytes_beyond(
    held: Sequence[tuple[HeaderChunk, int]], files: Mapping[str, LegacyFile]
) -> Iterator[Note]:
    """Files that hold more than the header says."""
    for chunk, length in held:
        file = files[chunk.name]
        if file.length > length:
            more = counted(file.length - length, "byte")
            text = f"{file.key} has {more} that the segment has not"
            yield Note(oddity=Oddity.GARBAGE_TAIL, text=text)


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
