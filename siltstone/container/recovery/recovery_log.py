"""The older log in a recovery: why it does not count, what it still holds, and its fence."""

from __future__ import annotations

from collections.abc import Iterator

from siltstone.container.models.log_views import condition_of
from siltstone.container.state.boot_state import (
    boot_state_of,
    check_frames,
    check_lineage,
    check_log,
)
from siltstone.container.state.log_place import located
from siltstone.container.state.log_scan import kept_frames
from siltstone.core.errors import (
    CapabilityError,
    CorruptDataError,
    LogLostError,
    StoreInUseError,
)
from siltstone.core.fenced_log import DamagedLog, FencedLog, ReplaceableLog
from siltstone.core.records.frame import Frame
from siltstone.journal.journal_state import JournalState


def look_at(log: FencedLog, journal_state: JournalState) -> tuple[str, tuple[Frame, ...]]:
    """Why the log is not the one of the journal, and its frames if it is of its lineage.

    Raises:
        LogTruncatedError: an owner truncated it under each of several reads.
    """
    boot_state = boot_state_of(journal_state.checkpoint.lineage, journal_state)
    reader = log.open_to_damage() if isinstance(log, DamagedLog) else log.open_read()
    frames: tuple[Frame, ...] = ()
    try:
        check_lineage(boot_state, reader.lineage())
        frames, damage = kept_frames(reader, _whole_frames)
        epoch = reader.epoch()
        if epoch < journal_state.stated_epoch:
            # A copy, and nothing tells which of its frames were appended while that owner ran.
            frames = ()
        if not damage:
            check_log(boot_state, epoch, reader.first(), reader.end())
            check_frames(boot_state, frames)
    except LogLostError as error:
        return str(located(error, log)), frames
    except CorruptDataError as error:
        return str(error), frames
    else:
        return damage or condition_of(log).damage, frames
    finally:
        reader.close()


def _whole_frames(source: Iterator[Frame]) -> tuple[tuple[Frame, ...], str]:
    """Frames up to the first that is damaged, and what is the matter with that, if there is one."""
    frames: list[Frame] = []
    try:
        frames.extend(source)
    except CorruptDataError as error:
        return tuple(frames), str(error)
    return tuple(frames), ""


def fenced_frames(log: FencedLog, journal_state: JournalState) -> tuple[tuple[Frame, ...], str]:
    """Fence the older log and return its frames, and what is damaged there.

    A claim tells for certain which frame is the last. Where none is possible, the log is read
    without one. A log that is a copy is not claimed: nothing else shows that it is one.
    """
    if log.newest_epoch() < journal_state.stated_epoch:
        reason, frames = look_at(log, journal_state)
        return frames, reason
    lineage, above = journal_state.checkpoint.lineage, journal_state.highest_epoch
    try:
        log.claim(lineage=lineage, new=False, above=above, takeover=True, owner="recovery")
    except (LogLostError, CorruptDataError):
        replaceable(log).fence_all()
        reason, frames = look_at(log, journal_state)
        return frames, reason
    return kept_frames(log, _whole_frames)


def lost_because(journal_state: JournalState, frames: tuple[Frame, ...]) -> str:
    """Why ``frames`` are not all that is needed; empty when they are."""
    boot_state = boot_state_of(journal_state.checkpoint.lineage, journal_state)
    if not frames:
        return "the log has no frames"
    try:
        check_log(boot_state, journal_state.epoch, frames[0].index, frames[-1].index + 1)
        check_frames(boot_state, frames)
    except LogLostError as error:
        return str(error)
    return ""


def replaceable(log: FencedLog) -> ReplaceableLog:
    """The log as one that can be replaced. Raises ``CapabilityError``."""
    if not isinstance(log, ReplaceableLog):
        raise CapabilityError("this log cannot be replaced by a recovery")
    return log


def check_free(log: FencedLog, takeover: bool) -> None:
    """Refuse what a living owner uses, and what cannot be replaced.

    Raises:
        StoreInUseError: a live owner is known and ``takeover`` is false.
        CapabilityError: the log cannot be replaced.
    """
    holder = log.holder()
    if holder.alive and not takeover:
        raise StoreInUseError("the log is in use", owner=holder.description)
    replaceable(log)
