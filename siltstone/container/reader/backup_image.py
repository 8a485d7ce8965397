"""All that is acknowledged of a container at one moment, so that another one can begin from it.

The index has every table, the frames have the bytes that lie in no chunk yet, and the chunks have
all others. Nothing here has a history: neither journal nor table log is part of it.

The call of a read-only container that takes an image of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from siltstone.container.reader.reader_view import LogFacts
from siltstone.container.reads.chunk_rows import ChunkRows, named_chunks
from siltstone.container.state.live_segments import living_states
from siltstone.container.state.replica import Replica
from siltstone.container.state.tail import LogSlice, TailPiece
from siltstone.core.constants import FRAME_BYTES_MAX, Buffer
from siltstone.core.environment import Environment
from siltstone.core.errors import CorruptDataError, LogTruncatedError
from siltstone.core.records.frame import (
    KIND_BATCH,
    OVERHEAD_BYTES,
    Frame,
    decode_frame,
    encode_frame,
)
from siltstone.core.records.legacy_row import NEW_SEGMENTS
from siltstone.core.records.piece import (
    TIME,
    WRITER_MARK,
    ControlKind,
    append_header,
    control_piece,
)
from siltstone.core.storage.uncancellable import run_whole
from siltstone.metadata.adoption_rows import layout_adoption
from siltstone.metadata.checkpoint import INDEX_POOL, take_index
from siltstone.metadata.import_rows import is_named
from siltstone.metadata.legacy_rows import legacy_pages, pending_legacy

if TYPE_CHECKING:
    from siltstone.container.reader.reader_view import View

_BODY_BYTES_MAX: Final = FRAME_BYTES_MAX // 2
"""A piece is at most as long as a frame's body, and a frame gets no more pieces beyond this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerImage:
    """A container at one moment.

    Attributes:
        container: its index in the store.
        lineage: of its table log.
        epoch: the highest that its log or its journal knew.
        table_version: up to which the index files hold every update, exactly.
        table_crc: running CRC32C of the table log at that version.
        index_files: local files that make the index; empty for an empty one.
        tail: encoded frames with the bytes that lie in no chunk; may be empty.
        chunks: every chunk that an extent names.
        segments: how many there are.
    """

    container: int
    lineage: bytes
    epoch: int
    table_version: int
    table_crc: int
    index_files: tuple[Path, ...]
    tail: tuple[Buffer, ...]
    chunks: tuple[ChunkRows, ...]
    segments: int


def tail_pieces(replica: Replica) -> list[tuple[TailPiece, int]]:
    """What the tails of all segments are made of, each with its segment, as the log has them."""
    return sorted(
        (
            (piece, segment_id)
            for segment_id, segment in replica.dirty.items()
            for piece in segment.tail.pieces
        ),
        # Not by time: the clock of an owner may go back, and bytes of a segment have to follow.
        key=lambda found: (found[0].index, found[1], found[0].offset),
    )


def encoded_tail(
    pieces: Sequence[tuple[TailPiece, int]],
    fetched: Mapping[LogSlice, Buffer],
    lineage: bytes,
    epoch: int,
) -> tuple[Buffer, ...]:
    """Write tails as frames that ``Replica.apply_all`` takes, in their order.

    A frame has pieces of one time, and each piece is what one frame of the log had of a segment.
    ``fetched`` has the bytes of those that memory has not.
    """
    frames: list[Buffer] = []
    previous_crc = 0
    for index, group in enumerate(_grouped(pieces)):
        body: list[Buffer] = []
        time_ms = group[0][0].made_ms
        if time_ms:
            body.append(control_piece(ControlKind.TIME, TIME.pack(time_ms)))
        for piece, segment_id in group:
            header = append_header(segment_id, piece.offset, len(piece.data), list(piece.marks))
            data = piece.data
            body += (header, fetched[data] if isinstance(data, LogSlice) else data)
        encoded = encode_frame(
            body,
            kind=KIND_BATCH,
            lineage=lineage,
            epoch=epoch,
            index=index,
            previous_crc=previous_crc,
            count=len(group) + bool(time_ms),
        )
        previous_crc = encoded.crc
        frames += encoded.buffers
    return tuple(frames)


def decoded_tail(data: Buffer, *, where: str) -> tuple[Frame, ...]:
    """Read what ``encoded_tail`` wrote.

    Raises:
        CorruptDataError: it is damaged; ``where`` is named.
        FormatError: a newer version wrote it.
    """
    frames: list[Frame] = []
    position = 0
    view = memoryview(data)
    while position < len(view):
        frame = decode_frame(view, position)
        previous = frames[-1].crc if frames else 0
        if frame is None or frame.index != len(frames) or frame.previous_crc != previous:
            raise CorruptDataError("a frame of the tail is damaged", where=where, at=position)
        frames.append(frame)
        position += frame.size
    return tuple(frames)


def _grouped(
    pieces: Sequence[tuple[TailPiece, int]],
) -> Iterator[list[tuple[TailPiece, int]]]:
    """Cut pieces into frames: of one time each, and not too large."""
    group: list[tuple[TailPiece, int]] = []
    size = 0
    for piece, segment_id in pieces:
        length = OVERHEAD_BYTES + len(piece.data) + len(piece.marks) * WRITER_MARK.size
        if group and (piece.made_ms != group[0][0].made_ms or size + length > _BODY_BYTES_MAX):
            yield group
            group, size = [], 0
        group.append((piece, segment_id))
        size += length
    if group:
        yield group


_TRIES: Final = 5
"""Looks at a log that an owner truncates meanwhile."""


class ReaderImage:
    """How a read-only container tells all that it shows; part of ``ReadContainer``."""

    _container: int
    _environment: Environment
    _folder: Path
    _generation: int
    _log_facts: LogFacts
    _lock: asyncio.Lock

    if TYPE_CHECKING:

        def _current(self) -> View: ...
        async def _refresh(self) -> None: ...

    async def legacy_adoption(self) -> str | None:
        """The adoption of the legacy layout that the owner writes, as of now; else ``None``.

        Raises as ``image``.
        """
        async with self._lock:
            await self._refresh()
            tables = self._current().replica.tables
            new = pending_legacy(tables, NEW_SEGMENTS)
            return None if new is None else layout_adoption(tables, new)

    async def leaving_legacy(self, adoption: str, files: Mapping[str, Collection[str]]) -> set[str]:
        """Which segments of a layout that the owner writes have rows still: also deleted ones.

        Args:
            adoption: of the layout; of another one nothing is known.
            files: segments of the layout, each with keys of its files.

        Raises as ``image``.
        """
        async with self._lock:
            await self._refresh()
            tables = self._current().replica.tables
            new = pending_legacy(tables, NEW_SEGMENTS)
            if new is None or layout_adoption(tables, new) != adoption:
                return set()
            found = {
                name
                for name, keys in files.items()
                if any(is_named(tables, new.prefix + key) for key in keys)
            }
            for page in legacy_pages(tables):
                rows = [pending_legacy(tables, segment_id) for segment_id in page]
                found |= {row.source for row in rows if row is not None} & files.keys()
            return found

    async def _tails(self) -> tuple[list[tuple[TailPiece, int]], Mapping[LogSlice, Buffer]]:
        """What the tails are made of, and the bytes of it that the log has.

        An owner truncates what it flushed, so there may have to be a look at what it flushed.
        """
        for left in reversed(range(_TRIES)):
            view = self._current()
            pieces = tail_pieces(view.replica)
            if view.reading.kept is None:
                return pieces, {}
            try:
                return pieces, await view.reading.kept.whole([piece for piece, _ in pieces])
            except LogTruncatedError:
                if not left:
                    raise
                await self._refresh()
        raise AssertionError("the last look ends this")

    async def image(self) -> ContainerImage:
        """All that is acknowledged at one moment after this call began.

        Pin the container first, and compare the lineage of the pin with that of the image: then
        every chunk that it names stays. Its index files lie in the folder of this reader and go
        when it closes. It holds the tails of all segments in memory, which back-pressure bounds.

        Raises:
            CorruptDataError: a row is missing, or something else is damaged.
            ChunkError: long-term storage did not answer.
        """
        async with self._lock:
            # Nothing is applied until the end of the block, so all of it is of one moment.
            await self._refresh()
            pieces, fetched = await self._tails()
            view = self._current()
            self._generation += 1
            folder = self._folder / f"image-{self._generation}"
            position, files = await run_whole(
                self._environment, INDEX_POOL, partial(take_index, view.index, folder)
            )
            lineage = view.replica.tables.lineage
            epoch = max(self._log_facts.epoch, view.recovered.highest_epoch)
            version, crc = (0, 0) if position is None else (position.version, position.running_crc)
            assert version == view.replica.tables.applied_version, "a reader applies to its index"
            return ContainerImage(
                container=self._container,
                lineage=lineage,
                epoch=epoch,
                table_version=version,
                table_crc=crc,
                index_files=files,
                tail=encoded_tail(pieces, fetched, lineage, epoch),
                chunks=tuple(
                    named_chunks(self._container, view.reading, view.segments, view.system, ())
                ),
                segments=sum(1 for _ in living_states(view.replica)),
            )
