"""Where a boot starts from: what the journal says, and which index goes with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from siltstone.core.constants import TABLE_LOG_ID
from siltstone.core.errors import LogLostError
from siltstone.core.records.checkpoint import Checkpoint, IndexFile
from siltstone.core.records.frame import Frame
from siltstone.core.text import uuid_text
from siltstone.journal.journal_state import JournalState

OWNERS_MAX: Final = 32
"""Owners that may leave files before the next one puts long-term storage in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BootState:
    """Where a boot starts from.

    Attributes:
        lineage: 16 bytes.
        journal_state: what the journal says; ``None`` for a new container.
        table_start: start of the table log on long-term storage.
        table_end: end of the table log on long-term storage.
        index_files: files of the index that the table log continues; empty for an empty index.
        index_version: table version of these files.
        index_crc: running CRC32C of the table log at ``index_version``.
        warnings: what was passed over, for a person to read; empty when all is well.
        repaired: something damaged was passed over that a new checkpoint would replace.
    """

    lineage: bytes
    journal_state: JournalState | None
    table_start: int = 0
    table_end: int = 0
    index_files: tuple[IndexFile, ...] = ()
    index_version: int = 0
    index_crc: int = 0
    warnings: tuple[str, ...] = ()
    repaired: bool = False

    def starting_at(self, checkpoint: Checkpoint) -> BootState:
        """This state with the index of another checkpoint."""
        return replace(
            self,
            index_files=checkpoint.index_files,
            index_version=checkpoint.index_version,
            index_crc=checkpoint.index_crc,
        )

    def starting_empty(self) -> BootState:
        """This state with the empty index that the first table update continues."""
        return replace(self, index_files=(), index_version=0, index_crc=0)

    def warned(self, *warnings: str) -> BootState:
        """This state with more warnings; one that is known already is told once."""
        return replace(self, warnings=tuple(dict.fromkeys((*self.warnings, *warnings))))


def boot_state_of(lineage: bytes, journal_state: JournalState | None) -> BootState:
    """Take what a boot needs from what the journal says."""
    if journal_state is None:
        return BootState(lineage=lineage, journal_state=None)
    start = end = 0
    for system in journal_state.layouts:
        if system.layout.segment_id == TABLE_LOG_ID:
            start, end = system.layout.storage_start, system.layout.storage_length
    boot_state = BootState(
        lineage=lineage,
        journal_state=journal_state,
        table_start=start,
        table_end=end,
        warnings=journal_state.warnings,
        repaired=journal_state.passed_over,
    )
    return boot_state.starting_at(journal_state.checkpoint)


def check_lineage(boot_state: BootState, lineage: bytes | None) -> None:
    """Refuse a log that is not the one that the journal speaks of.

    Args:
        boot_state: what the journal says.
        lineage: of the log; ``None`` when it is empty.

    Raises:
        LogLostError: it is another one; both are named.
    """
    journal_state = boot_state.journal_state
    if journal_state is not None and lineage != boot_state.lineage:
        what = "the log is of another lineage" if lineage else "the log is empty"
        raise LogLostError(
            f"{what}: bring the right tier 1 back, or let siltstone recover say what is left",
            found=uuid_text(lineage) if lineage else None,
            expected=uuid_text(boot_state.lineage),
            journal=journal_state.newest_file,
        )


def check_followed(followed: bytes, lineage: bytes) -> None:
    """Refuse to continue with another history than the one that a reader has shown some of.

    Args:
        followed: the lineage that it began with.
        lineage: of what it found now.

    Raises:
        LogLostError: they differ, as after a recovery with loss.
    """
    if lineage != followed:
        raise LogLostError(
            "the container was recovered since this reader opened it, so what it showed may be "
            "lost: open the store again",
            found=uuid_text(lineage),
            expected=uuid_text(followed),
        )


def check_log(boot_state: BootState, epoch: int, first: int, end: int) -> None:
    """Refuse a log that is older than what long-term storage has seen.

    An owner that writes to the journal has claimed its log before, in the same epoch. So a log
    without that claim is a copy from before it, whatever was appended to the copy since.

    Args:
        boot_state: what the journal says.
        epoch: the newest one that the log was claimed in, asked for after the journal was read.
        first: first index that the log keeps.
        end: one above its newest index.

    Raises:
        LogLostError: frames that something durable relies on are not there.
    """
    journal_state = boot_state.journal_state
    if journal_state is None:
        return
    if epoch < journal_state.epoch:
        raise LogLostError(
            "the log was not claimed by the owner who wrote the journal: it is a copy, or there is"
            " another one",
            claimed=epoch,
            expected=journal_state.epoch,
            journal=journal_state.newest_file,
        )
    if first > journal_state.safe_index:
        raise LogLostError(
            "the log begins after what is needed",
            first=first,
            needed=journal_state.safe_index,
            journal=journal_state.newest_file,
        )
    if end <= journal_state.newest_index:
        raise LogLostError(
            "the log ends before an index that was acknowledged",
            end=end,
            acknowledged=journal_state.newest_index,
            journal=journal_state.newest_file,
        )


def check_frames(boot_state: BootState, frames: Sequence[Frame]) -> None:
    """Refuse a log whose frames of later epochs stand where acknowledged ones were.

    Each claim of an older copy may leave a frame, so its end alone proves nothing.

    Args:
        boot_state: what the journal says.
        frames: every frame that the log keeps.

    Raises:
        LogLostError: the newest index that long-term storage has seen is that of another frame.
    """
    journal_state = boot_state.journal_state
    if journal_state is None or not frames:
        return
    position = journal_state.newest_index - frames[0].index
    if 0 <= position < len(frames):
        check_newest(boot_state, frames[position].epoch)


def check_newest(boot_state: BootState, epoch: int | None) -> None:
    """Refuse a log whose frame at the newest known index is of another, later ``epoch``.

    ``None`` if the log has no such frame any more.
    """
    journal_state = boot_state.journal_state
    if journal_state is not None and epoch is not None and epoch > journal_state.epoch:
        raise LogLostError(
            "the log has another frame at an index that was acknowledged",
            index=journal_state.newest_index,
            epoch=epoch,
            acknowledged_in=journal_state.epoch,
            journal=journal_state.newest_file,
        )


def check_begin(boot_state: BootState, first: int | None) -> None:
    """Refuse frames that were read after needed ones were truncated.

    A reader has no claim and reads next to the owner. The first index it asked for may be gone
    then: the owner flushes, says so in a journal file that the reader did not see, and truncates.

    Args:
        boot_state: what the journal says.
        first: index of the first frame that was read; ``None`` if there is none.

    Raises:
        LogLostError: frames are missing between what long-term storage has and these.
    """
    journal_state = boot_state.journal_state
    if journal_state is not None and first is not None and first > journal_state.safe_index:
        raise LogLostError(
            "the log was truncated beyond what is needed",
            first=first,
            needed=journal_state.safe_index,
            journal=journal_state.newest_file,
        )
