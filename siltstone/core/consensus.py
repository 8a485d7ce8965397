"""The contract of consensus: one order of the changes of each collection, without a server.

A collection is a sequence of *diffs* with dense *seqnos* from 1 on. Any number of processes add to
it, and each seqno is given once. A *rollup* is the state after one seqno, kept as an object; what
is in it, only the caller knows. Diffs below a rollup may be forgotten.

The division of labour: a caller holds a ``Tip``, which says how far it knows a collection, together
with the state at that seqno. It gives the tip to each call and takes a new one from each answer.
Whether what was found may be believed is decided here and nowhere else, so no caller can get that
wrong: a tip is made by a consensus alone, and every answer is checked before it is given.

Only the contract lives here. Implementations are synchronous and thread-safe; ``siltstone.testing.
consensus_contract`` is the suite that each of them has to pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from siltstone.core.records.collection_entry import Diff, Rollup


@dataclass(frozen=True, slots=True, kw_only=True)
class Tip:
    """How far a caller knows a collection. Only a consensus makes one.

    Attributes:
        collection_id: 16 bytes.
        seqno: of the newest diff that is known, at least 1.
        written_ms: the time of that diff; the next one has a later time.
        settled: the newest rollup that was linked *before* ``seqno``. ``truncate`` goes as far.
        anchor: the newest rollup that was linked up to ``seqno``; mostly the same.
        recent: the newest diffs up to ``seqno``, none at or below the anchor's seqno: what the next
            entry repeats.
    """

    collection_id: bytes
    seqno: int
    written_ms: int
    settled: Rollup
    anchor: Rollup
    recent: tuple[Diff, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A collection as it is, from a rollup on. What a caller knew before, it forgets.

    Attributes:
        tip: what is known now.
        rollup: the one that ``state`` is from.
        state: the bytes that ``put_rollup`` was given.
        diffs: those of ``rollup.seqno + 1`` to ``tip.seqno``.
    """

    tip: Tip
    rollup: Rollup
    state: bytes
    diffs: tuple[Diff, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """What follows a tip.

    Attributes:
        tip: what is known now.
        diffs: those after the tip that was given, up to this one; none if nothing is new.
    """

    tip: Tip
    diffs: tuple[Diff, ...]


Progress: TypeAlias = Followed | Opened
"""How a caller gets from its state to a newer one: by diffs, or by a new beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """The diff is part of the collection, once.

    Attributes:
        progress: leads to a state that has it; others' diffs may follow it.
    """

    progress: Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """The diff is no part of the collection, and never will be: its seqno went to another one.

    Attributes:
        progress: leads to a state that has at least that one. Run the command again on it.
    """

    progress: Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecided:
    """The diff is below the newest rollup; only the state can tell whether it is in there.

    It will not be there later if it is not there now. So a command that may be repeated is run
    again, and one that may not needs a trace of itself in the state, such as a sequence.

    Attributes:
        progress: leads to the state that tells.
    """

    progress: Opened


class Consensus(Protocol):
    """Collections by their ids. Thread-safe. What is said to be committed is durable.

    Every method may raise ``ChunkError`` if long-term storage does not answer, and
    ``CorruptDataError`` (``LostDataError`` if it is gone) for what is damaged; a mutation that
    raises one of them may be repeated, except where it says otherwise.
    """

    def keys(self) -> Iterator[bytes]:
        """Yield the ids of all collections that have a first diff, in the order of their bytes.

        One that is begun meanwhile may or may not be seen.
        """
        ...

    def put_rollup(self, collection_id: bytes, seqno: int, state: bytes) -> Rollup:
        """Keep a state, durably; nothing refers to it before ``begin`` or ``commit`` links it.

        Args:
            collection_id: 16 bytes.
            seqno: of the state; 0 for that of a collection which is to be begun.
            state: at least 1 byte.

        Raises:
            ChunkError: it may be there, unlinked. Another call makes another one.
        """
        ...

    def begin(self, collection_id: bytes, rollup: Rollup, diff: Diff) -> Opened:
        """Give a collection its first diff, unless it has one; then open it, in either case.

        Args:
            collection_id: 16 bytes.
            rollup: of seqno 0, by ``put_rollup``, for this call alone: it is deleted if another
                caller was first.
            diff: of seqno 1; it says that the state names ``rollup``. Its token is replaced.

        Raises:
            OutcomeUnknownError: whether it has one is not known. Call again, with another rollup.
        """
        ...

    def open(self, collection_id: bytes) -> Opened | None:
        """Return a collection as it is; ``None`` if it has no diff."""
        ...

    def refresh(self, tip: Tip) -> Progress:
        """Return everything that follows ``tip``.

        It holds for a moment after the call began: if it says that nothing follows, nothing did.
        """
        ...

    def poll(self, tip: Tip) -> Progress | None:
        """Return what follows ``tip`` with fewer requests; ``None`` if nothing was seen.

        ``None`` proves nothing, ever: a caller that stays at one tip has to ``refresh`` at times.
        """
        ...

    def commit(
        self, tip: Tip, diff: Diff, link: Rollup | None = None
    ) -> Committed | Taken | Undecided:
        """Add one diff directly after ``tip``.

        Args:
            tip: what ``diff`` was made for.
            diff: of ``tip.seqno + 1`` and later than ``tip.written_ms``. Its token is replaced.
            link: a rollup by ``put_rollup``, newer than ``tip.anchor`` and at most of
                ``tip.seqno``, that ``diff`` adds to the state.

        Raises:
            OutcomeUnknownError: whether it was added is unknown, and it may still be added as long
                as no other diff has its seqno. Refresh; the handle stays usable.
            ChunkError: it was not added, and never will be.
            ValueError: it is too large to be one object.
        """
        ...

    def replay(self, tip: Tip, rollup: Rollup) -> Opened | None:
        """Return the state of ``rollup`` and every diff from there up to ``tip``.

        Args:
            tip: where to end.
            rollup: one that the state at ``tip`` names.

        Returns:
            ``None`` if it was truncated meanwhile.
        """
        ...

    def truncate(self, tip: Tip, floor: Rollup, rollups: Sequence[Rollup]) -> None:
        """Forget the diffs up to ``floor``, and the rollups before it.

        Any caller may do it, twice, or die in the middle: what is left is deleted by a repetition
        or by ``sweep``.

        Args:
            tip: what is known.
            floor: the oldest rollup that is to stay, one of ``rollups``, not newer than
                ``tip.settled``.
            rollups: all that the state at ``tip`` names.
        """
        ...

    def sweep(self, tip: Tip, rollups: Sequence[Rollup]) -> int:
        """Delete what was never linked, or arrived after it had been forgotten.

        Args:
            tip: what is known.
            rollups: all that the state at ``tip`` names.

        Returns:
            How many objects were deleted.
        """
        ...


@runtime_checkable
class ClosableConsensus(Consensus, Protocol):
    """A consensus that holds something besides long-term storage, such as a connection."""

    def close(self) -> None:
        """Give it back. Called once, after the last call of another method has ended."""
        ...


@runtime_checkable
class CommitsOnLoop(Protocol):
    """A consensus whose commits wait for no thread: they are awaited on the loop of its callers."""

    async def commit_on_loop(
        self, tip: Tip, diff: Diff, link: Rollup | None = None
    ) -> Committed | Taken | Undecided:
        """``Consensus.commit``, on the loop on which the collections are used."""
        ...


@runtime_checkable
class PinnableConsensus(Protocol):
    """A consensus whose states are copied by readers that cannot add a lease of their own."""

    def is_pinned(self) -> bool:
        """Whether such a reader needs the objects of a state that it was shown.

        Called before objects are deleted, after a state was known that does not need them; while it
        is so, none is. A reader pins before it looks, so it is shown that state or a newer one.

        Raises:
            ChunkError: long-term storage did not answer.
        """
        ...


@runtime_checkable
class SecurableConsensus(Protocol):
    """A consensus whose newest commits are durable in another place than long-term storage."""

    def secure(self) -> None:
        """Bring all that was committed until now to long-term storage.

        Called before objects are deleted that no state needs from now on: an older state needs
        them, and it must not come back when the other place is lost.

        Raises:
            ChunkError: long-term storage did not answer.
        """
        ...
