"""Rules of keyspaces, each left out: of their batches, rows, values, snapshots and garbage."""

from __future__ import annotations

from functools import partial

from tests.simulation.mutant import Mutant

_keyspaces = partial(Mutant, story="keyspaces")

BATCH_MUTANTS = (
    _keyspaces(
        "a change does not see those that are in flight",
        "objects/batches.py",
        "        if found is None and self._flight is not None:\n            found = self._flight",
        "        if False:\n            found = self._flight",
    ),
    _keyspaces(
        "a commit whose outcome is unknown is tried again",
        "objects/batches.py",
        "repeat = isinstance(error, ConditionFailedError) and self._repeats < REPEATS_MAX",
        "repeat = type(error).__name__ in ('ConditionFailedError', 'OutcomeUnknownError')",
    ),
    _keyspaces(
        "what fills goes on after a batch that failed",
        "objects/batches.py",
        """        if self._filling is not None:
            self._requests.put_back(self._filling.waiting)
            self._filling = None
        if self._is_to_repeat(error):
""",
        "        if self._is_to_repeat(error):\n",
    ),
    _keyspaces(
        "a condition is not looked at",
        "objects/evaluation.py",
        "    if current == expected:\n        return None\n",
        "    if current is not None or current == expected:\n        return None\n",
    ),
    _keyspaces(
        "a caller is told before the commit",
        "objects/batches.py",
        """        if batch.keys or state != batch.begin:
            keys, values""",
        """        for told in zip(batch.waiting, batch.numbers, batch.found, strict=True):
            tell(*told, pause=False)
        if batch.keys or state != batch.begin:
            keys, values""",
    ),
)

ROW_MUTANTS = (
    _keyspaces(
        "terms that an object has no more stay in the index",
        "objects/evaluation.py",
        "            rows += [(row_key, None) for row_key in index_keys(key, gone)]\n",
        "",
    ),
    _keyspaces(
        "a large value that was replaced stays live",
        "objects/evaluation.py",
        "rows += _moved(LargeStatus.LIVE, LargeStatus.DEAD, old.large.number, old)",
        "pass",
    ),
    _keyspaces(
        "what has expired is visible",
        "objects/async_keyspace.py",
        "return head if head is not None and head.is_visible(now_s) else None",
        "return head if now_s else None",
    ),
)

VALUE_MUTANTS = (
    _keyspaces(
        "a footer that a dead owner left is not written",
        "objects/open_space.py",
        "                segments.finish(row)\n",
        "                continue\n",
    ),
    _keyspaces(
        "the end of a footer is no commit with a row",
        "objects/value_segments.py",
        """            await self._store.commit(
                [
                    Append(segment.name, footer[position - row.length :]),
                    _put(self._names.ledger, row),
                ],
                [LengthIs(segment.name, position)],
            )
""",
        """            rest = footer[position - row.length :]
            await segment.append(rest, expected_offset=position)
            assert Append and LengthIs
""",
    ),
    _keyspaces(
        "a tombstone goes although older records of its object stay",
        "objects/compaction_plan.py",
        "            return header if retains or self._has_older(header.sqn) else None\n",
        "            return header if retains else None\n",
    ),
    _keyspaces(
        "SQNs that were lost with tier 1 are given again",
        "objects/lost_changes.py",
        "    if not recoveries:\n",
        "    if recoveries or not recoveries:\n",
    ),
    _keyspaces(
        "a backup lacks the segment that takes records",
        "objects/open_space.py",
        "                    self._segments.end(found.state.number)\n",
        "                    pass\n",
    ),
    _keyspaces(
        "what a compaction wrote is not named",
        "objects/value_compaction.py",
        "        await self._switch(run, rows)\n        return",
        "        await self._switch(run, [])\n        return",
    ),
)

GARBAGE_MUTANTS = (
    _keyspaces(
        "value segments go that a snapshot needs",
        "objects/value_tasks.py",
        "is_needed = oldest is not None and oldest < found.version",
        "is_needed = oldest is not None and oldest < 0",
    ),
    _keyspaces(
        "large values go that a snapshot needs",
        "objects/large_tasks.py",
        "is_shown = row.sqn and oldest is not None and oldest < found.version",
        "is_shown = False and oldest",
    ),
    _keyspaces(
        "large values go that are being read",
        "objects/large_use.py",
        "if number in self._held or number in self._deleting:",
        "if number in self._deleting:",
    ),
    _keyspaces(
        "what a compaction made in vain stays",
        "objects/value_tasks.py",
        "        if await _is_given_up(space, info):\n",
        "        if not await _is_given_up(space, info):\n",
    ),
    _keyspaces(
        "what is left of an upload stays",
        "objects/large_tasks.py",
        "    await _end_uploads(space)\n",
        "",
    ),
)

KEYSPACE_MUTANTS = (*BATCH_MUTANTS, *ROW_MUTANTS, *VALUE_MUTANTS, *GARBAGE_MUTANTS)
