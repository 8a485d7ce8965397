"""The log as the files state it: the chain from the newest valid header back.

Only reading happens here. A ``LogView`` is a value; it goes stale when somebody writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from siltstone.core.errors import CorruptDataError
from siltstone.core.records.frame import KIND_END, Frame, FrameHeader
from siltstone.core.records.log_file_header import HEADER_BYTES, LogFileHeader
from siltstone.core.words import FRAME_BYTES_MAX
from siltstone.tier1.file.folder import LogFolder, read_at
from siltstone.tier1.file.frames import look_behind, scan_frames
from siltstone.tier1.file.last_frame import is_damaged
from siltstone.tier1.file.names import FileKey

_TRIES = 5
"""Builds before an inconsistency is believed: a live owner may roll or unlink a file meanwhile."""
_QUICK_LOOK_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRange:
    """The frames of the log that one file holds.

    Attributes:
        header: of the file.
        end_index: one above the last frame that counts; what the file holds beyond it is void.
        end_crc: crc of that last frame, or what the first one would continue.
        copy: the file that begins with a copy of the last frame; ``None`` if none does.
    """

    header: LogFileHeader
    end_index: int
    end_crc: int
    copy: LogFileHeader | None = None

    @property
    def key(self) -> FileKey:
        """Which file."""
        return FileKey(self.header.epoch, self.header.number)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """The newest file with a valid header, as far as it was read.

    Attributes:
        header: of the file.
        index: one above the newest frame.
        crc: crc of the newest frame.
        offset: where the next frame would stand, in bytes.
        last: the file's own newest frame; ``None`` while it has none.
    """

    header: LogFileHeader
    index: int
    crc: int
    offset: int
    last: Frame | None

    @property
    def is_last(self) -> bool:
        """Whether its owner closed the log, so that no frame of the epoch stands behind it."""
        return self.last is not None and self.last.kind == KIND_END

    @property
    def has_own_frames(self) -> bool:
        """Whether the epoch has a frame of its own, in this file or in one before it."""
        return self.index > self.header.predecessor_end


@dataclass(frozen=True, slots=True, kw_only=True)
class LogView:
    """The log at one moment.

    Attributes:
        keys: all log files that were there, the void ones too.
        end_of: the newest file with a valid header; ``None`` in a log without history.
        ranges: the chain, oldest first; the last one is the file of ``end_of``.
        headers_seen: lineages of all valid headers, also of those off the chain.
        dropped_tail: bytes behind the newest frame that are no frame.
        damage: why the log ends there, if that is for damage.
    """

    keys: tuple[FileKey, ...] = ()
    end_of: LogEnd | None = None
    ranges: tuple[FileRange, ...] = ()
    headers_seen: frozenset[bytes] = frozenset()
    dropped_tail: int = 0
    damage: CorruptDataError | None = None

    @property
    def epoch(self) -> int:
        """Epoch of the newest valid header; 0 when there is none."""
        return 0 if self.end_of is None else self.end_of.header.epoch

    @property
    def first(self) -> int:
        """Index of the first frame that is kept."""
        return self.ranges[0].header.first_index if self.ranges else 0

    @property
    def end(self) -> int:
        """One above the index of the newest frame."""
        return 0 if self.end_of is None else self.end_of.index

    @property
    def lineage(self) -> bytes | None:
        """Lineage of the newest frame, else of the newest header; ``None`` without history."""
        for part in reversed(self.ranges):
            if part.end_index > part.header.first_index:
                return part.header.lineage
        return None if self.end_of is None else self.end_of.header.lineage

    @property
    def statement(self) -> tuple[int, int, int]:
        """What a new epoch states of its predecessor: epoch, end index, crc.

        The predecessor is the newest epoch with a frame of its own. One that has a header alone is
        passed over: its header may be one whose sync failed.
        """
        if self.end_of is None:
            return 0, 0, 0
        if self.end_of.has_own_frames:
            return self.epoch, self.end_of.index, self.end_of.crc
        return self.end_of.header.statement


def build_view(
    folder: LogFolder, own: FileKey | None = None, *, to_damage: bool = False
) -> LogView:
    """Read the headers, and the newest file to its end.

    Args:
        folder: of the log.
        own: a file that the caller made and did not write to yet; it is not looked into.
        to_damage: let the log end before a damaged frame of the newest file, which is in ``damage``
            of the result.

    Raises:
        OSError: a call failed.
        CorruptDataError: the files contradict each other, or a bad frame was not torn.
    """
    for _ in range(_TRIES - 1):
        try:
            return _build(folder, own)
        except (FileNotFoundError, CorruptDataError):
            continue
    return _build(folder, own, to_damage=to_damage)


def _build(folder: LogFolder, own: FileKey | None, *, to_damage: bool = False) -> LogView:
    keys = folder.log_files()
    by_epoch: dict[int, list[LogFileHeader]] = {}
    bare: list[FileKey] = []
    for key in keys:
        header = folder.header(key)
        if header is None:
            bare.append(key)
            continue
        stated = (header.epoch, header.number, header.container)
        if stated != (*key, folder.container):
            raise _corrupt(folder, key, "header of another file")
        by_epoch.setdefault(key.epoch, []).append(header)
    newest = by_epoch[max(by_epoch)] if by_epoch else []
    _check_unused(folder, bare, newest[-1] if newest else None)
    spares = [key for key in bare if newest and _is_behind(key, newest[-1])]
    for key in bare:
        if key != own and key not in spares:
            _check_bare(folder, key)
    seen = frozenset(header.lineage for files in by_epoch.values() for header in files)
    if not by_epoch:
        return LogView(keys=tuple(keys))
    _check_epoch(folder, newest)
    end, dropped, damage = read_to_damage(folder, newest[-1])
    if damage is not None and not to_damage:
        raise damage
    if not end.is_last:
        for key in spares:
            _check_bare(folder, key)
    ranges = _ranges(newest, end.index, end.crc, copy=None)
    while ranges[0].header.number == 0:
        above = ranges[0].header
        older = by_epoch.get(above.predecessor_epoch)
        if older is None:
            break  # Truncated: files go oldest first, and nothing goes before its frames may.
        _check_epoch(folder, older)
        _, stated_end, stated_crc = above.statement
        kept = [header for header in older if header.first_index < stated_end]
        if not kept and older[0].number == 0:
            raise _corrupt(folder, ranges[0].key, "the predecessor begins behind its stated end")
        if not kept:
            break  # Truncated too: what is left is void, of an owner that went on when fenced.
        copy = above if above.copy_length else None
        ranges = _ranges(kept, stated_end, stated_crc, copy=copy) + ranges
    return LogView(
        keys=tuple(keys),
        end_of=end,
        ranges=tuple(ranges),
        headers_seen=seen,
        dropped_tail=dropped,
        damage=damage,
    )


def _ranges(
    headers: list[LogFileHeader], end_index: int, end_crc: int, *, copy: LogFileHeader | None
) -> list[FileRange]:
    ranges = [
        FileRange(header=header, end_index=after.first_index, end_crc=after.previous_crc)
        for header, after in pairwise(headers)
    ]
    last = FileRange(header=headers[-1], end_index=end_index, end_crc=end_crc, copy=copy)
    return [*ranges, last]


def _check_epoch(folder: LogFolder, headers: list[LogFileHeader]) -> None:
    """Check that the files of one epoch follow each other; oldest first, some may be truncated."""
    for header, after in pairwise(headers):
        key = FileKey(after.epoch, after.number)
        same = (header.statement, header.lineage, header.nonce) == (
            after.statement,
            after.lineage,
            after.nonce,
        )
        if not same or after.first_index < header.first_index:
            raise _corrupt(folder, key, "header contradicts the file before it")
        if after.number != header.number + 1:
            raise _corrupt(folder, key, "the file before it is missing")


def _is_behind(key: FileKey, header: LogFileHeader) -> bool:
    """Whether a file would be one of the next files of the epoch."""
    return key.epoch == header.epoch and key.number > header.number


def _check_unused(folder: LogFolder, bare: list[FileKey], newest: LogFileHeader | None) -> None:
    """Check that no file is missing among those that come behind the newest header.

    They are made one by one, each whole and durable before the next one, and removed from the last
    one on; frames go to the first of them. So what is missing, or empty, before another one held
    frames, and somebody else took it away.
    """
    last = FileKey(0, -1) if newest is None else FileKey(newest.epoch, newest.number)
    for key in bare:
        if key <= last:
            continue
        number = last.number + 1 if key.epoch == last.epoch else 0
        if key.number != number:
            raise _corrupt(folder, key, "the file before it is missing")
        last = key
    for key, after in pairwise(bare):
        if after.epoch == key.epoch:
            with folder.reading(key.name) as fd:
                size = folder.calls.fstat(fd).st_size
            if size < HEADER_BYTES:
                raise _corrupt(folder, key, "the file was emptied, for there is one behind it")


def _check_bare(folder: LogFolder, key: FileKey) -> None:
    """Check that a file without a valid header has no frame of its epoch: it was never used."""
    with folder.reading(key.name) as fd:
        tail = look_behind(folder.calls, fd, 0, epoch=key.epoch, lineage=None, index=-1)
    if tail.frame_behind is not None:
        raise _corrupt(folder, key, "frames under a damaged header")


def read_end(
    folder: LogFolder, header: LogFileHeader, after: LogEnd | None = None
) -> tuple[LogEnd, int]:
    """Read the newest file to its end, from the start or from where ``after`` ended.

    Returns the new end, and the count of bytes behind it that are no frame. Going on from ``after``
    takes a block of zeros for the end; from the start, the whole rest of the file is looked at.

    Raises:
        OSError: a call failed.
        CorruptDataError: a frame that does not continue the one before, or a bad one that was not
            torn.
    """
    end, dropped, damage = read_to_damage(folder, header, after)
    if damage is not None:
        raise damage
    return end, dropped


def read_to_damage(
    folder: LogFolder, header: LogFileHeader, after: LogEnd | None = None
) -> tuple[LogEnd, int, CorruptDataError | None]:
    """Do as ``read_end``, and return besides why the next frame is damaged, if it is.

    Raises:
        OSError: a call failed.
    """
    end = after or LogEnd(
        header=header,
        index=header.first_index,
        crc=header.previous_crc,
        offset=header.frames_offset,
        last=None,
    )
    key = FileKey(header.epoch, header.number)
    with folder.reading(key.name) as fd:
        while True:
            before = end.index
            for frame, offset in scan_frames(folder.calls, fd, end.offset):
                try:
                    check_continues(folder, header, frame, end.index, end.crc)
                except CorruptDataError as error:
                    return end, 0, error
                end = LogEnd(
                    header=header,
                    index=frame.index + 1,
                    crc=frame.crc,
                    offset=offset,
                    last=frame,
                )
            if end.is_last:
                return end, 0, None
            if after and not any(read_at(folder.calls, fd, end.offset, _QUICK_LOOK_BYTES)):
                return end, 0, None
            length, message = _judged(folder, fd, end)
            if not message:
                return end, length, None
            # A live owner may have finished this frame and the next between the two looks.
            if (
                end.index == before
                and next(scan_frames(folder.calls, fd, end.offset), None) is None
            ):
                return end, length, _corrupt(folder, key, message, index=end.index)


def _judged(folder: LogFolder, fd: int, end: LogEnd) -> tuple[int, str]:
    """How many bytes stand behind the end of a file, and why they are damage, if they are."""
    header = end.header
    tail = look_behind(
        folder.calls,
        fd,
        end.offset,
        epoch=header.epoch,
        lineage=header.lineage,
        index=end.index,
    )
    if tail.frame_behind is not None:
        return tail.length, "a bad frame before a valid one"
    expected = FrameHeader(
        lineage=header.lineage, epoch=header.epoch, index=end.index, previous_crc=end.crc
    )
    # No frame is longer; whatever stands behind so many bytes need not be read.
    data = read_at(folder.calls, fd, end.offset, min(tail.length, FRAME_BYTES_MAX + 1))
    if is_damaged(bytes(data), end.offset, expected):
        return tail.length, "the last frame is there as a whole, and does not match its sum"
    return tail.length, ""


def check_continues(
    folder: LogFolder, header: LogFileHeader, frame: Frame, index: int, previous_crc: int
) -> None:
    """Check that ``frame`` is the one that belongs here.

    Raises:
        CorruptDataError: it is another one.
    """
    found = (frame.index, frame.previous_crc, frame.epoch, frame.lineage)
    if found != (index, previous_crc, header.epoch, header.lineage):
        key = FileKey(header.epoch, header.number)
        raise _corrupt(folder, key, "a frame that does not continue the log", index=index)


def _corrupt(folder: LogFolder, key: FileKey, message: str, **facts: int) -> CorruptDataError:
    return CorruptDataError(message, where=folder.file(key.name), **facts)
