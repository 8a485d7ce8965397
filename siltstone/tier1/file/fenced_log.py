"""The file log of one container: the contract, over claim, writer, chain and reader."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress

from siltstone.core.constants import FRAME_BYTES_MAX, MIB, Buffer
from siltstone.core.environment import Environment, SystemEnvironment
from siltstone.core.errors import (
    FencedError,
    LogError,
    LogTruncatedError,
    Outcome,
    SiltstoneError,
    StorageFullError,
)
from siltstone.core.fenced_log import (
    HandleState,
    LogCondition,
    LogHandle,
    LogOwner,
    LogPlace,
    LogReader,
)
from siltstone.core.open_files import LACK, log_lack
from siltstone.core.posix import FileCalls, SystemFileCalls
from siltstone.core.records.frame import KIND_BATCH, KIND_END, Frame, encode_frame
from siltstone.core.records.marker_slot import NONCE_BYTES
from siltstone.tier1.file.chain import FileRange, build_view
from siltstone.tier1.file.claim import (
    check_lineage,
    claim_marker,
    create_first_file,
    damage_of_marker,
    refusals_of,
    sweep,
    take_over,
    told_if_overtaken,
)
from siltstone.tier1.file.claimed import ClaimedFolder
from siltstone.tier1.file.errors import FULL, log_error, translated
from siltstone.tier1.file.folder import BLOCK_BYTES, LogFolder, room_for
from siltstone.tier1.file.growth import Growth, first_bytes
from siltstone.tier1.file.history import read_frames
from siltstone.tier1.file.in_use import InUseLock
from siltstone.tier1.file.marker import Marker, newest_epoch, newest_told_epoch
from siltstone.tier1.file.network import FileSystemOf, file_system_of, refuse_network
from siltstone.tier1.file.reader import FileLogReader
from siltstone.tier1.file.set_aside import fence_all, set_folder_aside
from siltstone.tier1.file.spares import IN_PLACE
from siltstone.tier1.file.writer import EpochWriter

_TURNS = 4
_PAUSE_S = 0.01
"""Shortest pause while there is more to write; otherwise it is as long as the writing took."""
_BUSY_S = 0.25
_IDLE_S = 1.0
"""When to look again for something to do, with and without frames since the last time."""


class FileFencedLog(LogHandle):
    """A ``FencedLog`` in a folder of a local disk. Thread-safe.

    Args:
        path: the folder below which every container has its own.
        container: number of the container.
        file_bytes: largest size of a preallocated file, rounded up to 4 KiB.
        calls: the seam to the operating system.
        environment: where nonces come from.
        file_system: tells what a path lies on.
    """

    def __init__(
        self,
        path: str,
        container: int,
        *,
        file_bytes: int = 64 * MIB,
        calls: FileCalls | None = None,
        environment: Environment | None = None,
        file_system: FileSystemOf = file_system_of,
    ) -> None:
        super().__init__()
        self._folder = LogFolder(calls or SystemFileCalls(), path, container)
        self._file_bytes = -(-file_bytes // BLOCK_BYTES) * BLOCK_BYTES
        self._frame_bytes_max = min(FRAME_BYTES_MAX, room_for(self._file_bytes))
        self._environment = environment or SystemEnvironment()
        self._file_system = file_system
        self._in_use = InUseLock(self._folder)
        self._lock = threading.RLock()
        self._marker: Marker | None = None
        self._writer: EpochWriter | None = None
        self._older: tuple[FileRange, ...] = ()
        self._dropped_tail = 0
        self._first = 0
        self._lineage = b""
        self._tended_index = 0
        self._fenced = 0

    @property
    def frame_bytes_max(self) -> int:
        """Largest frame in bytes: what fits into a file, at most 8 MiB."""
        return self._frame_bytes_max

    # --- claim ---

    def claim(self, *, lineage: bytes, new: bool, above: int, takeover: bool, owner: str) -> int:
        """See ``FencedLog.claim``. After ``StorageFullError`` the claim may be repeated."""
        self._check_claim(lineage, above, owner)
        with self._lock:
            if self._state is HandleState.CLAIMED:
                raise LogError("the handle is claimed already", outcome=Outcome.NOT_APPLIED)
            self._require(HandleState.UNCLAIMED)
            try:
                self._claim(lineage=lineage, new=new, above=above, takeover=takeover)
            except OSError as error:
                self._release()
                if error.errno in LACK:
                    raise log_lack("claim", self._folder.path) from error
                if error.errno in FULL:
                    raise StorageFullError("no room to claim", path=self._folder.path) from error
                self._state = HandleState.POISONED
                raise log_error("claim", self._folder.path, error) from error
            except BaseException:
                self._release()
                raise
            self._in_use.publish(self._epoch, owner)
            return self._epoch

    def _claim(self, *, lineage: bytes, new: bool, above: int, takeover: bool) -> None:
        folder = self._folder
        refuse_network(folder.path, self._file_system)
        # Before anything is written, even a lock file; looked at again after the marker.
        check_lineage(folder, build_view(folder), lineage, new=new)
        folder.make()
        self._in_use.acquire(takeover=takeover)
        if not self._in_use.is_held:
            # A live holder would be stopped for nothing if the disk turned out to be full later.
            folder.check_room(first_bytes(self._file_bytes))
        self._marker = marker = Marker.create(folder)
        nonce = self._environment.random_bytes(NONCE_BYTES)
        slot, data = claim_marker(folder, marker, above=above, nonce=nonce)
        with told_if_overtaken(marker, slot):
            file = create_first_file(folder, marker, slot, first_bytes(self._file_bytes))
            try:
                claimed = take_over(folder, marker, (slot, data), file, lineage=lineage, new=new)
                newest = marker.content().newest
                if newest != slot:
                    raise FencedError("a later claim was faster", epoch=slot.epoch)
            except BaseException:
                folder.calls.close(file.fd)
                raise
            self._start(claimed)

    def _start(self, claimed: ClaimedFolder) -> None:
        marker = self._marker
        assert marker is not None, "a claim opens the marker"
        self._older, self._dropped_tail = claimed.older, claimed.dropped_tail
        epoch = claimed.slot.epoch
        self._lineage = claimed.header.lineage
        self._first = min(
            [claimed.header.first_index, *(part.header.first_index for part in self._older)]
        )
        self._writer = EpochWriter(
            self._folder,
            marker,
            claimed,
            Growth(self._file_bytes, self._environment.monotonic),
            on_second_frame=lambda: sweep(self._folder, self._older, epoch),
            fills=self._file_system(self._folder.path).number in IN_PLACE,
        )
        self._writer.prepare_spare()
        self._epoch, self._state = epoch, HandleState.CLAIMED

    # --- append ---

    def append(self, buffers: Sequence[Buffer], *, count: int, reserve: bool = False) -> int:
        """See ``FencedLog.append``."""
        with self._lock:
            if self._state is not HandleState.CLAIMED:
                self._require(HandleState.CLAIMED)
            return self._append(buffers, KIND_BATCH, count, reserve)

    def _append(self, buffers: Sequence[Buffer], kind: int, count: int, reserve: bool) -> int:
        writer = self._writer
        assert writer is not None, "a claimed handle has a writer"
        index = writer.index
        frame = encode_frame(
            buffers,
            kind=kind,
            lineage=self._lineage,
            epoch=self._epoch,
            index=index,
            previous_crc=writer.crc,
            count=count,
        )
        if frame.size > self._frame_bytes_max:
            raise ValueError(f"frame of {frame.size} bytes exceeds {self._frame_bytes_max}")
        try:
            writer.write(frame, reserve=reserve)
        except StorageFullError:
            raise
        except OSError as error:
            self._state = HandleState.POISONED
            raise log_error("append", self._folder.path, error) from error
        except BaseException:
            # Whatever it was, it is unknown how far the write came.
            self._state = HandleState.POISONED
            raise
        return index

    def tend(self) -> float:
        """See ``TendedLog.tend``: it makes the next file, and writes zeros ahead of the frames."""
        writer = self._writer
        if writer is None or self._state is not HandleState.CLAIMED:
            return _IDLE_S
        begun = self._environment.monotonic()
        try:
            writer.check_names()
            count = 0
            while count < _TURNS and writer.tend():
                count += 1
        except (OSError, LogError) as error:
            with self._lock:
                if self._state is HandleState.CLAIMED:
                    self._state = HandleState.POISONED
            if isinstance(error, LogError):
                raise
            raise log_error("tend", self._folder.path, error) from error
        if count:
            return max(_PAUSE_S, self._environment.monotonic() - begun)
        index, self._tended_index = self._tended_index, writer.index
        return _IDLE_S if index == writer.index else _BUSY_S

    # --- reading ---

    def first(self) -> int:
        """See ``FencedLog.first``."""
        with self._lock:
            self._require(HandleState.CLAIMED)
            return self._first

    def end(self) -> int:
        """See ``FencedLog.end``."""
        with self._lock:
            return self._claimed().index

    def read(self, from_index: int) -> Iterator[Frame]:
        """See ``FencedLog.read``."""
        with self._lock:
            ranges = self._ranges()
            if from_index < self._first:
                raise LogTruncatedError(index=from_index, first=self._first)
        return self._known_to_begin(read_frames(self._folder, ranges, from_index))

    def _known_to_begin(self, frames: Iterator[Frame]) -> Iterator[Frame]:
        """Pass ``frames`` on, and note what an older owner removed that truncated at the claim."""
        try:
            yield from frames
        except LogTruncatedError as error:
            with self._lock:
                older = tuple(part for part in self._older if part.end_index > error.first)
                if older:  # No owner truncates the newest file.
                    self._older, self._first = older, max(self._first, error.first)
            raise

    def dropped_tail(self) -> int:
        """See ``FencedLog.dropped_tail``."""
        with self._lock:
            self._require(HandleState.CLAIMED)
            return self._dropped_tail

    def truncate(self, before_index: int) -> None:
        """See ``FencedLog.truncate``. Whole files go, never the newest one.

        Raises:
            ValueError: ``before_index`` lies beyond ``end()``.
            FencedError: a newer epoch was claimed; nothing was removed. The handle is poisoned.
        """
        with self._lock:
            if before_index > self._claimed().index:
                raise ValueError(f"truncation at {before_index} beyond the end")
            try:
                self._truncate(before_index)
            except OSError as error:
                if error.errno in LACK:
                    return  # Nothing was done, and more may always be kept.
                self._state = HandleState.POISONED
                raise log_error("truncate", self._folder.path, error) from error
            except BaseException:
                self._state = HandleState.POISONED
                raise

    def _truncate(self, before_index: int) -> None:
        writer, ranges, kept = self._claimed(), self._ranges(), 0
        while kept < len(ranges) - 1 and ranges[kept].end_index <= before_index:
            kept += 1
        if not kept:
            return
        if newest_epoch(self._folder) > self._epoch:
            raise FencedError("a newer epoch was claimed", epoch=self._epoch)
        oldest = writer.drop_below(ranges[kept].key)
        kept = sum(part.key < oldest for part in ranges)
        del writer.headers[: max(0, kept - len(self._older))]
        self._older = self._older[kept:]
        self._first = ranges[kept].header.first_index

    def newest_epoch(self) -> int:
        """See ``FencedLog.newest_epoch``."""
        self._require_open()
        with translated("read marker", self._folder.path):
            if self._state is HandleState.UNCLAIMED:
                # A caller that removes something because of this has claimed.
                return newest_told_epoch(self._folder)
            return newest_epoch(self._folder)

    def holder(self) -> LogOwner:
        """See ``FencedLog.holder``."""
        self._require_usable()
        with translated("read lock", self._folder.path):
            epoch = newest_told_epoch(self._folder)
            lock = InUseLock(self._folder)
            return LogOwner(epoch=epoch, alive=lock.is_alive(), description=lock.description())

    def condition(self) -> LogCondition:
        """See ``ExaminedLog.condition``."""
        self._require_usable()
        with translated("look", self._folder.path):
            refusals = refusals_of(self._folder, self._file_system)
            damage = damage_of_marker(self._folder)
        return LogCondition(damage=damage, refusals=refusals)

    def open_read(self) -> LogReader:
        """See ``FencedLog.open_read``."""
        self._require_usable()
        return FileLogReader(self._folder, fenced=self._fenced)

    def place(self) -> LogPlace:
        """See ``PlacedLog.place``."""
        with translated("look", self._folder.path):
            return LogPlace(kind="path", name=self._folder.path, exists=self._folder.exists())

    def open_to_damage(self) -> LogReader:
        """See ``DamagedLog.open_to_damage``."""
        self._require_usable()
        return FileLogReader(self._folder, fenced=self._fenced, to_damage=True)

    # --- replacing it ---

    def fence_all(self) -> None:
        """See ``ReplaceableLog.fence_all``."""
        with self._lock, translated("write marker", self._folder.path, changes=True):
            self._require(HandleState.UNCLAIMED)
            self._fenced = fence_all(self._folder, self._environment)

    def set_aside(self) -> str | None:
        """See ``ReplaceableLog.set_aside``: the folder gets another name next to the old one."""
        with self._lock, translated("rename", self._folder.path, changes=True):
            self._require(HandleState.UNCLAIMED)
            return set_folder_aside(self._folder)

    # --- the end ---

    def close(self) -> None:
        """See ``FencedLog.close``."""
        with self._lock:
            if self._state is HandleState.CLAIMED:
                # A courtesy to the next owner, who misses it less than the spare file.
                with suppress(SiltstoneError, OSError):
                    self._append([], KIND_END, 0, reserve=False)
                    self._claimed().leave()
            self.abandon()

    def abandon(self) -> None:
        """Free everything and write nothing, as the death of the process would. Idempotent."""
        with self._lock:
            self._state = HandleState.CLOSED
            self._release()

    def _release(self) -> None:
        writer, self._writer = self._writer, None
        marker, self._marker = self._marker, None
        # Closing may report an older failure that the sync has told already.
        with suppress(OSError):
            if writer is not None:
                writer.close()
        with suppress(OSError):
            if marker is not None:
                marker.close()
        with suppress(OSError):
            self._in_use.release()

    # --- state ---

    def _claimed(self) -> EpochWriter:
        self._require(HandleState.CLAIMED)
        assert self._writer is not None, "a claimed handle has a writer"
        return self._writer

    def _ranges(self) -> list[FileRange]:
        return [*self._older, *self._claimed().own_ranges()]
