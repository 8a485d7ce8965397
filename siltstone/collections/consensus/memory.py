"""Consensus in memory, for tests: a list of diffs under a lock, and nothing that can be unknown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock

from siltstone.collections.consensus.entry_plan import (
    check_named,
    first_entry,
    next_entry,
    tip_of,
)
from siltstone.core.checksums import crc32c
from siltstone.core.consensus import (
    Committed,
    Followed,
    Opened,
    Progress,
    Taken,
    Tip,
    Undecided,
)
from siltstone.core.environment import Environment
from siltstone.core.errors import LostDataError
from siltstone.core.records.collection_entry import Diff, Entry, Rollup


@dataclass(slots=True)
class Kept:
    """One collection.

    Attributes:
        entries: by seqno; dense from the floor on.
        states: of the rollups that are there.
    """

    entries: dict[int, Entry] = field(default_factory=dict)
    states: dict[Rollup, bytes] = field(default_factory=dict)


class MemoryConsensus:
    """Implements ``Consensus``. What it holds ends with it.

    Args:
        environment: gives randomness.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._collections: dict[bytes, Kept] = {}
        self._lock = Lock()

    def keys(self) -> Iterator[bytes]:
        """``Consensus.keys``."""
        with self._lock:
            return iter(sorted(key for key, kept in self._collections.items() if kept.entries))

    def put_rollup(self, collection_id: bytes, seqno: int, state: bytes) -> Rollup:
        """``Consensus.put_rollup``."""
        rollup = Rollup(seqno=seqno, nonce=self._random(), length=len(state), crc=crc32c(state))
        with self._lock:
            self._collections.setdefault(collection_id, Kept()).states[rollup] = state
        return rollup

    def begin(self, collection_id: bytes, rollup: Rollup, diff: Diff) -> Opened:
        """``Consensus.begin``."""
        entry = first_entry(collection_id, rollup, replace(diff, token=self._random()))
        with self._lock:
            kept = self._collections[collection_id]
            if kept.entries:
                kept.states.pop(rollup)
            else:
                kept.entries[entry.seqno] = entry
            return _opened(kept)

    def open(self, collection_id: bytes) -> Opened | None:
        """``Consensus.open``."""
        with self._lock:
            kept = self._collections.get(collection_id)
            return _opened(kept) if kept is not None and kept.entries else None

    def refresh(self, tip: Tip) -> Progress:
        """``Consensus.refresh``."""
        with self._lock:
            return _progress(self._kept(tip), tip)

    def poll(self, tip: Tip) -> Progress | None:
        """``Consensus.poll``."""
        progress = self.refresh(tip)
        return progress if progress.tip.seqno > tip.seqno else None

    def commit(
        self, tip: Tip, diff: Diff, link: Rollup | None = None
    ) -> Committed | Taken | Undecided:
        """``Consensus.commit``; never ``Undecided``."""
        entry = next_entry(tip, replace(diff, token=self._random()), link)
        with self._lock:
            kept = self._kept(tip)
            if tip.seqno < max(kept.entries):
                return Taken(progress=_progress(kept, tip))
            kept.entries[entry.seqno] = entry
            return Committed(progress=_progress(kept, tip))

    def replay(self, tip: Tip, rollup: Rollup) -> Opened | None:
        """``Consensus.replay``."""
        with self._lock:
            kept = self._kept(tip)
            if rollup not in kept.states:
                return None
            return _from_rollup(kept, rollup, tip.seqno)

    def truncate(self, tip: Tip, floor: Rollup, rollups: Sequence[Rollup]) -> None:
        """``Consensus.truncate``."""
        check_named(tip, rollups)
        assert floor in rollups, "the floor is a rollup that the state names"
        assert floor.seqno <= tip.settled.seqno, "the newest entry keeps its anchor"
        with self._lock:
            kept = self._kept(tip)
            for rollup in rollups:
                if rollup.seqno < floor.seqno:
                    kept.states.pop(rollup, None)
            for seqno in [seqno for seqno in kept.entries if seqno <= floor.seqno]:
                del kept.entries[seqno]

    def sweep(self, tip: Tip, rollups: Sequence[Rollup]) -> int:
        """``Consensus.sweep``."""
        check_named(tip, rollups)
        with self._lock:
            kept = self._kept(tip)
            unnamed = [
                rollup
                for rollup in kept.states
                if rollup.seqno <= tip.anchor.seqno and rollup not in rollups
            ]
            for rollup in unnamed:
                del kept.states[rollup]
            return len(unnamed)

    def _kept(self, tip: Tip) -> Kept:
        kept = self._collections.get(tip.collection_id)
        if kept is None:
            raise LostDataError(
                "the entries of a collection are gone", where=tip.collection_id.hex()
            )
        return kept

    def _random(self) -> int:
        return int.from_bytes(self._environment.random_bytes(8), "little")


def _opened(kept: Kept) -> Opened:
    newest = kept.entries[max(kept.entries)]
    return _from_rollup(kept, newest.rollup, newest.seqno)


def _from_rollup(kept: Kept, rollup: Rollup, seqno: int) -> Opened:
    diffs = tuple(kept.entries[at].diff for at in range(rollup.seqno + 1, seqno + 1))
    tip = tip_of(kept.entries[seqno])
    return Opened(tip=tip, rollup=rollup, state=kept.states[rollup], diffs=diffs)


def _progress(kept: Kept, tip: Tip) -> Progress:
    if tip.anchor not in kept.states:
        return _opened(kept)
    newest = max(kept.entries)
    diffs = tuple(kept.entries[at].diff for at in range(tip.seqno + 1, newest + 1))
    return Followed(tip=tip_of(kept.entries[newest]), diffs=diffs)
