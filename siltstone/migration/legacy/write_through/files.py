"""Files of a legacy layout: look whether they are as we left them, and only then write.

Each function here runs on a thread of the bridge, and may be repeated: what it writes depends on
nothing but acknowledged bytes and where they lie.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from siltstone.core.checksums import crc32c
from siltstone.core.chunk_storage import Buffer, ChunkStorage
from siltstone.core.constants import MIB
from siltstone.core.errors import ChunkExistsError, ChunkNotFoundError, LostDataError
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.legacy_row import LegacyRow
from siltstone.core.storage.block_reads import read_exactly
from siltstone.core.storage.cached import uncached
from siltstone.core.storage.optional_verbs import overwrite
from siltstone.migration.legacy.write_through.layout import (
    SEALED,
    FilePart,
    LegacyChangedError,
    header_key,
    is_ours,
)

COMPARED_BYTES = 4 * MIB
_RACES_MAX = 3


@dataclass(slots=True)
class SeenHeader:
    """A header as it was when it was compared last.

    Attributes:
        length: bytes of it that the row stated then.
        version: what storage said of it.
    """

    length: int = -1
    version: str = ""


def changed(what: str, key: str, **facts: Any) -> LegacyChangedError:
    """The error for a file that is not as this store left it."""
    return LegacyChangedError(
        f"another program changed the legacy layout: {what}", chunk=key, operation="look", **facts
    )


def check_before(storage: ChunkStorage, row: LegacyRow, before: Chunk | None) -> None:
    """Compare what lies before the bytes that are to be written.

    Args:
        storage: where the layout lies.
        row: of the segment.
        before: the file in place that the flushed bytes end in, if no more bytes go there.

    Raises:
        LegacyChangedError: it is gone or has another length, or a file of another epoch is there.
    """
    if before is not None:
        try:
            length = storage.stat(before.name).length
        except ChunkNotFoundError as error:
            raise changed("the last file is gone", before.name) from error
        if length != before.length:
            raise changed(
                "the last file has another length",
                before.name,
                expected=before.length,
                found=length,
            )
    if row.suffix:
        check_epochs(storage, header_key(row), row.suffix)


def check_epochs(storage: ChunkStorage, key: str, suffix: str) -> None:
    """Raise ``LegacyChangedError`` if a file of this name has another epoch, or is sealed."""
    name = key.removesuffix(suffix)
    for found in storage.list(f"{name}_"):
        if found.name != key and re.fullmatch(r"_([0-9]+|sealed)", found.name[len(name) :]):
            raise changed("a file of another epoch is there", found.name, ours=key)


def check_free(
    storage: ChunkStorage, part: FilePart, buffers: Sequence[Buffer], until: int
) -> None:
    """Look whether a new file can have the bytes of a part: it is not there, or holds them.

    Raises:
        LegacyChangedError: it holds bytes that are not the segment's.
    """
    try:
        length = storage.stat(part.key).length
    except ChunkNotFoundError:
        return
    _check_length(part, length, until)
    _compare(storage, part.key, 0, length, buffers)


def _check_length(part: FilePart, length: int, until: int) -> None:
    if part.start + length > until:
        raise changed(
            "a file is longer than its segment",
            part.key,
            segment=until - part.start,
            found=length,
        )


def write_part(
    storage: ChunkStorage, part: FilePart, buffers: Sequence[Buffer], until: int
) -> None:
    """Let a file have the bytes of a part, durably.

    Args:
        storage: where the layout lies.
        part: which bytes, of which file.
        buffers: these bytes.
        until: the segment's acknowledged length.

    Raises:
        LostDataError: the file has lost bytes that were written.
        LegacyChangedError: it holds bytes that are not the segment's.
        ChunkError: storage failed; a repeat continues.
    """
    committed = part.begin - part.start
    for _ in range(_RACES_MAX):
        try:
            length = storage.stat(part.key).length
        except ChunkNotFoundError as error:
            if committed:
                raise LostDataError(
                    "a file of the legacy layout is gone", where=part.key, needed=committed
                ) from error
            try:
                storage.create(part.key, buffers)
            except ChunkExistsError:
                continue  # an owner that was overtaken made it a moment ago
            return
        if length < committed:
            raise LostDataError(
                "a file of the legacy layout has lost bytes",
                where=part.key,
                needed=committed,
                found=length,
            )
        _check_length(part, length, until)
        _compare(storage, part.key, committed, length, buffers)
        overwrite(storage, part.key, committed, buffers)
        return
    raise changed("a file comes and goes", part.key)


def _compare(
    storage: ChunkStorage, key: str, committed: int, length: int, buffers: Sequence[Buffer]
) -> None:
    """Compare what a file holds beyond its committed bytes with what it shall hold there."""
    position = committed
    for buffer in buffers:
        view = memoryview(buffer).cast("B")
        for begin in range(0, len(view), COMPARED_BYTES):
            size = min(COMPARED_BYTES, len(view) - begin, length - position)
            if size <= 0:
                return
            found = bytearray(size)
            read_exactly(uncached(storage), key, position, memoryview(found))
            if not is_ours(found, view[begin : begin + size]):
                raise changed("a file holds other bytes", key, offset=position)
            position += size


def put_header(
    storage: ChunkStorage, row: LegacyRow, text: str, ahead: Iterator[str], seen: SeenHeader
) -> None:
    """Compare a header with what it shall be, and put ``text`` after it, durably.

    Args:
        storage: where the layout lies.
        row: says what the header was.
        text: what comes after that; empty only to compare.
        ahead: what may be there already, in order; it begins with ``text``.
        seen: how it was when it was compared last.

    Raises:
        LegacyChangedError: another program changed it.
        ChunkError: storage failed; a repeat continues.
    """
    key, raw = header_key(row), text.encode("utf-8")
    for _ in range(_RACES_MAX):
        if not _compared(storage, row, key, ahead, seen):
            if not raw:
                return
            try:
                storage.create(key, [raw])
            except ChunkExistsError:
                continue
            return
        if raw:
            overwrite(storage, key, row.header_length, [raw])
        return
    raise changed("the header comes and goes", key)


def read_header(storage: ChunkStorage, key: str) -> bytes | None:
    """All of a header, ``None`` when there is none."""
    try:
        length = storage.stat(key).length
    except ChunkNotFoundError:
        return None
    raw = bytearray(length)
    read_exactly(uncached(storage), key, 0, memoryview(raw))
    return bytes(raw)


def _compared(
    storage: ChunkStorage, row: LegacyRow, key: str, ahead: Iterator[str], seen: SeenHeader
) -> bool:
    """Whether there is a header; it is as it shall be."""
    try:
        stat = storage.stat(key)
    except ChunkNotFoundError as error:
        if row.header_length:
            raise changed("the header is gone", key) from error
        return False
    if (row.header_length, stat.version) == (seen.length, seen.version):
        return True
    raw = read_header(storage, key)
    if raw is None:
        raise changed("the header comes and goes", key)
    length = row.header_length
    if len(raw) < length or crc32c(raw[:length]) != row.header_crc:
        raise changed("the header says something else", key)
    more = raw[length:]
    wanted = b""
    while len(wanted) < len(more):
        part = next(ahead, None)
        if part is None:
            raise changed(
                "the header says more", key, expected=length + len(wanted), found=len(raw)
            )
        wanted += part.encode("utf-8")
    if not is_ours(more, wanted):
        raise changed("the header says something else", key)
    if not more:
        seen.length, seen.version = length, stat.version
    return True


def seal_files(
    storage: ChunkStorage, row: LegacyRow, last: str, text: str, seen: SeenHeader
) -> None:
    """Let the files say that a segment is sealed; the header last, since that is what counts.

    Args:
        storage: where the layout lies.
        row: of the segment, all of whose bytes are written.
        last: key of its last file; empty when it has none.
        text: what the header gets if it is not there; empty otherwise.
        seen: how the header was when it was compared last.

    Raises what ``put_header`` raises.
    """
    if row.suffix:
        _seal_by_name(storage, row, text)
        return
    key = header_key(row)
    # An owner that did all of this and died cannot repeat it: a sealed file takes no byte.
    if not text or read_header(storage, key) != text.encode("utf-8"):
        put_header(storage, row, text, iter((text,)), seen)
    if last:
        storage.seal(last)
    if row.header_length or text:
        storage.seal(key)


def _seal_by_name(storage: ChunkStorage, row: LegacyRow, text: str) -> None:
    """Give the header a name that says so; while both are there, this one counts."""
    key = header_key(row)
    sealed = f"{key.removesuffix(row.suffix)}{SEALED}"
    raw, there = read_header(storage, key), read_header(storage, sealed)
    wanted = raw if raw is not None else there
    if wanted is None and not row.header_length:
        wanted = text.encode("utf-8")
    if wanted is None:
        raise changed("the header is gone", key)
    ours = crc32c(wanted) == row.header_crc if row.header_length else wanted == text.encode("utf-8")
    if not ours:
        raise changed("the header says something else", key)
    if there is None:
        storage.create(sealed, [wanted])
    elif not is_ours(there, wanted):
        raise changed("a sealed header says something else", sealed)
    elif there != wanted:
        overwrite(storage, sealed, 0, [wanted])
    if raw is not None:
        storage.delete(key)
