"""The part of a replica that applies frames which are read from the log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from siltstone.container.state.log_scan import LogScan, frame_times
from siltstone.container.state.logged_frame import LoggedFrame, decode_logged_frame
from siltstone.container.state.table_log import DECODED_BYTES
from siltstone.container.state.tail import LogSlice, TableTail, TableTailRecord, TailPiece
from siltstone.core.environment import Environment
from siltstone.core.errors import CorruptDataError, LogLostError
from siltstone.core.records.frame import Frame
from siltstone.core.records.piece import (
    AppendHead,
    ControlKind,
    TablePiece,
    decode_checkpoint_record,
)
from siltstone.core.records.table_record import (
    TableEntry,
    TableRecord,
    decode_table_record,
    table_record_place,
)
from siltstone.metadata.index_rows import index_key

if TYPE_CHECKING:
    from siltstone.container.state.exposed_bytes import Exposure
    from siltstone.container.state.kept_tail import KeptTail
    from siltstone.container.state.open_segment import OpenSegment
    from siltstone.metadata.tables import Tables


class ReplicaReplay:
    """How a replica takes the frames of its log; part of ``Replica``, which says what there is."""

    tables: Tables
    dirty: dict[int, OpenSegment]
    table_tail: TableTail
    table_flushed: int
    newest_joint: int
    newest_index: int
    replayed_ms: int
    checkpoint_index: int | None
    checkpoint_name: str | None
    exposure: Exposure
    kept: KeptTail | None
    _environment: Environment

    if TYPE_CHECKING:

        def open(self, segment_id: int) -> OpenSegment | None:
            """See ``Replica.open``."""
            ...

        def _refresh(self, index_keys: Iterable[bytes]) -> int: ...

    def begin(self, scan: LogScan) -> None:
        """Apply what the first look at the log found, after a start from the index.

        Table updates come first: the log is truncated once a flush took bytes away, and the layout
        that says so may be in a later frame than the first append that is left. After it
        ``append_from`` takes the frames again.
        """
        self._replay_tables(scan.frames)
        for frame in scan.frames:
            self._apply_tables(frame, replayed=True)
        self.newest_index = scan.newest
        self.replayed_ms = scan.replayed_ms
        self.exposure = scan.exposure

    def apply_all(self, frames: Iterable[LoggedFrame]) -> None:
        """Apply frames that are in memory, after a start from the index: tables of all come first.

        Raises as ``apply``.
        """
        whole = list(frames)
        self._replay_tables(whole)
        for frame in whole:
            self._apply_tables(frame, replayed=True)
            self._expose(frame)
        for frame in whole:
            self.append_from(frame)

    def apply(self, frame: Frame) -> None:
        """Apply the next frame that was read from the log. A frame may be applied again.

        Raises:
            CorruptDataError: the frame does not continue what is there.
            LogLostError: it has other bytes for offsets that have some.
            FormatError: it holds something newer than this version.
        """
        self.follow(decode_logged_frame(frame))

    def follow(self, frame: LoggedFrame) -> None:
        """Apply the next frame, which is decoded; it raises what ``apply`` raises."""
        self._apply_tables(frame)
        self._expose(frame)
        if self.append_from(frame) and self.kept is not None:
            self.kept.remember(frame.index, frame.crc, frame.body)

    def append_from(self, frame: LoggedFrame) -> bool:
        """Apply the appends of a frame whose other pieces are applied; return whether it has any.

        What is in chunks already is passed over. Raises as ``apply``.
        """
        heads = [piece for piece in frame.pieces if isinstance(piece, AppendHead)]
        if heads:
            time_s, made_ms = frame_times(frame, self._environment)
            # A frame does not tell which of its parts are of one commit: all may be.
            joint = len(heads) > 1 or any(isinstance(piece, TablePiece) for piece in frame.pieces)
            for head in heads:
                self._apply_append(frame, head, time_s, made_ms, joint=joint)
        return bool(heads)

    def _replay_tables(self, frames: Iterable[LoggedFrame]) -> None:
        """Bring the index up to the frames, many records at a time; no segment is open yet."""
        some: list[tuple[TableRecord, int | None]] = []
        size = 0
        for frame in frames:
            for piece in frame.pieces:
                if not isinstance(piece, TablePiece):
                    continue
                _, version, _ = table_record_place(piece.record, where=frame.where)
                if version < self.tables.applied_version:
                    continue
                some.append((decode_table_record(piece.record, where=frame.where), frame.index))
                size += len(piece.record)
                if size >= DECODED_BYTES:
                    self.tables.replay_all(some)
                    some, size = [], 0
        self.tables.replay_all(some)

    def _apply_tables(self, frame: LoggedFrame, *, replayed: bool = False) -> None:
        """Apply all of a frame but its appends; the index may have its table records already."""
        time_s, made_ms = frame_times(frame, self._environment)
        self.replayed_ms = max(self.replayed_ms, made_ms)
        for piece in frame.pieces:
            if isinstance(piece, TablePiece):
                self._apply_table(piece.record, frame, time_s, replayed=replayed)
            elif not isinstance(piece, AppendHead) and piece.control is ControlKind.CHECKPOINT:
                self.checkpoint_index = frame.index
                self.checkpoint_name = decode_checkpoint_record(piece.payload, where=frame.where)
        self.newest_index = frame.index

    def _expose(self, frame: LoggedFrame) -> None:
        sizes = [piece.length for piece in frame.pieces if isinstance(piece, AppendHead)]
        if sizes or any(isinstance(piece, TablePiece) for piece in frame.pieces):
            time_s, _ = frame_times(frame, self._environment)
            self.exposure.add(frame.index, sum(sizes), time_s)

    def _apply_table(
        self, record: bytes, frame: LoggedFrame, time_s: float, *, replayed: bool
    ) -> None:
        _, version, _ = table_record_place(record, where=frame.where)
        # What the index surely holds need not be decoded: open segments show it already.
        entries: tuple[TableEntry, ...] = ()
        if not replayed and version >= self.tables.applied_version:
            decoded = decode_table_record(record, where=frame.where)
            if self.tables.replay(decoded, frame.index):
                entries = decoded.entries
        if version > self.table_flushed and (not self.table_tail or version > self.table_tail.end):
            self.table_tail.add(TableTailRecord(version, record, frame.index, time_s))
        self._refresh(index_key(entry.table_id, entry.key) for entry in entries)

    def _apply_append(
        self, frame: LoggedFrame, head: AppendHead, time_s: float, made_ms: int, *, joint: bool
    ) -> None:
        segment = self.open(head.segment_id)
        end = head.offset + head.length
        if segment is None or end <= segment.length:
            return
        if segment.tail and head.offset < segment.length:
            raise LogLostError(
                "the log has other bytes than were read of it before: it was put back to an older "
                "copy, and another owner continued that",
                segment=segment.name,
                start=head.offset,
                end=segment.length,
            )
        if head.offset > segment.length:
            raise CorruptDataError(
                "the log has a gap",
                where=frame.where,
                segment=segment.name,
                expected=segment.length,
                actual=head.offset,
            )
        data: bytes | LogSlice
        if self.kept is None:
            data = bytes(frame.data(head))
        else:
            data = LogSlice(frame.index, frame.crc, head.start, head.length)
        segment.tail.add(
            TailPiece(head.offset, data, frame.index, time_s, made_ms, head.writers, (end,))
        )
        segment.length = segment.assigned = end
        if joint:
            segment.joint_end = end
            self.newest_joint = self.tables.applied_version
        segment.writers = None
        self.dirty[head.segment_id] = segment
        segment.notify()
