"""Consensus over objects: each seqno is a name that one caller creates, on storage alone.

An entry is created exclusively and whole under the name of its seqno, so the name has one content,
and repeating a create whose outcome is unknown is safe. What makes it hard is that names of old
entries are deleted: a create that arrives late may succeed under a name that was freed. It counts
for nothing, and its caller must not believe it. These rules keep it so:

1. An entry names its *anchor*, the newest rollup that was linked before it. After an entry was
   made, it counts only if the anchor is still there.
2. What was read after a tip counts only if the tip's anchor is there after the reads.
3. That nothing was found counts only if the anchor is there after that.
4. Rollups are deleted, and that is confirmed, before the entries up to the oldest that stays.
5. The first entry is never deleted. It has no linked rollup before it, so nothing else could tell
   that it is the real one.
6. Truncation ends at a rollup that was linked before the newest entry. So that entry's anchor is
   there when the collection is opened.

Names of rollups are random, and a rollup is acknowledged before it is linked: one that is gone
never returns. While a linked rollup is there, no entry above it was deleted, by rule 4. So an
anchor that is seen after a create or a read proves that none of the names above it was ever freed.
No clock and no delay is involved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from siltstone.collections.consensus.attempts import Attempts
from siltstone.collections.consensus.entry_plan import (
    FIRST_SEQNO,
    check_named,
    first_entry,
    next_entry,
    tip_of,
)
from siltstone.collections.consensus.object_files import ObjectFiles
from siltstone.collections.consensus.object_names import entry_name, rollup_name, rollups_prefix
from siltstone.core.checksums import crc32c
from siltstone.core.chunk_storage import ChunkStorage
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
from siltstone.core.errors import (
    CapabilityError,
    ChunkExistsError,
    ChunkUnavailableError,
    LostDataError,
)
from siltstone.core.records.collection_entry import Diff, Entry, Rollup, encode_entry
from siltstone.core.records.collection_rollup import RolledState, encode_rollup
from siltstone.core.storage.optional_verbs import create_whole, place_of

_NONCE_BYTES: Final = 8
_READS_MAX: Final = 4
"""Entries that are read one by one before a listing says how many there are."""
_LOOKS_MAX: Final = 100
"""Each look after the first means that a truncation went past the one before."""


class ObjectConsensus:
    """Implements ``Consensus`` over any long-term storage that has whole creates.

    Args:
        storage: repeats its reads and deletes itself; not closed here.
        environment: gives randomness and waits.

    Raises:
        CapabilityError: the storage has no whole creates.
    """

    def __init__(self, storage: ChunkStorage, environment: Environment) -> None:
        if not storage.capabilities.whole:
            raise CapabilityError(
                "collections need long-term storage that creates an object whole or not at all",
                storage=place_of(storage),
            )
        self._storage = storage
        self._environment = environment
        self._files = ObjectFiles(storage)

    def keys(self) -> Iterator[bytes]:
        """``Consensus.keys``: one listing for each collection."""
        return self._files.collections()

    def put_rollup(self, collection_id: bytes, seqno: int, state: bytes) -> Rollup:
        """``Consensus.put_rollup``: one create."""
        rolled = RolledState(collection_id=collection_id, seqno=seqno, state=state)
        data = encode_rollup(rolled)
        rollup = Rollup(seqno=seqno, nonce=self._random(), length=len(data), crc=crc32c(data))
        self._storage.create(rollup_name(collection_id, rollup), [data])
        return rollup

    def begin(self, collection_id: bytes, rollup: Rollup, diff: Diff) -> Opened:
        """``Consensus.begin``: a create, a read if another caller was first, and an open."""
        entry = first_entry(collection_id, rollup, replace(diff, token=self._random()))
        attempts = Attempts(self._environment, entry_name(collection_id, FIRST_SEQNO))
        found = self._made(entry, attempts)
        if found is None:
            raise LostDataError("the first entry is gone", where=_where(entry))
        if found != entry:
            # It is not named anywhere: the first entry never changes, and names another one.
            self._files.delete([rollup_name(collection_id, rollup)])
        return self._opened(collection_id)

    def open(self, collection_id: bytes) -> Opened | None:
        """``Consensus.open``: a listing and two reads, and one for each 64 KiB of more diffs."""
        looked = None
        for _ in range(_LOOKS_MAX):
            seqno = self._files.newest(collection_id)
            if seqno is None:
                return None
            entry = self._files.entry(collection_id, seqno)
            opened = None if entry is None else self._from_rollup(entry, entry.rollup)
            if opened is not None:
                return opened
            if seqno == looked:
                raise LostDataError(
                    "what the newest entry of a collection needs is gone",
                    where=entry_name(collection_id, seqno),
                    gone=self._gone(collection_id, seqno),
                )
            looked = seqno
        raise ChunkUnavailableError(
            "entries were deleted faster than they could be read",
            chunk=entry_name(collection_id, FIRST_SEQNO),
            operation="list",
            looks=_LOOKS_MAX,
        )

    def refresh(self, tip: Tip) -> Progress:
        """``Consensus.refresh``: a read for each new entry, one more, and a stat."""
        entry = self._files.entry(tip.collection_id, tip.seqno + 1)
        return self._followed(tip, entry) or self._reopened(tip)

    def poll(self, tip: Tip) -> Progress | None:
        """``Consensus.poll``: one read while nothing is new."""
        entry = self._files.entry(tip.collection_id, tip.seqno + 1)
        if entry is None:
            return None
        return self._followed(tip, entry) or self._reopened(tip)

    def commit(
        self, tip: Tip, diff: Diff, link: Rollup | None = None
    ) -> Committed | Taken | Undecided:
        """``Consensus.commit``: a create and a stat; three requests more for each lost race."""
        entry = next_entry(tip, replace(diff, token=self._random()), link)
        attempts = Attempts(self._environment, _where(entry))
        found = self._made(entry, attempts)
        if found is None or not attempts.answered(
            lambda: self._files.has_rollup(tip.collection_id, tip.anchor)
        ):
            return attempts.answered(lambda: self._settled(tip, entry))
        progress = Followed(tip=tip_of(found), diffs=(found.diff,))
        return Committed(progress=progress) if found == entry else Taken(progress=progress)

    def replay(self, tip: Tip, rollup: Rollup) -> Opened | None:
        """``Consensus.replay``: two reads, and one for each 64 KiB of more diffs."""
        entry = self._files.entry(tip.collection_id, tip.seqno)
        return None if entry is None else self._from_rollup(entry, rollup)

    def truncate(self, tip: Tip, floor: Rollup, rollups: Sequence[Rollup]) -> None:
        """``Consensus.truncate``: deletes in bulk, rollups first."""
        check_named(tip, rollups)
        assert floor in rollups, "the floor is a rollup that the state names"
        assert floor.seqno <= tip.settled.seqno, "the newest entry keeps its anchor"
        older = [rollup for rollup in rollups if rollup.seqno < floor.seqno]
        if not older:
            return
        self._files.delete([rollup_name(tip.collection_id, rollup) for rollup in older])
        begin = max(FIRST_SEQNO, min(rollup.seqno for rollup in older)) + 1
        seqnos = range(begin, floor.seqno + 1)
        self._files.delete([entry_name(tip.collection_id, seqno) for seqno in seqnos])

    def sweep(self, tip: Tip, rollups: Sequence[Rollup]) -> int:
        """``Consensus.sweep``: two listings, and deletes in bulk."""
        check_named(tip, rollups)
        named = {(rollup.seqno, rollup.nonce) for rollup in rollups}
        prefix = rollups_prefix(tip.collection_id)
        unnamed = [
            f"{prefix}{seqno:020}-{nonce:016x}"
            for seqno, nonce in self._files.rollup_keys(tip.collection_id)
            # One that is not newer cannot be linked any more.
            if seqno <= tip.anchor.seqno and (seqno, nonce) not in named
        ]
        self._files.delete(unnamed)
        oldest = min(rollup.seqno for rollup in rollups)
        late = [
            entry_name(tip.collection_id, seqno)
            for seqno in self._files.seqnos(tip.collection_id, below=oldest + 1)
            if seqno != FIRST_SEQNO
        ]
        self._files.delete(late)
        return len(unnamed) + len(late)

    # --- parts of the above -----------------------------------------------------------------------

    def _made(self, entry: Entry, attempts: Attempts) -> Entry | None:
        """Create an entry; return what is under its name then, or ``None`` if that was freed."""
        name, data = _where(entry), encode_entry(entry)
        try:
            attempts.answered(lambda: create_whole(self._storage, name, [data]))
        except ChunkExistsError:
            # An answer may have been lost below this: it may be this very entry.
            attempts.is_doubtful = True
            return attempts.answered(lambda: self._files.entry(entry.collection_id, entry.seqno))
        attempts.is_doubtful = True
        return entry

    def _settled(self, tip: Tip, entry: Entry) -> Committed | Taken | Undecided:
        """Find out by the collection as it is now what became of an entry."""
        opened = self._reopened(tip)
        if entry.seqno <= opened.rollup.seqno:
            return Undecided(progress=opened)
        place = entry.seqno - opened.rollup.seqno - 1
        if place >= len(opened.diffs):
            raise LostDataError("an entry that was created is gone", where=_where(entry))
        found = opened.diffs[place]
        return Committed(progress=opened) if found == entry.diff else Taken(progress=opened)

    def _followed(self, tip: Tip, entry: Entry | None) -> Followed | None:
        """What follows, beginning with ``entry``; ``None`` if that cannot be believed."""
        newest, diffs = entry, list[Diff]()
        for _ in range(_READS_MAX):
            if entry is None:
                break
            newest = entry
            diffs.append(entry.diff)
            entry = self._files.entry(tip.collection_id, entry.seqno + 1)
        if newest is not None and entry is not None:
            newest = self._newest(tip.collection_id)
            rest = None if newest is None else self._back_to(newest, diffs[-1].seqno)
            if rest is None:
                return None
            diffs.extend(rest)
        if not self._files.has_rollup(tip.collection_id, tip.anchor):
            return None
        return Followed(tip=tip if newest is None else tip_of(newest), diffs=tuple(diffs))

    def _newest(self, collection_id: bytes) -> Entry | None:
        seqno = self._files.newest(collection_id)
        return None if seqno is None else self._files.entry(collection_id, seqno)

    def _opened(self, collection_id: bytes) -> Opened:
        opened = self.open(collection_id)
        if opened is None:
            raise LostDataError(
                "the entries of a collection are gone", where=entry_name(collection_id, FIRST_SEQNO)
            )
        return opened

    def _reopened(self, tip: Tip) -> Opened:
        opened = self._opened(tip.collection_id)
        if opened.tip.seqno < tip.seqno:
            raise LostDataError(
                "the newest entries of a collection are gone",
                where=entry_name(tip.collection_id, tip.seqno),
                newest=opened.tip.seqno,
            )
        return opened

    def _from_rollup(self, entry: Entry, rollup: Rollup) -> Opened | None:
        """The diffs from a rollup to an entry, and then the rollup; ``None`` if any of it is gone.

        The rollup is read last: being there then, it proves the rest.
        """
        diffs = self._back_to(entry, rollup.seqno)
        state = None if diffs is None else self._files.state(entry.collection_id, rollup)
        if diffs is None or state is None:
            return None
        return Opened(tip=tip_of(entry), rollup=rollup, state=state, diffs=diffs)

    def _gone(self, collection_id: bytes, seqno: int) -> str:
        """The first object on the way from an entry to its rollup that is not there; for people."""
        entry = newest = self._files.entry(collection_id, seqno)
        while entry is not None and newest is not None and entry.base > newest.rollup.seqno:
            seqno = entry.base
            entry = self._files.entry(collection_id, seqno)
        if entry is None or newest is None:
            return entry_name(collection_id, seqno)
        return rollup_name(collection_id, newest.rollup)

    def _back_to(self, entry: Entry, above: int) -> tuple[Diff, ...] | None:
        """The diffs above a seqno up to those of an entry; ``None`` if one is gone."""
        runs = [entry.diffs]
        while entry.base > above:
            older = self._files.entry(entry.collection_id, entry.base)
            if older is None:
                return None
            runs.append(older.diffs)
            entry = older
        return tuple(diff for run in reversed(runs) for diff in run if diff.seqno > above)

    def _random(self) -> int:
        return int.from_bytes(self._environment.random_bytes(_NONCE_BYTES), "little")


def _where(entry: Entry) -> str:
    return entry_name(entry.collection_id, entry.seqno)
