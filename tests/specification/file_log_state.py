"""The file log as a state machine: marker, headers, predecessor copies, void frames.

Who acts: up to three owners, numbered as they begin to claim (so no two states differ only by who
is who), each of which may stop between any two steps and continue later, whatever happened
meanwhile; a reader without a claim; and the machine they run on, where processes die, syncs fail
and the power goes. One step is one call of the file system that other processes could see half
done.

What a file shows and what the disk has differ. Each header and each frame is ``DIRTY`` (written and
not synced: a power cut keeps or drops it), ``LOST`` (its sync failed: shown until the page cache
drops it, never written whatever later syncs say) or ``DURABLE``.

Files of one epoch are one file here, and nothing is truncated: rolling repeats a header that was
durable, and what may be truncated is the matter of the machine in ``system_journal``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

NONE, DIRTY, LOST, DURABLE = range(4)

(
    UNBORN,
    PEEKED,
    LOOKED,
    MARKED,
    FENCING,
    MADE,
    READ,
    SYNCED,
    HEADED,
    STATED,
    READY,
    WRITTEN,
    FLUSHED,
    DEAD,
) = range(14)
"""Where an owner is. ``PEEKED`` is there only without the rule that the marker comes first, and
``LOOKED`` only without the lock: with it, reading the slots and writing one is one step."""

TORN = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLogRules:
    """The rules of the protocol; each can be taken out."""

    marker_checked_after_sync: bool = True
    marker_before_reading: bool = True
    marker_synced: bool = True
    marker_synced_before_reading_slots: bool = True
    marker_locked: bool = True
    marker_names_claim: bool = True
    epoch_above_file_names: bool = True
    files_created_exclusively: bool = True
    older_files_synced: bool = True
    last_frame_copied: bool = True
    header_synced_before_frames: bool = True
    failed_sync_poisons: bool = True
    frames_beyond_statement_void: bool = True
    header_alone_passed_over: bool = True
    file_durable_before_frames: bool = True
    one_frame_in_flight: bool = True
    later_claim_checked: bool = True
    kernel_tells_each_descriptor: bool = True
    reader_syncs: bool = True
    reader_checks_marker: bool = True
    reader_looks_past_cache: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLogBounds:
    """How much may happen."""

    owners: int = 3
    frames: int = 1
    sync_failures: int = 1
    power_cuts: int = 1
    evictions: int = 0
    looks: int = 0


class File(NamedTuple):
    """The file of one epoch; a frame is named ``4 * epoch + its place in the epoch``."""

    name: int = NONE
    header: int = NONE
    predecessor: int = 0
    end: int = 0
    crc: int = 0
    copy: int = 0
    frames: tuple[int, ...] = ()
    failed: bool = False
    """A sync of another process failed, and the descriptor of the owner was not told yet."""


class Marker(NamedTuple):
    """Two slots as processes see them and as the disk has them: ``16 * epoch + owner``."""

    shown: tuple[int, int] = (0, 0)
    disk: tuple[int, int] = (0, 0)
    dirty: int = 0
    """Bit i: slot i was written and is not synced."""
    lock: int = 0
    """The owner that holds it."""


class Owner(NamedTuple):
    """One owner: where it is, its epoch, and the log as it knows it (frames by index)."""

    at: int = UNBORN
    epoch: int = 0
    known: tuple[int, ...] = ()
    statement: tuple[int, int, int] = (0, 0, 0)
    slot: int = 0
    """The slot that it writes."""


class Reader(NamedTuple):
    """A reader between its looks: what it read, of which epoch, and whether the disk has it."""

    at: int = 0
    known: tuple[int, ...] = ()
    epoch: int = 0
    sure: bool = False


class State(NamedTuple):
    """Everything. ``committed``, ``claimed`` are what no process in the system knows as a whole."""

    files: tuple[File, ...]
    marker: Marker
    owners: tuple[Owner, ...]
    reader: Reader
    committed: tuple[int, ...]
    """The log up to the newest frame that was acknowledged or shown."""
    claimed: int
    """The newest epoch whose owner has read the older files."""
    left: tuple[int, int, int, int]
    """Failures of syncs, power cuts, evictions and looks that may still happen."""


class View(NamedTuple):
    """The log as files state it: frames by index, 0 for what is missing."""

    frames: tuple[int, ...] = ()
    epoch: int = 0
    own: int = 0
    statement: tuple[int, int, int] = (0, 0, 0)
    damaged: bool = False


def view_of(files: tuple[File, ...], rules: FileLogRules) -> View:
    """Walk the chain of statements back from the newest header, as ``tier1/file/chain.py`` does."""
    shown = [e for e, file in enumerate(files, 1) if file.header != NONE]
    damaged = any(any(file.frames) for file in files if file.header == NONE)
    if not shown:
        return View(damaged=damaged)
    newest = shown[-1]
    file = files[newest - 1]
    own = _present(newest, file.frames)
    log = list(own)
    statement = (newest, file.end + len(own), own[-1] if own else file.crc)
    if not own and rules.header_alone_passed_over:
        statement = (file.predecessor, file.end, file.crc)
    below = newest
    while file.end:
        if file.predecessor >= below:
            return View(tuple(log), newest, len(own), statement, damaged=True)
        below = file.predecessor
        older = files[file.predecessor - 1] if file.predecessor else File()
        if older.header == NONE:
            # Taken for a truncated log.
            log = [0] * file.end + log
            break
        frames = _present(file.predecessor, older.frames)
        place = file.end - older.end
        part = frames[:place]
        if file.copy == file.crc and len(part) >= place - 1:
            part = [*part[: place - 1], file.copy]
        if place < 1 or len(part) < place or part[-1] != file.crc:
            return View(tuple(log), newest, len(own), statement, damaged=True)
        if not rules.frames_beyond_statement_void and len(frames) > place:
            part = frames
            log = log[len(frames) - place :]
        log = part + log
        file = older
    return View(tuple(log), newest, len(own), statement, damaged)


def _present(epoch: int, statuses: Iterable[int]) -> list[int]:
    frames = []
    for place, status in enumerate(statuses):
        if status == NONE:
            break
        frames.append(4 * epoch + place)
    return frames


def on_disk(files: tuple[File, ...]) -> tuple[File, ...]:
    """The files as a power cut leaves them that drops whatever it may drop."""
    return tuple(_kept(file, DURABLE) for file in files)


def _kept(file: File, least: int) -> File:
    if file.name < least:
        return File()
    frames = tuple(s if s >= least else NONE for s in file.frames)
    if file.header < least:
        return File(name=DURABLE, frames=frames)
    return file._replace(name=DURABLE, header=DURABLE, frames=frames, failed=False)


def newest_slot(slots: tuple[int, int]) -> tuple[int, int]:
    """The valid slot of the higher epoch, 0 for none, and the slot that the next claim writes."""
    newest, free = 0, 0
    for place, slot in enumerate(slots):
        if slot not in (0, TORN) and slot // 16 > newest // 16:
            newest, free = slot, 1 - place
    return newest, free


_AT = (
    "not begun",
    "older files read too early",
    "slots read",
    "slot written",
    "marker synced",
    "file made",
    "older files read",
    "older files synced",
    "header written",
    "header synced",
    "may append",
    "frame written",
    "frame synced",
    "dead",
)
_STATUS = ("none", "dirty", "lost", "durable")


def named(frames: Iterable[int]) -> str:
    """Frames as epoch.place."""
    return "[" + " ".join(f"{f // 4}.{f % 4}" if f else "-" for f in frames) + "]"


def _slot(slot: int) -> str:
    if slot in (0, TORN):
        return "torn" if slot else "-"
    return f"epoch {slot // 16} of owner {slot % 16}"


def _file(epoch: int, file: File) -> str:
    if not file.name:
        return "-"
    if not file.header:
        return "without a header"
    frames = " ".join(f"{epoch}.{place} {_STATUS[s]}" for place, s in enumerate(file.frames))
    copy = f", copy of {named([file.copy])}" if file.copy else ""
    return (
        f"header {_STATUS[file.header]}: epoch {file.predecessor} ends at {file.end}{copy}; "
        f"frames [{frames}]"
    )


def shown(state: State, *, with_reader: bool) -> dict[str, object]:
    """The state for a reader of a trace."""
    marker = state.marker
    slots = [", ".join(map(_slot, pair)) for pair in (marker.shown, marker.disk)]
    parts: dict[str, object] = {"marker": f"{slots[0]}; on the disk {slots[1]}"}
    for epoch, file in enumerate(state.files, 1):
        parts[f"file of epoch {epoch}"] = _file(epoch, file)
    for number, owner in enumerate(state.owners, 1):
        knows = f", epoch {owner.epoch}, knows {named(owner.known)}" if owner.epoch else ""
        parts[f"owner {number}"] = _AT[owner.at] + knows
    if with_reader:
        parts["reader"] = f"has read {named(state.reader.known)}, sure: {state.reader.sure}"
    parts["acknowledged or shown"] = named(state.committed)
    return parts
