"""The contract of the tier-1 log: durable, in order, one owner at a time.

Only the contract lives here. Logs are synchronous and thread-safe; frames have one byte format for
all of them, made by ``siltstone.core.records.frame``. The states of a handle are here too, and what
each of them refuses: the same in every log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, runtime_checkable

from siltstone.core.constants import LINEAGE_BYTES, Buffer
from siltstone.core.errors import ClosedError, LogError, Outcome
from siltstone.core.records.frame import Frame

OWNER_CHARACTERS_MAX = 200
"""Longest description of an owner, in characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOwner:
    """The present or last holder of the log, for people to read.

    Attributes:
        epoch: the newest epoch that was claimed; 0 if none ever was.
        alive: whether a live holder is known.
        description: host, process id and the like, as the holder described itself.
    """

    epoch: int
    alive: bool
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCondition:
    """What a person should change about the place of a log, for people to read.

    Attributes:
        damage: why a claim would be refused although all frames can be read, so that only a
            recovery can continue; empty when it would not.
        refusals: why it would be refused until a person changes something; empty when it would not.
        warnings: what to know although it would not.
    """

    damage: str = ""
    refusals: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class LogReader(Protocol):
    """A view of a log without a claim; it writes nothing and fences no owner."""

    def epoch(self) -> int:
        """The newest claimed epoch; 0 when there was never a claim."""
        ...

    def lineage(self) -> bytes | None:
        """The lineage of the newest frame, or of the newest claim when there is none; 16 bytes."""
        ...

    def first(self) -> int:
        """Index of the first frame that is kept; equals ``end()`` when there is none."""
        ...

    def end(self) -> int:
        """One above the index of the newest frame that may be shown; 0 in a log without history."""
        ...

    def read(self, from_index: int) -> Iterator[Frame]:
        """Yield committed frames in order up to the end at the time of the call.

        A frame is shown only when its durability no longer depends on its writer.

        Each is verified as it is yielded and not kept: a reader has one in memory. Any
        kept index may be asked for, in any order and by several threads, for readers of containers
        leave bytes in the log and fetch them by this call. So it should cost little more than what
        it yields; a log that cannot seek is right, and slow.

        Raises:
            LogTruncatedError: ``from_index`` lies below ``first()``.
            CorruptDataError: a frame is damaged and a valid one follows it.
        """
        ...

    def dropped_tail(self) -> int:
        """Bytes of a torn last frame that were ignored at the end of the log, else 0."""
        ...

    def close(self) -> None:
        """Free what this object made. Idempotent."""
        ...


@runtime_checkable
class ReplaceableLog(Protocol):
    """What a log offers besides ``FencedLog`` so that a recovery can begin a new one in its place.

    A handle does this before it claims, and may claim afterwards.
    """

    def fence_all(self) -> None:
        """Let no older handle, in any process, acknowledge any more; the log may be damaged.

        Raises:
            LogError: a call failed; it may be repeated.
        """
        ...

    def set_aside(self) -> str | None:
        """Keep what the log holds in another place, durably; what is left is a log without history.

        Call it after ``fence_all``. Returns where it is, for people to read; ``None`` when there
        was nothing.

        Raises:
            LogError: a call failed; it may be repeated.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlace:
    """Where a log is looked for, for people to read.

    Attributes:
        kind: what ``name`` is, such as ``path`` or ``topic``.
        name: of the place.
        exists: false if there is no such place, so that a setting may be wrong, or a disk not
            mounted; true also where that is not looked at.
    """

    kind: str
    name: str
    exists: bool = True


@runtime_checkable
class PlacedLog(Protocol):
    """What a log offers besides ``FencedLog`` so that errors can name its place."""

    def place(self) -> LogPlace:
        """Where it is; also of a handle that is closed.

        Raises:
            LogError: a call failed.
        """
        ...


@runtime_checkable
class DamagedLog(Protocol):
    """What a log offers besides ``FencedLog`` so that a recovery gets the frames before damage."""

    def open_to_damage(self) -> LogReader:
        """A view as of ``open_read``, of a log that ends before its first damaged frame.

        Its ``read`` yields the frames before it, and then raises ``CorruptDataError``.
        """
        ...


@runtime_checkable
class ExaminedLog(Protocol):
    """What a log offers besides ``FencedLog`` when its place may be unfit for it."""

    def condition(self) -> LogCondition:
        """Look at the place of a log that is there, without a claim.

        Raises:
            LogError: a call failed.
        """
        ...


@runtime_checkable
class TendedLog(Protocol):
    """What a log offers besides ``FencedLog`` when other work makes its appends quicker."""

    def tend(self) -> float:
        """Do some work that makes appends quicker; return the seconds until the next call, above 0.

        On a thread of its own, while other calls may run. A handle that is not claimed does
        nothing. No append needs it.

        Raises:
            LogError: a call failed; the handle is poisoned.
        """
        ...


@runtime_checkable
class FencedLog(Protocol):
    """The log of one container: one frame in flight, durable when ``append`` returns.

    Any failure or doubt poisons the handle for ever: every later call but ``newest_epoch`` and
    ``close`` raises ``LogError``. ``StorageFullError`` and a refused claim leave it usable. A
    closed handle raises ``ClosedError``. A handle claims once; before that it only answers
    ``newest_epoch``, ``holder`` and ``open_read``, and everything else is a ``LogError`` that
    changes nothing.
    """

    @property
    def frame_bytes_max(self) -> int:
        """Largest frame, header and trailer included, in bytes; at most 8 MiB."""
        ...

    def claim(self, *, lineage: bytes, new: bool, above: int, takeover: bool, owner: str) -> int:
        """Take the log; return an epoch above ``above`` and above every epoch of the log.

        Afterwards no older handle, in any process, can have an append acknowledged: its frame is
        either before the claim and is read by this handle, or void.

        Args:
            lineage: 16 bytes that every frame of this handle carries.
            new: the container is new: the log must hold no frame. Otherwise it must be of
                ``lineage``.
            above: the highest epoch that was seen elsewhere, at least 0.
            takeover: claim although a live holder is known.
            owner: what others are told of this holder, ``OWNER_CHARACTERS_MAX`` at most.

        Raises:
            StoreInUseError: a live holder exists and ``takeover`` is false.
            LogLostError: empty, of another lineage, or not empty for a new container; nothing was
                written.
            StorageFullError: no room for the first file; nothing changed for the older owner or all
                of it.
            FencedError: another claim was faster.
            CapabilityError: the log cannot be kept where it is configured to be.
            CorruptDataError: the log is damaged.
        """
        ...

    @property
    def epoch(self) -> int:
        """The epoch of this handle; 0 before the claim."""
        ...

    def append(self, buffers: Sequence[Buffer], *, count: int, reserve: bool = False) -> int:
        """Append one frame of ``count`` pieces whose bytes are ``buffers``; return its index.

        Indexes are dense. The frame is atomic, and durable on return.

        Args:
            buffers: the frame's body in order; not kept.
            count: number of pieces in the body.
            reserve: the frame may use the room that is kept for frames which help to free space.

        Raises:
            StorageFullError: no room; nothing was written, the handle stays usable.
            FencedError: a newer epoch was found. The frame is void, unless it came before that
                claim: then the claimant reads it. The handle is poisoned.
            LogError: anything else; outcome unknown, the handle is poisoned.
            ValueError: the frame would exceed ``frame_bytes_max``; nothing was written.
        """
        ...

    def first(self) -> int:
        """Index of the first frame that is kept; equals ``end()`` when there is none."""
        ...

    def end(self) -> int:
        """One above the index of the newest frame; 0 in a log without history."""
        ...

    def read(self, from_index: int) -> Iterator[Frame]:
        """Yield committed frames from ``from_index`` up to ``end()``; see ``LogReader.read``."""
        ...

    def dropped_tail(self) -> int:
        """Bytes of a torn last frame that the claim found and voided, else 0."""
        ...

    def truncate(self, before_index: int) -> None:
        """Forget frames below ``before_index``, at the log's own granularity. Oldest first.

        Raises:
            ValueError: ``before_index`` lies beyond ``end()``.
            FencedError: a newer epoch was found; nothing was removed. The handle is poisoned.
        """
        ...

    def newest_epoch(self) -> int:
        """The highest epoch that was ever claimed, read afresh; above ``epoch`` means fenced.

        A poisoned handle answers too: an owner that failed has to know whether it is fenced.
        """
        ...

    def holder(self) -> LogOwner:
        """The present or last holder of the log; needs no claim."""
        ...

    def open_read(self) -> LogReader:
        """A view of the log that needs no claim."""
        ...

    def close(self) -> None:
        """Append an ``End`` frame if claimed and healthy, then free everything. Idempotent."""
        ...


class HandleState(Enum):
    """A handle goes down this list, or past some of it, and never back."""

    UNCLAIMED = "unclaimed"
    CLAIMED = "claimed"
    POISONED = "poisoned"
    CLOSED = "closed"


class LogHandle:
    """What the handles of all logs have. Subclasses set ``_state`` and ``_epoch``."""

    def __init__(self) -> None:
        self._state = HandleState.UNCLAIMED
        self._epoch = 0

    @property
    def epoch(self) -> int:
        """The epoch of this handle; 0 before the claim."""
        return self._epoch

    def _check_claim(self, lineage: bytes, above: int, owner: str) -> None:
        """Refuse impossible arguments of a claim with ``ValueError``."""
        if len(lineage) != LINEAGE_BYTES or above < 0 or len(owner) > OWNER_CHARACTERS_MAX:
            raise ValueError("impossible argument of a claim")

    def _require(self, state: HandleState) -> None:
        """Raise ``ClosedError`` or ``LogError`` unless this is the state."""
        if self._state is state:
            return
        if self._state is HandleState.CLOSED:
            raise ClosedError("the log was closed")
        if self._state is HandleState.POISONED:
            raise LogError("the handle is poisoned", epoch=self._epoch, outcome=Outcome.NOT_APPLIED)
        raise LogError("the log was not claimed", outcome=Outcome.NOT_APPLIED)

    def _require_usable(self) -> None:
        """Refuse a handle that is poisoned or closed."""
        if self._state is not HandleState.UNCLAIMED:
            self._require(HandleState.CLAIMED)

    def _require_open(self) -> None:
        """Refuse a handle that is closed: one that is poisoned still tells the newest epoch."""
        if self._state is HandleState.CLOSED:
            self._require(HandleState.CLAIMED)
