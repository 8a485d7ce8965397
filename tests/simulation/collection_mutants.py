"""Rules of collections, each left out: of their entries, holds, appends, bookmarks and garbage."""

from __future__ import annotations

from functools import partial

from tests.simulation.mutant import Mutant

_collections = partial(Mutant, story="collections")

ENTRY_MUTANTS = (
    _collections(
        "an entry counts without a look at its anchor",
        "collections/consensus/objects.py",
        """        if found is None or not attempts.answered(
            lambda: self._files.has_rollup(tip.collection_id, tip.anchor)
        ):
""",
        "        if found is None:\n",
    ),
    _collections(
        "what was read counts without a look at the anchor",
        "collections/consensus/objects.py",
        """        if not self._files.has_rollup(tip.collection_id, tip.anchor):
            return None
""",
        "",
    ),
    _collections(
        "entries are deleted before the rollups under them",
        "collections/consensus/objects.py",
        """        self._files.delete([rollup_name(tip.collection_id, rollup) for rollup in older])
        begin = max(FIRST_SEQNO, min(rollup.seqno for rollup in older)) + 1
        seqnos = range(begin, floor.seqno + 1)
        self._files.delete([entry_name(tip.collection_id, seqno) for seqno in seqnos])
""",
        """        begin = max(FIRST_SEQNO, min(rollup.seqno for rollup in older)) + 1
        seqnos = range(begin, floor.seqno + 1)
        self._files.delete([entry_name(tip.collection_id, seqno) for seqno in seqnos])
        self._files.delete([rollup_name(tip.collection_id, rollup) for rollup in older])
""",
    ),
    _collections(
        "the first entry is deleted",
        "collections/consensus/objects.py",
        "begin = max(FIRST_SEQNO, min(rollup.seqno for rollup in older)) + 1",
        "begin = min(rollup.seqno for rollup in older) + 1",
    ),
    _collections(
        "no listing after the first entry",
        "collections/consensus/objects.py",
        """            self._files.delete([rollup_name(collection_id, rollup)])
        return self._opened(collection_id)
""",
        """            self._files.delete([rollup_name(collection_id, rollup)])
            return self._opened(collection_id)
        state = self._files.state(collection_id, rollup)
        if state is None:
            return self._opened(collection_id)
        return Opened(tip=tip_of(entry), rollup=rollup, state=state, diffs=(entry.diff,))
""",
    ),
    _collections(
        "a refusal by a state that may be old",
        "collections/shared_state.py",
        "is_certain = after is before and request.began <= self._certain",
        "is_certain = after is before",
    ),
    _collections(
        "a snapshot of a state that may be old",
        "collections/async_collection.py",
        """tuple(columns), diffs=diffs)
        state = await self._shared.refresh()
""",
        """tuple(columns), diffs=diffs)
        state = self._shared.state
""",
    ),
)

HOLD_MUTANTS = (
    _collections(
        "parts are deleted though a hold covers them",
        "collections/state/garbage_plan.py",
        "if state.seqno <= held and _is_old(state, now_ms, delay_ms)",
        "if _is_old(state, now_ms, delay_ms)",
    ),
    _collections(
        "a lease ends by a clock, without an entry",
        "collections/state/garbage_plan.py",
        "    held = lowest_hold(newest)\n",
        """    held = min(
        [newest.seqno]
        + [
            row.hold
            for row in (*newest.readers.values(), *newest.writers.values())
            if row.hold and row.renewed_ms <= now_ms < row.renewed_ms + row.lease_ms
        ]
    )
""",
    ),
    _collections(
        "a hold moves before what is read next is held",
        "collections/reader_lease.py",
        "hold = self._shared.state.seqno if self._reads is None else self._reads",
        "hold = self._shared.state.seqno",
    ),
    _collections(
        "a lease ends by the row that it had before",
        "collections/state/next_state.py",
        "readers=_living(after.readers, now_ms, own_readers),",
        """readers={
            key: row
            for key, row in after.readers.items()
            if key in own_readers or not lease_ended(before.readers.get(key, row), now_ms)
        },""",
    ),
    _collections(
        "the since passes bookmarks",
        "collections/state/frontiers.py",
        """    for mark in state.bookmarks.values():
        held = min(held, mark.since)
""",
        "",
    ),
    _collections(
        "the since passes readers",
        "collections/state/frontiers.py",
        """    for reader in state.readers.values():
        held = min(held, reader.since)
""",
        "",
    ),
    _collections(
        "the token of a bookmark is not compared",
        "collections/state/bookmarks.py",
        "    if actual != expected:\n",
        "    if row is None and expected is not None:\n",
    ),
)

APPEND_MUTANTS = (
    _collections(
        "the sequence of a writer is not compared",
        "collections/state/appends.py",
        "    if row is not None and row.sequence == append.sequence:\n",
        "    if row is not None and row.sequence == append.sequence < 0:\n",
    ),
    _collections(
        "an expected upper is not compared",
        "collections/state/appends.py",
        "lower = current if append.expected is None else append.expected",
        "lower = current",
    ),
    _collections(
        "what no state tells of is appended again",
        "collections/async_writer.py",
        "        if row is not None and row.sequence < self._append.sequence:\n",
        "        if row is None or row.sequence < self._append.sequence:\n",
    ),
    _collections(
        "a batch can be appended twice",
        "collections/state/uploads.py",
        "replace(row, hold=max(row.hold, beyond[row.id]))",
        "replace(row, hold=row.hold)",
    ),
    _collections(
        "a merge advances times beyond the since",
        "collections/compaction.py",
        "            since=merge.since,\n            part_size",
        "            since=merge.since + 2,\n            part_size",
    ),
    _collections(
        "a listener reads times that were merged",
        "collections/async_subscription.py",
        "if batch.since > self.frontier or batch.lower < self.frontier == batch.since:",
        "if batch.since > self.frontier + 10**18:",
    ),
    _collections(
        "a sweep looks at the state before it lists",
        "collections/garbage.py",
        """                listed, _ = await self._objects.listed()
                state = await self._shared.refresh()
                tip = self._shared.tip
""",
        """                state = await self._shared.refresh()
                tip = self._shared.tip
                listed, _ = await self._objects.listed()
""",
    ),
    _collections(
        "a sweep takes what a writer may still append",
        "collections/state/sweep_plan.py",
        "if name not in named and (name.writer not in holds or name.born < holds[name.writer])",
        "if name not in named",
    ),
    _collections(
        "garbage goes after the entry that says so",
        "collections/garbage.py",
        "        if not await self._delete(garbage.parts):\n",
        """        await self._shared.run(partial(note_collected, through=garbage.through))
        if not await self._delete(garbage.parts):
""",
    ),
)

COLLECTION_MUTANTS = (*ENTRY_MUTANTS, *HOLD_MUTANTS, *APPEND_MUTANTS)
