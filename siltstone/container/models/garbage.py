"""What callers see of garbage: frozen values, no behaviour."""

from __future__ import annotations

from dataclasses import dataclass

from siltstone.core.chunk_storage import ChunkStat


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedDeletion:
    """A chunk whose deletion was tried in vain and set aside for a person.

    Attributes:
        chunk: its key on long-term storage.
        chunk_id: its id.
        attempts: how often it was tried.
        reason: why it failed last.
    """

    chunk: str
    chunk_id: int
    attempts: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PinStatus:
    """A pin that has not expired.

    Attributes:
        name: its key on long-term storage.
        version: the table version that it keeps.
        expires_ms: milliseconds since 1970.
        holds: deletions that wait for it; several pins may hold the same one.
    """

    name: str
    version: int
    expires_ms: int
    holds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GarbageStatus:
    """The garbage of one container.

    Attributes:
        container: its index.
        due: tasks that the next round carries out.
        delayed: deletions whose delay has not passed.
        uncovered: due deletions that wait for a flush of the table log.
        held: due deletions that wait for a pin.
        kept: objects in place that are kept until their adoption is finalised.
        next_due_ms: when the next delayed one is due, milliseconds since 1970; ``None`` without.
        failed_count: deletions that were set aside; ``replay`` gives them new attempts.
        failed: the first 1,000 of them.
        pins: those that have not expired, by name.
    """

    container: int
    due: int
    delayed: int
    uncovered: int
    held: int
    kept: int
    next_due_ms: int | None
    failed_count: int
    failed: tuple[FailedDeletion, ...]
    pins: tuple[PinStatus, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepFinding:
    """One name that a sweep met and that no row names.

    Attributes:
        kind: ``garbage`` (nothing names it, and it is old enough), ``young`` (nothing names it),
            ``waiting`` (a task is to delete it already), ``foreign`` (not a name of ours: never
            touched), ``pin`` or ``manifest`` (expired long ago).
        name: the key on long-term storage.
        length: bytes.
        modified_ms: last change, milliseconds since 1970; 0 when the service does not tell.
        reason: why it is what it is.
    """

    kind: str
    name: str
    length: int
    modified_ms: int
    reason: str

    @classmethod
    def of(cls, kind: str, stat: ChunkStat, reason: str) -> SweepFinding:
        """What is found of a chunk as a listing shows it."""
        return cls(
            kind=kind,
            name=stat.name,
            length=stat.length,
            modified_ms=int(stat.modified_s * 1000),
            reason=reason,
        )
