"""One collection without storage: its entries, rollups and parts in lists and dicts.

Each commit goes through the bytes of its entry, and the next state is what those bytes make.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from siltstone.collections.state.diffs import apply, diff_of
from siltstone.collections.state.next_state import initial_state, next_state
from siltstone.collections.state.part_names import PartName, name_of_part, names_in
from siltstone.collections.state.rollups import link_of, link_rollup, newest_rollup
from siltstone.core.records.collection_batch import CollectionBatch
from siltstone.core.records.collection_entry import Diff, Entry, Rollup, decode_entry, encode_entry
from siltstone.core.records.collection_frontier import AT_COMMIT
from siltstone.core.records.collection_part import CollectionPart, PartFlags
from siltstone.core.records.collection_rows import CollectionSchema
from siltstone.core.records.collection_state import (
    CollectionState,
    Times,
    decode_state,
    encode_state,
)

ID = bytes(range(16))
START_MS = 1_000_000
Command = Callable[[CollectionState, int], tuple[CollectionState, Any]]


@dataclass(frozen=True, slots=True)
class Update:
    """At ``time``, ``diff`` copies of ``key``."""

    key: str
    time: int
    diff: int


def first_state(
    *, times: Times = Times.COUNT, history: int = 5, created_ms: int = START_MS
) -> CollectionState:
    """A collection of one schema in which nothing happened."""
    schema = CollectionSchema(schema_id=0, key_columns=1, arrow=b"first")
    return initial_state(ID, schema, times=times, history=history, created_ms=created_ms)


def committed(state: CollectionState, command: Command, now_ms: int = START_MS) -> CollectionState:
    """The state after one command."""
    after, _ = command(state, now_ms)
    return next_state(state, after, now_ms)


def part_of(updates: Sequence[Update], **fields: Any) -> CollectionPart:
    """A part that says what these updates are; without times, they get theirs at the commit."""
    times = [update.time for update in updates]
    diffs = [update.diff for update in updates]
    flags = PartFlags(0)
    if any(diff != 1 for diff in diffs):
        flags |= PartFlags.HAS_DIFF
    if any(diff < 0 for diff in diffs):
        flags |= PartFlags.HAS_NEGATIVES
    if len(set(times)) > 1:
        flags |= PartFlags.HAS_TIME
    made = CollectionPart(
        length=100 * len(updates),
        crc=0,
        rows=len(updates),
        schema_id=0,
        flags=flags,
        time=times[0],
        time_min=min(times),
        time_max=max(times),
        diff_sum=sum(diffs),
    )
    return replace(made, **fields)


@dataclass
class StateWorld:
    """The collection, as who knows everything sees it."""

    first: CollectionState
    now_ms: int = START_MS
    states: list[CollectionState] = field(default_factory=list)
    diffs: list[Diff] = field(default_factory=list)
    rollups: dict[tuple[int, int], bytes] = field(default_factory=dict)
    parts: dict[PartName, tuple[Update, ...]] = field(default_factory=dict)
    inline: list[tuple[Update, ...]] = field(default_factory=list)
    number: int = 0

    def __post_init__(self) -> None:
        self.states.append(self.first)
        self.commit(partial(link_rollup, rollup=self.roll_up()))

    @property
    def state(self) -> CollectionState:
        return self.states[-1]

    def commit(
        self, *commands: Command, readers: Collection[int] = (), writers: Collection[str] = ()
    ) -> list[Any]:
        """Run commands one after the other; commit what they changed, if anything, as one entry."""
        before = self.state
        after, results = before, []
        for command in commands:
            after, result = command(after, self.now_ms)
            results.append(result)
        if after is before:
            return results
        made = next_state(before, after, self.now_ms, own_readers=readers, own_writers=writers)
        diff = self._sent(before, made)
        assert apply(before, diff) == made
        self.diffs.append(diff)
        self.states.append(apply(before, diff))
        return results

    def _sent(self, before: CollectionState, made: CollectionState) -> Diff:
        """The diff, written into an entry and read from it."""
        anchor = newest_rollup(before) or newest_rollup(made)
        assert anchor is not None
        entry = Entry(
            collection_id=ID,
            seqno=made.seqno,
            base=before.seqno,
            rollup=anchor,
            link=link_of(before, made),
            diffs=(diff_of(before, made, token=made.seqno, actor="a test"),),
        )
        return decode_entry(encode_entry(entry), where="an entry").diff

    def roll_up(self) -> Rollup:
        """Make a rollup of the state, which nothing names yet."""
        data = encode_state(self.state)
        self.number += 1
        rollup = Rollup(seqno=self.state.seqno, nonce=self.number, length=len(data), crc=0)
        self.rollups[rollup.seqno, rollup.nonce] = data
        return rollup

    def upload(self, writer_id: int, born: int, updates: Sequence[Update]) -> CollectionPart:
        """Make the object of a part."""
        self.number += 1
        part = part_of(
            updates, writer=writer_id, born=born, number=self.number, nonce=self.number * 7
        )
        self.parts[name_of_part(part)] = tuple(updates)
        return part

    def put_inline(self, updates: Sequence[Update]) -> CollectionPart:
        """Make a part that is in the state."""
        self.inline.append(tuple(updates))
        data = b"%d" % (len(self.inline) - 1)
        return part_of(updates, inline=data, length=len(data))

    def updates_of(self, part: CollectionPart) -> list[Update]:
        """What a part holds. Without a column of times, its row says the time."""
        if part.inline is None:
            found = self.parts[name_of_part(part)]
        else:
            found = self.inline[int(part.inline)]
        if PartFlags.HAS_TIME in part.flags:
            return list(found)
        return [replace(update, time=part.time) for update in found]

    def updates_in(self, batches: Iterable[CollectionBatch]) -> list[Update]:
        """All updates of batches."""
        return [u for batch in batches for part in batch.parts() for u in self.updates_of(part)]

    def rows_at(self, state: CollectionState, as_of: int) -> dict[str, int]:
        """What a snapshot shows."""
        batches = [batch for batch in state.batches.items if batch.lower <= as_of]
        return counts(u for u in self.updates_in(batches) if u.time <= as_of)

    def kept(self) -> list[CollectionState]:
        """What is read of the collection: the rollup of the floor, and the entries after it."""
        newest = self.state
        base = newest.rollups[newest.floor if newest.floor else min(newest.rollups)]
        state = decode_state(self.rollups[base.seqno, base.nonce], where="a rollup")
        states = [state]
        for diff in self.diffs[base.seqno :]:
            states.append(apply(states[-1], diff))
        return states

    def merged(self, inputs: Sequence[CollectionBatch], since: int) -> list[Update]:
        """What a compaction makes of batches: times advanced to since, and sums."""
        sums: Counter[tuple[str, int]] = Counter()
        for update in self.updates_in(inputs):
            sums[update.key, max(update.time, since)] += update.diff
        return [Update(key, time, diff) for (key, time), diff in sorted(sums.items()) if diff]

    def missing(self, state: CollectionState) -> set[PartName]:
        """The parts that a state names and that do not exist."""
        named = {name for batch in state.batches.items for name in names_in(batch)}
        return named - self.parts.keys()


def counts(updates: Iterable[Update]) -> dict[str, int]:
    """How many copies of each key there are."""
    sums: Counter[str] = Counter()
    for update in updates:
        sums[update.key] += update.diff
    return {key: count for key, count in sums.items() if count}


def waiting(keys: Sequence[str]) -> list[Update]:
    """Rows that get their time at the commit."""
    return [Update(key, AT_COMMIT, 1) for key in keys]
