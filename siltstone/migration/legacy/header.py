"""The header of a legacy segment: its grammar, its bytes, and what its chunks' offsets come to.

::

    header  := entry*            entry := key "=" value "&"
    maxsize := "maxsize=" int64                 in front; further ones say nothing
    chunk   := int64 "=" name                   start offset and name
    concat  := "concat=" int32 "@" int64        this many chunks of a source follow, to be shifted

Text is UTF-8. A name can hold neither ``&`` nor nothing, and nothing says how long a header is. So
one whose last append was torn ends with text that no ``&`` closes; that is kept apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from siltstone.core.errors import SiltstoneError

NO_ROLLING: Final = 2**62 - 2
"""``maxsize`` of a segment whose chunk grows for ever; versions before 0.8 wrote 2^63 - 1."""

_INT = re.compile(r"[+-]?[0-9]{1,19}")
_FIRST_TORN = re.compile(r"m(a(x(s(i(z(e(=[0-9]*)?)?)?)?)?)?)?", re.IGNORECASE)


class HeaderError(SiltstoneError):
    """A header is none, or says what cannot be.

    Attributes:
        where: the header's file.
        position: byte of the header at which the entry begins that is wrong.
    """

    def __init__(self, message: str, *, where: str, position: int) -> None:
        super().__init__(message, where=where, position=position)
        self.where = where
        self.position = position


class ChunkOrderError(HeaderError):
    """Offsets fall: this is what a source that held a concat itself makes of its target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxSize:
    """No chunk shall be longer than this many bytes; at least 1."""

    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkEntry:
    """A chunk begins here: ``offset`` as it is written, not shifted."""

    offset: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcatMarker:
    """The next ``count`` chunks are those of a source, to be shifted by ``offset`` bytes."""

    count: int
    offset: int


Entry = MaxSize | ChunkEntry | ConcatMarker


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderChunk:
    """A chunk as readers of the header know it.

    Attributes:
        start: offset in the segment of its first byte.
        name: of its file.
    """

    start: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a header says.

    Attributes:
        entries: all that a ``&`` closes, in order.
        chunks: in the order of their starts; several may have one start.
        dead_markers: concats that were begun, and whose source never came.
        missing_chunks: of the last concat, this many chunks never came, and others did.
        nested: a concat stands inside another one, which shifts its chunks wrongly.
        torn: what stands after the last ``&``; empty when the header is whole.
        torn_chunk: the chunk that ``torn`` would be if just its ``&`` were missing, or ``None``.
    """

    entries: tuple[Entry, ...]
    chunks: tuple[HeaderChunk, ...]
    dead_markers: int
    missing_chunks: int
    nested: bool
    torn: str
    torn_chunk: HeaderChunk | None

    @property
    def max_size(self) -> int | None:
        """The first ``maxsize``; ``None`` when there is none, which means no rolling."""
        return next((entry.size for entry in self.entries if isinstance(entry, MaxSize)), None)

    @property
    def rolling_bytes(self) -> int:
        """Bytes from which on a chunk gets no more; 1 to ``NO_ROLLING``."""
        size = self.max_size
        return NO_ROLLING if size is None else min(size, NO_ROLLING)


def parse_header(raw: bytes, where: str) -> Header:
    """Read a header.

    Args:
        raw: all of its bytes.
        where: its file, for messages.

    Raises:
        HeaderError: there is no entry at all, or one is wrong.
        ChunkOrderError: a chunk begins before the preceding one.
    """
    *whole, tail = raw.split(b"&")
    entries: list[Entry] = []
    shifted = _Shifted(where)
    position = 0
    for part in whole:
        if part:
            entry = _entry(part, where, position)
            entries.append(entry)
            shifted.take(entry, position)
        position += len(part) + 1
    torn = tail.decode("utf-8", errors="replace")
    if not entries and not _FIRST_TORN.fullmatch(torn):
        raise HeaderError("header holds no entry", where=where, position=0)
    torn_chunk = _torn_chunk(tail, where, position, shifted)
    return Header(
        entries=tuple(entries),
        chunks=tuple(shifted.chunks),
        dead_markers=shifted.dead + shifted.fresh,
        missing_chunks=0 if shifted.fresh else shifted.coming,
        nested=shifted.nested,
        torn=torn,
        torn_chunk=torn_chunk,
    )


def encode_header(entries: Iterable[Entry], where: str) -> bytes:
    """Write a header. Raises ``HeaderError`` for a name that it cannot hold."""
    parts: list[str] = []
    position = 0
    for entry in entries:
        if isinstance(entry, ChunkEntry):
            if not entry.name or "&" in entry.name:
                raise HeaderError(
                    f"no header can hold the name {entry.name!r}", where=where, position=position
                )
            text = f"{entry.offset}={entry.name}&"
        elif isinstance(entry, MaxSize):
            text = f"maxsize={entry.size}&"
        else:
            text = f"concat={entry.count}@{entry.offset}&"
        parts.append(text)
        position += len(text.encode("utf-8"))
    return "".join(parts).encode("utf-8")


def written_header(max_size: int, chunks: Sequence[HeaderChunk], where: str) -> bytes:
    """Write a header without concats: ``maxsize``, then each chunk where it begins.

    Raises:
        HeaderError: a name that no header can hold.
    """
    entries = (ChunkEntry(offset=chunk.start, name=chunk.name) for chunk in chunks)
    return encode_header((MaxSize(size=max_size), *entries), where)


class _Shifted:
    """Chunks one after the other, those of a source shifted to where the target ended.

    Attributes:
        chunks: so far.
        left: chunks that the last concat still waits for.
        fresh: whether none of them came yet, though some shall.
        dead: concats that were given up.
        nested: a concat began before the one around it had all of its chunks.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._shift = 0
        self._began = False
        self.chunks: list[HeaderChunk] = []
        self.left = 0
        self.fresh = False
        self.dead = 0
        self.nested = False

    def take(self, entry: Entry, position: int) -> None:
        if isinstance(entry, MaxSize):
            self._began |= self.fresh  # a source's header begins with its own
        elif isinstance(entry, ConcatMarker):
            self.nested |= self.coming > 0
            self.dead += self.fresh
            self.left, self._shift = entry.count, entry.offset
            self.fresh, self._began = entry.count > 0, False
        else:
            chunk = HeaderChunk(start=self._start(entry.offset), name=entry.name)
            if chunk.start < self._before:
                raise ChunkOrderError(
                    f"chunk {chunk.name} begins at {chunk.start}, one before it at {self._before}",
                    where=self._where,
                    position=position,
                )
            self.chunks.append(chunk)

    def preview(self, entry: ChunkEntry) -> HeaderChunk | None:
        """What ``entry`` would be after all others; ``None`` where it cannot stand."""
        shifts = self.left > 0 and not (self.fresh and entry.offset != 0)
        start = entry.offset + (self._shift if shifts else 0)
        return None if start < self._before else HeaderChunk(start=start, name=entry.name)

    @property
    def coming(self) -> int:
        """Chunks that are to follow, when a part of the source's header is there.

        After a dead marker at 0 the target's own first chunk begins at 0, like one of a source.
        """
        some = self._began or (not self.fresh and self._shift > 0)
        return self.left if some else 0

    @property
    def _before(self) -> int:
        return self.chunks[-1].start if self.chunks else 0

    def _start(self, offset: int) -> int:
        if self.fresh and offset != 0:  # the first chunk of every source begins at 0
            self.dead += 1
            self.left = 0
        self.fresh = False
        if not self.left:
            return offset
        self.left -= 1
        return offset + self._shift


def _torn_chunk(tail: bytes, where: str, position: int, shifted: _Shifted) -> HeaderChunk | None:
    if not tail:
        return None
    try:
        entry = _entry(tail, where, position)
    except HeaderError:
        return None
    return shifted.preview(entry) if isinstance(entry, ChunkEntry) else None


def _entry(part: bytes, where: str, position: int) -> Entry:
    try:
        text = part.decode("utf-8")
    except UnicodeDecodeError as error:
        raise HeaderError("entry is not UTF-8", where=where, position=position) from error
    key, sign, value = text.partition("=")
    if not (sign and key and value):
        raise HeaderError(f"{text!r} is no KEY=VALUE", where=where, position=position)
    name = key.lower()
    if name == "maxsize":
        size = _int(value, 63)
        if size is None or size < 1:
            raise HeaderError(f"{text!r} is no size", where=where, position=position)
        return MaxSize(size=size)
    if name == "concat":
        count_text, _, offset_text = value.partition("@")
        count, offset = _int(count_text, 31), _int(offset_text, 63)
        if count is None or offset is None or count < 0 or offset < 0:
            raise HeaderError(f"{text!r} is no concat", where=where, position=position)
        return ConcatMarker(count=count, offset=offset)
    number = _int(key, 63)
    if number is None:
        raise HeaderError(f"{key!r} is no offset", where=where, position=position)
    return ChunkEntry(offset=number, name=value)


def _int(text: str, bits: int) -> int | None:
    """A decimal number of a sign and this many bits; ``None`` for anything else."""
    if not _INT.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**bits) <= number < 2**bits else None
