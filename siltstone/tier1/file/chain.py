"""The log as the files state it: the chain from the newest valid header back.

Only reading happens here. A ``LogView`` is a value; it goes stale when a process writes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from siltstone.core.errors import CorruptDataError
from siltstone.core.records.log_file_header import HEADER_BYTES, LogFileHeader
from siltstone.tier1.file.folder import LogFolder
from siltstone.tier1.file.frames import look_behind
from siltstone.tier1.file.names import FileKey
from siltstone.tier1.file.newest_file import LogEnd, corrupt, read_to_damage

_TRIES = 5
"""Builds before an inconsistency is believed: a live owner may roll or unlink a file meanwhile."""


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
class LogView:
    """The log at one moment.

    Attributes:
        keys: all log files that were there, the void ones too.
        end_of: the newest file with a valid header; ``None`` in a log without history.
        ranges: the chain, oldest first; the last one is the file of ``end_of``.
        headers_seen: lineages of all valid headers, also of those off the chain.
        dropped_tail: bytes after the newest frame that are no frame.
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
    by_epoch, bare, foreign = _headers(folder, keys)
    if foreign is not None and not to_damage:
        raise foreign
    try:
        view = _chain(folder, keys, by_epoch, bare, own, to_damage=to_damage)
    except CorruptDataError as error:
        raise foreign or error from error
    return replace(view, damage=foreign or view.damage)


def _chain(
    folder: LogFolder,
    keys: list[FileKey],
    by_epoch: dict[int, list[LogFileHeader]],
    bare: list[FileKey],
    own: FileKey | None,
    *,
    to_damage: bool,
) -> LogView:
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
            raise corrupt(folder, ranges[0].key, "the predecessor begins after its stated end")
        if not kept:
            break  # Truncated too: what is left is void, of an owner that continued when fenced.
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


def _headers(
    folder: LogFolder, keys: list[FileKey]
) -> tuple[dict[int, list[LogFileHeader]], list[FileKey], CorruptDataError | None]:
    """All headers by epoch, the files without one, and what is wrong with a name of no file."""
    by_epoch: dict[int, list[LogFileHeader]] = {}
    bare: list[FileKey] = []
    foreign: CorruptDataError | None = None
    for key in keys:
        try:
            header = folder.header(key)
        except CorruptDataError as error:
            foreign = foreign or error
            continue
        if header is None:
            bare.append(key)
            continue
        stated = (header.epoch, header.number, header.container)
        if stated != (*key, folder.container):
            raise corrupt(folder, key, "header of another file")
        by_epoch.setdefault(key.epoch, []).append(header)
    return by_epoch, bare, foreign


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
            raise corrupt(folder, key, "header contradicts the file before it")
        if after.number != header.number + 1:
            raise corrupt(folder, key, "the file before it is missing")


def _is_behind(key: FileKey, header: LogFileHeader) -> bool:
    """Whether a file would be one of the next files of the epoch."""
    return key.epoch == header.epoch and key.number > header.number


def _check_unused(folder: LogFolder, bare: list[FileKey], newest: LogFileHeader | None) -> None:
    """Check that no file is missing among those that come after the newest header.

    They are made one by one, each whole and durable before the next one, and removed from the last
    one on; frames go to the first of them. So what is missing, or empty, before another one held
    frames, and something else took it away.
    """
    last = FileKey(0, -1) if newest is None else FileKey(newest.epoch, newest.number)
    for key in bare:
        if key <= last:
            continue
        number = last.number + 1 if key.epoch == last.epoch else 0
        if key.number != number:
            raise corrupt(folder, key, "the file before it is missing")
        last = key
    for key, after in pairwise(bare):
        if after.epoch == key.epoch:
            with folder.reading(key.name) as fd:
                size = folder.calls.fstat(fd).st_size
            if size < HEADER_BYTES:
                raise corrupt(folder, key, "the file was emptied, for another one follows it")


def _check_bare(folder: LogFolder, key: FileKey) -> None:
    """Check that a file without a valid header has no frame of its epoch: it was never used."""
    with folder.reading(key.name) as fd:
        tail = look_behind(folder.calls, fd, 0, epoch=key.epoch, lineage=None, index=-1)
    if tail.frame_behind is not None:
        raise corrupt(folder, key, "frames under a damaged header")
