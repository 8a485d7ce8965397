"""What a recovery found, and what it could not find. Views of this module are part of the API."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class RecoveryState(StrEnum):
    """What is the matter with a container."""

    NEW = "new"
    """It was never opened: there is nothing to recover."""
    HEALTHY = "healthy"
    """Its log is whole, and long-term storage has all that it should: opening it loses nothing."""
    DAMAGED = "damaged"
    """Its log is whole, and long-term storage is not; what its log still holds is not lost."""
    LOST = "lost"
    """Its log is gone, or is not the one that belongs to its chunks."""
    UNFINISHED = "unfinished"
    """A recovery died before it had made the new log; nothing more is lost by finishing it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRange:
    """Bytes of a segment that its rows name and long-term storage lacks.

    Attributes:
        offset: of the first of them in the segment.
        length: how many there are.
        chunk: name of the chunk that should hold them.
        reason: what is the matter with that chunk.
    """

    offset: int
    length: int
    chunk: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRecovery:
    """What is left of one segment.

    Attributes:
        name: of the segment.
        start_offset: first readable offset.
        length: everything from ``start_offset`` up to here was recovered, but for ``lost``. What
            was appended beyond it is lost; how much that is, is unknown.
        replayed: bytes of ``length`` that came from frames of an older log.
        sealed: whether it stays sealed, at ``length``.
        missing: bytes that are lost for certain: those of a sealed segment up to its seal, and
            those below its start that were truncated anyway are not counted. 0 when none is known.
        lost: bytes below ``length`` that are in no chunk any more; reads of them fail.
        kept: bytes that are in no chunk any more either, but in tier 1: frames of the log hold
            them. A recovery writes them into new chunks; without one, reads of them fail.
    """

    name: str
    start_offset: int
    length: int
    replayed: int
    sealed: bool
    missing: int
    lost: tuple[LostRange, ...] = ()
    kept: tuple[LostRange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryReport:
    """What a recovery of one container did, or would do.

    Attributes:
        container: its index.
        state: what is the matter with it.
        reason: why its log does not count; empty when it does.
        damage: what is damaged or missing on long-term storage itself, so that an older state has
            to serve; empty when its newest one does.
        harm: system files that are damaged or missing, of those that the state needs or may fall
            back to; a recovery writes them again. Nothing is lost by them alone. With a lost log
            only a look tells them.
        done: whether anything was written; false for a dry run and for what needs no recovery.
        lineage: of the history that ends here, a uuid; empty for a new container.
        new_lineage: of the one that begins; ``None`` when none does.
        epoch: that the recovery worked under; ``None`` when it wrote nothing.
        cut_version: table version up to which the tables were found on long-term storage.
        lost_version: table version up to which updates were acknowledged, as a file on long-term
            storage shows; those above ``cut_version`` that no frame gave back are lost. ``None``
            when nothing shows that any are.
        frames_replayed: frames of the older log that continue the cut and were taken.
        frames_left: frames of it that do not, and were not.
        left_because: why the first of them does not; empty when there is none.
        set_aside: where the older log is now; ``None`` when there was none, or nothing was written.
        segments: every segment that there is after the recovery, in the order of names; none for
            a state that is ``new``, ``healthy`` or ``unfinished``.
        warnings: what was passed over on long-term storage, and what to change about the place of
            the log.
        store: why the object ``system/store`` is written again; empty when it is whole.
    """

    container: int
    state: RecoveryState
    reason: str = ""
    damage: str = ""
    harm: tuple[str, ...] = ()
    done: bool = False
    lineage: str = ""
    new_lineage: str | None = None
    epoch: int | None = None
    cut_version: int = 0
    lost_version: int | None = None
    frames_replayed: int = 0
    frames_left: int = 0
    left_because: str = ""
    set_aside: str | None = None
    segments: tuple[SegmentRecovery, ...] = ()
    warnings: tuple[str, ...] = ()
    store: str = ""

    @property
    def needs_recovery(self) -> bool:
        """Whether a recovery has something to do that was not done."""
        if self.done:
            return False
        kept = any(segment.kept for segment in self.segments)
        mends = self.state is RecoveryState.DAMAGED and bool(self.harm or self.damage or kept)
        lost = self.state in (RecoveryState.LOST, RecoveryState.UNFINISHED)
        return lost or mends or bool(self.store)
