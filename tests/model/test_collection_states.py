"""All commands of a collection against a list of updates and dicts of rows.

What must hold after each step: a command is refused exactly if the model refuses it, and then
changes nothing; the state has the rows and frontiers of the model, after the bytes of entries and
of rollups too; batches lie end to end from 0 to the upper; frontiers never go back; the since is
not above readers and bookmarks; each part exists that a state from any hold on names, and each one
that may still be appended; a snapshot at any time from the since on shows what the list adds up to,
and the changes after it are those of the list, whatever was compacted, deleted or swept.

Plans of garbage, lists of sweeps, uploads and compactions wait while other things happen, and the
clock jumps by days.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from siltstone.collections.state.appends import (
    Appended,
    CollectionAppend,
    compare_and_append,
    finish,
)
from siltstone.collections.state.bookmarks import remove_bookmark, set_bookmark
from siltstone.collections.state.compaction_plan import plan, plan_whole
from siltstone.collections.state.frontiers import advance_since
from siltstone.collections.state.garbage_plan import CollectionGarbage, garbage_of
from siltstone.collections.state.lives import drop, move_away
from siltstone.collections.state.merges import replace_batches
from siltstone.collections.state.part_names import PartName, name_of_part, names_in
from siltstone.collections.state.readers import leave_reader, register_reader, renew_reader
from siltstone.collections.state.rollups import (
    forget_rollups,
    link_rollup,
    note_collected,
)
from siltstone.collections.state.sweep_plan import parts_to_sweep, rollups_to_sweep
from siltstone.collections.state.writers import leave_writer, register_writer
from siltstone.core import errors
from siltstone.core.records.collection_batch import CollectionBatch, CollectionRun
from siltstone.core.records.collection_frontier import AT_COMMIT, DONE
from siltstone.core.records.collection_part import CollectionPart
from siltstone.core.records.collection_state import Times
from tests.support.collections.state_model import DAY_MS, Refusal, StateModel
from tests.support.collections.state_world import (
    START_MS,
    Command,
    StateWorld,
    Update,
    counts,
    first_state,
)
from tests.support.soak import share_of

WRITERS = ("a", "b", "compactor")
LEASE_MS = 1_000
TOKENS = (bytes(16), bytes(15) + b"1")
names = st.sampled_from(WRITERS[:2])
keys = st.lists(st.sampled_from("pqr"), min_size=1, max_size=3)
small = st.integers(0, 4)
ways = st.sampled_from(["inline", "upload", "keep"])


@dataclass
class Build:
    """A part that was uploaded and may be appended."""

    writer: str
    part: CollectionPart
    updates: list[Update]


class StateMachine(RuleBasedStateMachine):
    """The world is what the commands make; the model is what they should make."""

    @initialize(history=st.sampled_from([1, 3, 10, 2**64 - 1]), times=st.sampled_from(Times))
    def begin(self, history: int, times: Times) -> None:
        self.world = StateWorld(first_state(history=history, times=times))
        self.world.now_ms += 10 * DAY_MS
        self.model = StateModel(history=history, counts_times=times is Times.COUNT)
        self.builds: list[Build] = []
        self.merges: list[tuple[tuple[CollectionBatch, ...], CollectionBatch]] = []
        self.garbage: CollectionGarbage | None = None
        self.listed: list[PartName] = []
        self.last: tuple[CollectionAppend, int] | None = None
        self.sequences = dict.fromkeys(("a", "b", "named"), 0)
        self.uploaded = 0

    @property
    def now(self) -> int:
        return self.world.now_ms

    def do(
        self,
        command: Command,
        refusal: Refusal = None,
        own: Iterable[Any] = (),
        also: Iterable[Command] = (),
    ) -> Any:
        """Run a command, and others in the same entry. The model has already been told."""
        before = self.world.state
        own = set(own)
        try:
            result, *_ = self.world.commit(command, *also, readers=own, writers=own)
        except (errors.SiltstoneError, ValueError) as error:
            found: Refusal = type(error)
            result = None
        else:
            found = None
        assert found == refusal
        if found is not None:
            assert self.world.state is before
            return None
        if self.world.state is not before:
            self.model.committed(self.now, own)
        self.check()
        return result

    # --- what must hold ---------------------------------------------------------------------------

    def check(self) -> None:
        state, model = self.world.state, self.model
        assert (state.seqno, state.since, state.upper) == (model.seqno, model.since, model.upper)
        assert {k: (r.hold, r.since) for k, r in state.readers.items()} == {
            k: (r.hold, r.since) for k, r in model.readers.items()
        }
        assert {
            k: (r.id, r.hold, r.sequence, r.upper, r.lease_ms) for k, r in state.writers.items()
        } == {
            k: (r.number, r.hold, r.sequence, r.upper, r.lease_ms) for k, r in model.writers.items()
        }
        assert {k: (r.since, r.token) for k, r in state.bookmarks.items()} == model.bookmarks
        assert state.since <= model.limit() or state.life.name.lower() != "open"
        end = 0
        for batch in state.batches.items:
            assert batch.lower == end < batch.upper
            assert batch.since <= state.since
            end = batch.upper
        assert end == state.upper
        for before, after in zip(self.world.states[-2:], self.world.states[-1:], strict=False):
            assert (before.since, before.upper) <= (after.since, after.upper)
            assert before.since <= after.since
            assert before.upper <= after.upper
            assert (before.collected, before.floor) <= (after.collected, after.floor)
            assert before.written_ms < after.written_ms
        assert not state.floor or (state.floor, newest(state, state.floor)) in self.world.rollups
        self.check_rows(state.since)

    def check_rows(self, as_of: int) -> None:
        state = self.world.state
        if not state.since <= as_of < state.upper or state.life.name == "MOVED":
            return
        assert self.world.rows_at(state, as_of) == self.model.rows_at(as_of)
        after = [u for u in self.world.updates_in(state.batches.items) if u.time > as_of]
        told = [u for u in self.model.updates if u.time > as_of]
        for time in {u.time for u in (*after, *told)}:
            assert counts(u for u in after if u.time == time) == counts(
                u for u in told if u.time == time
            )

    def check_parts(self) -> None:
        """Each part is there that a hold needs, the newest state names, or may be appended."""
        newest_state = self.world.state
        holds = [row.hold for row in newest_state.readers.values()]
        holds += [row.hold for row in newest_state.writers.values()]
        held = min([hold for hold in holds if hold] + [newest_state.seqno])
        for state in self.world.states[held:]:
            assert not self.world.missing(state)
        for build in self.builds:
            row = self.model.writers.get(build.writer)
            if row and row.number == build.part.writer and row.hold <= build.part.born:
                assert name_of_part(build.part) in self.world.parts

    @rule(place=st.floats(0, 1))
    def read(self, place: float) -> None:
        state = self.world.state
        last = min(state.upper, max((u.time for u in self.model.updates), default=0) + 2) - 1
        self.check_rows(state.since + round(place * max(0, last - state.since)))

    # --- appends ----------------------------------------------------------------------------------

    @rule(
        writer=st.sampled_from(("a", "b", "named")),
        rows=st.none() | keys,
        diff=st.sampled_from([1, 1, -1, 2]),
        offset=st.none() | small,
        width=st.none() | small,
        expected=st.sampled_from(["any", "any", "right", "wrong"]),
        step=st.sampled_from([1, 1, 1, 1, 0, -1]),
        built=st.integers(0, 2),
    )
    def append(
        self,
        writer: str,
        rows: list[str] | None,
        diff: int,
        offset: int | None,
        width: int | None,
        expected: str,
        step: int,
        built: int,
    ) -> None:
        lower = {"any": None, "right": self.model.upper, "wrong": self.model.upper + 1}[expected]
        upper = min(self.model.upper, 2**62)
        time = AT_COMMIT if offset is None else upper + offset
        updates = [Update(key, time, diff) for key in rows or ()]
        runs = [(self.world.put_inline(updates),)] if updates else []
        builds = self.builds[:built]
        runs.extend((build.part,) for build in builds)
        row = self.world.state.writers.get(writer)
        made = CollectionAppend(
            writer=writer,
            sequence=max(0, self.sequences[writer] + step),
            runs=tuple(runs),
            expected=None if lower is None else min(lower, DONE),
            new=None if width is None else upper + width,
            lease_ms=0 if writer == "named" else row.lease_ms if row else LEASE_MS,
            who="a test",
        )
        self.appended(made, updates, builds)

    @rule(writer=names, rows=keys, diff=st.sampled_from([1, -1]), uploads=st.booleans())
    def write(self, writer: str, rows: list[str], diff: int, uploads: bool) -> None:
        """What a handle does: rows in the state, or a writer's row, a part, and the append."""
        builds = []
        updates = [Update(key, AT_COMMIT, diff) for key in rows]
        if uploads and not self.model.closed():
            known = self.model.writers.get(writer)
            if known is None or not known.number:
                self.register_writer(writer, fresh=True, mine=True)
            row = self.world.state.writers[writer]
            part = self.world.upload(row.id, self.world.state.seqno, updates)
            builds.append(Build(writer, part, updates))
        made = CollectionAppend(
            writer=writer,
            sequence=self.sequences[writer] + 1,
            runs=((builds[0].part,),) if builds else ((self.world.put_inline(updates),),),
            lease_ms=LEASE_MS,
            who="a test",
        )
        self.appended(made, [] if builds else updates, builds)

    @rule(writer=names, rows=keys)
    def write_more(self, writer: str, rows: list[str]) -> None:
        self.write(writer, rows, 1, uploads=True)

    def appended(self, made: CollectionAppend, updates: list[Update], builds: list[Build]) -> None:
        if made.new is not None and made.expected == DONE + 1:
            return
        row = self.model.writers.get(made.writer)
        repeated = row is not None and row.sequence == made.sequence
        upper = row.upper if row is not None else 0
        refusal = self.model.append(
            self.now,
            writer=made.writer,
            sequence=made.sequence,
            updates=[*updates, *(update for build in builds for update in build.updates)],
            expected=made.expected,
            new=made.new,
            lease_ms=made.lease_ms,
            uploads=[(build.writer, build.part.writer, build.part.born) for build in builds],
        )
        command = partial(compare_and_append, append=made)
        before = self.world.state
        found = self.do(command, refusal)
        if refusal is not None:
            return
        assert found == Appended(upper=upper if repeated else self.model.upper, repeated=repeated)
        assert (self.world.state is before) == repeated
        self.sequences[made.writer] = max(made.sequence, self.sequences[made.writer])
        self.last = made, found.upper

    @precondition(lambda self: not self.model.closed() and self.model.upper != DONE)
    @rule(count=st.integers(1, 3), rows=keys, number=st.integers(1, 3))
    def write_together(self, count: int, rows: list[str], number: int) -> None:
        """Handles of one process wait for one another: their commands are one entry."""
        commands = [self.written(writer, rows) for writer in ("a", "b", "named")[:count]]
        since = self.model.since
        assert self.model.register_reader(self.now, number, since, LEASE_MS) is None
        commands.append(
            partial(register_reader, reader_id=number, since=since, lease_ms=LEASE_MS, who="a test")
        )
        self.world.commit(*commands)
        self.model.committed(self.now)
        self.check()

    def written(self, writer: str, rows: list[str]) -> Command:
        """An append that must succeed, and of which the model is told."""
        updates = [Update(key, AT_COMMIT, 1) for key in rows]
        row = self.model.writers.get(writer)
        lease_ms = 0 if writer == "named" else row.lease_ms if row else LEASE_MS
        self.sequences[writer] += 1
        made = CollectionAppend(
            writer=writer,
            sequence=self.sequences[writer],
            runs=((self.world.put_inline(updates),),),
            lease_ms=lease_ms,
            who="a test",
        )
        refusal = self.model.append(
            self.now,
            writer=writer,
            sequence=made.sequence,
            updates=updates,
            expected=None,
            new=None,
            lease_ms=lease_ms,
            uploads=[],
        )
        assert refusal is None
        return partial(compare_and_append, append=made)

    @precondition(lambda self: self.last is not None)
    @rule()
    def append_again(self) -> None:
        """The answer to the last append was lost."""
        assert self.last is not None
        made, upper = self.last
        known = self.model.writers.get(made.writer)
        if known is not None and known.sequence == made.sequence:
            command = partial(compare_and_append, append=made)
            assert self.do(command) == Appended(upper=upper, repeated=True)

    @rule(name=names, rows=keys, offset=st.none() | small)
    def upload(self, name: str, rows: list[str], offset: int | None) -> None:
        row = self.world.state.writers.get(name)
        if row is None or not row.hold:
            self.register_writer(name, fresh=True, mine=True)
            row = self.world.state.writers.get(name)
        if row is None:
            return
        time = AT_COMMIT if offset is None else min(self.model.upper, 2**62) + offset
        updates = [Update(key, time, 1) for key in rows]
        part = self.world.upload(row.id, self.world.state.seqno, updates)
        self.builds.append(Build(name, part, updates))

    @precondition(lambda self: self.builds)
    @rule()
    def give_up(self) -> None:
        self.builds.pop(0)

    @precondition(lambda self: len(self.world.states) > 25)
    @rule()
    def finish(self) -> None:
        if not self.model.closed():
            self.model.upper = DONE
        self.do(finish, self.model.closed())

    # --- rows -------------------------------------------------------------------------------------

    @rule(number=st.integers(1, 3), offset=st.integers(-2, 4), mine=st.booleans())
    def register_reader(self, number: int, offset: int, mine: bool) -> None:
        since = max(0, min(self.model.since, 2**62) + offset)
        refusal = self.model.register_reader(self.now, number, since, LEASE_MS)
        command = partial(
            register_reader, reader_id=number, since=since, lease_ms=LEASE_MS, who="a test"
        )
        self.do(command, refusal, own=[number] if mine else [])

    @rule(number=st.integers(1, 3), since=small, hold=small)
    def renew_reader(self, number: int, since: int, hold: int) -> None:
        since += min(self.model.since, 2**62)
        seqno = max(0, self.model.seqno + 1 - hold)
        refusal = self.model.renew_reader(self.now, number, since, seqno)
        command = partial(renew_reader, reader_id=number, since=since, hold=seqno)
        self.do(command, refusal)

    @rule(number=st.integers(1, 3))
    def leave_reader(self, number: int) -> None:
        self.model.readers.pop(number, None)
        self.do(partial(leave_reader, reader_id=number))

    @rule(name=names, fresh=st.booleans(), mine=st.booleans())
    def register_writer(self, name: str, fresh: bool, mine: bool) -> None:
        row = self.model.writers.get(name)
        self.uploaded += 1
        number = self.uploaded if fresh or row is None or not row.number else row.number
        refusal = self.model.register_writer(self.now, name, number, LEASE_MS)
        command = partial(
            register_writer, name=name, writer_id=number, lease_ms=LEASE_MS, who="a test"
        )
        self.do(command, refusal, own=[name] if mine else [])

    @rule(name=st.sampled_from((*WRITERS, "named")))
    def leave_writer(self, name: str) -> None:
        self.model.writers.pop(name, None)
        self.do(partial(leave_writer, name=name))

    @rule(
        name=st.sampled_from("xy"),
        expected=st.none() | st.sampled_from(TOKENS),
        token=st.sampled_from(TOKENS),
        offset=st.integers(-1, 3),
    )
    def set_bookmark(self, name: str, expected: bytes | None, token: bytes, offset: int) -> None:
        since = max(0, min(self.model.since, 2**62) + offset)
        refusal = self.model.set_bookmark(name, expected, token, since)
        command = partial(
            set_bookmark, name=name, expected=expected, token=token, since=since, who="a test"
        )
        self.do(command, refusal)

    @rule(name=st.sampled_from("xy"), token=st.sampled_from(TOKENS))
    def remove_bookmark(self, name: str, token: bytes) -> None:
        row = self.model.bookmarks.get(name)
        refusal = self.model.closed() if row else None
        if row and not refusal and row[1] != token:
            refusal = errors.BookmarkFencedError
        if not refusal:
            self.model.bookmarks.pop(name, None)
        self.do(partial(remove_bookmark, name=name, expected=token), refusal)

    @rule(offset=st.integers(-1, 5))
    def advance_since(self, offset: int) -> None:
        to = max(0, min(self.model.since, 2**62) + offset)
        self.do(partial(advance_since, to=to), self.model.advance_since(to))

    # --- compaction -------------------------------------------------------------------------------

    @rule(whole=st.booleans(), start=small, count=st.integers(1, 4), how=ways)
    def compact(self, whole: bool, start: int, count: int, how: str) -> None:
        """Make the output of a compaction: a new part, or all runs as they are."""
        state = self.world.state
        due = plan_whole(state) if whole else plan(state)
        inputs = due.inputs if due else state.batches.items[start : start + count]
        if not inputs:
            return
        if how == "keep":
            runs = tuple(run for batch in inputs for run in batch.runs)
            since = max(batch.since for batch in inputs)
            self.merges.append((inputs, merge_of(inputs, since, runs)))
            return
        if how == "upload":
            refusal = self.model.register_writer(self.now, "compactor", 99, LEASE_MS)
            self.do(
                partial(
                    register_writer,
                    name="compactor",
                    writer_id=99,
                    lease_ms=LEASE_MS,
                    who="a test",
                ),
                refusal,
            )
            if refusal:
                return
        updates = self.world.merged(inputs, state.since)
        parts: tuple[CollectionPart, ...] = ()
        if updates and how == "inline":
            parts = (self.world.put_inline(updates),)
        elif updates:
            parts = (self.world.upload(99, self.world.state.seqno, updates),)
        self.merges.append((inputs, merge_of(inputs, state.since, (parts,) if parts else ())))

    @rule(whole=st.booleans(), start=small, count=st.integers(1, 4), how=ways)
    def compact_now(self, whole: bool, start: int, count: int, how: str) -> None:
        self.compact(whole, start, count, how)
        if self.merges:
            self.replace(newest_first=True, together=how == "inline")

    @precondition(lambda self: self.merges)
    @rule(newest_first=st.booleans(), together=st.booleans())
    def replace(self, newest_first: bool, together: bool = False) -> None:
        inputs, output = self.merges.pop(-1 if newest_first else 0)
        refusal = self.model.closed()
        items = self.world.state.batches.items
        row = self.model.writers.get("compactor")
        is_there = any(items[n : n + len(inputs)] == inputs for n in range(len(items)))
        known = {name for batch in inputs for name in names_in(batch)}
        uploads = [
            part
            for part in output.parts()
            if part.inline is None and name_of_part(part) not in known
        ]
        if not refusal and output not in items:
            if not is_there and not (not output.runs and within_empty(items, output)):
                refusal = errors.ConditionFailedError
            elif is_there and any(row is None or part.born < row.hold for part in uploads):
                refusal = errors.BatchExpiredError
        if not refusal and is_there and output not in items and row is not None and uploads:
            row.hold = max(row.hold, uploads[0].born + 1)
        also = []
        if together and not refusal and self.model.upper != DONE:
            also = [self.written("a", ["p"]), self.written("b", ["q"])]
        self.do(partial(replace_batches, inputs=inputs, output=output), refusal, also=also)

    # --- rollups, garbage, time -------------------------------------------------------------------

    @rule(race=st.booleans(), mine=st.booleans())
    def roll_up(self, race: bool, mine: bool) -> None:
        """All rows are those of this process, or none is: their leases may have ended."""
        rollup, other = self.world.roll_up(), self.world.roll_up()
        own = [*self.model.readers, *self.model.writers] if mine else []
        self.do(partial(link_rollup, rollup=rollup), own=own)
        self.do(partial(link_rollup, rollup=rollup))
        if race:
            self.do(partial(link_rollup, rollup=other), errors.ConditionFailedError)
            del self.world.rollups[other.seqno, other.nonce]
        assert self.world.kept()[-1] == self.world.state

    @rule(delay_ms=st.sampled_from([0, 500]))
    def plan_garbage(self, delay_ms: int) -> None:
        self.garbage = garbage_of(self.world.kept(), now_ms=self.now, delay_ms=delay_ms)

    @precondition(lambda self: self.garbage is not None)
    @rule(death=st.none() | small)
    def delete_garbage(self, death: int | None) -> None:
        assert self.garbage is not None
        if self.world.state.life.name == "MOVED":
            return
        for name in self.garbage.parts[:death]:
            self.world.parts.pop(name, None)
        if death is None:
            self.do(partial(note_collected, through=self.garbage.through))
            assert self.world.state.collected >= self.garbage.through
            self.garbage = None
        self.check_parts()

    @rule(leave=st.booleans())
    def collect(self, leave: bool) -> None:
        for name in list(self.model.writers) if leave else ():
            self.leave_writer(name)
        self.plan_garbage(0)
        if self.garbage is not None:
            self.delete_garbage(None)
        self.roll_up(race=False, mine=False)
        self.truncate(death=False)

    @rule(how=ways)
    def compact_alone(self, how: str) -> None:
        """Nothing holds what was in a state, and what the compaction kept is no garbage."""
        for number in list(self.model.readers):
            self.leave_reader(number)
        self.compact_now(True, 0, 4, how)
        self.collect(leave=True)

    @rule(number=st.integers(1, 3), how=ways, leave=st.booleans())
    def compact_under_a_reader(self, number: int, how: str, leave: bool) -> None:
        """All that was in a state becomes garbage, while a reader needs it."""
        self.register_reader(number, 0, mine=True)
        self.compact_now(True, 0, 4, how)
        self.collect(leave)

    @rule(death=st.booleans())
    def truncate(self, death: bool) -> None:
        floor = self.world.state.floor
        for seqno, rollup in self.world.state.rollups.items():
            if seqno < floor:
                self.world.rollups.pop((seqno, rollup.nonce), None)
        if not death:
            self.do(partial(forget_rollups, below=floor))
            assert min(self.world.state.rollups) >= floor
        assert self.world.kept()[-1] == self.world.state

    @rule()
    def list_parts(self) -> None:
        self.listed = sorted(self.world.parts)

    @rule()
    def sweep(self) -> None:
        for name in parts_to_sweep(self.listed, self.world.kept()):
            self.world.parts.pop(name, None)
        for key in rollups_to_sweep(list(self.world.rollups), self.world.state):
            del self.world.rollups[key]
        self.check_parts()
        assert self.world.kept()[-1] == self.world.state

    @rule()
    def list_and_sweep(self) -> None:
        self.list_parts()
        self.sweep()

    @rule(by=st.sampled_from([1, 300, 900, 2 * DAY_MS, -3 * DAY_MS]))
    def clock(self, by: int) -> None:
        self.world.now_ms = max(START_MS, self.now + by)

    @precondition(lambda self: len(self.world.states) > 30)
    @rule(life=st.sampled_from(["dropped", "moved"]))
    def end(self, life: str) -> None:
        command = drop if life == "dropped" else move_away
        self.do(command, self.model.end(life))
        if life == "dropped" and self.model.life == "dropped":
            assert not list(self.world.updates_in(self.world.state.batches.items))


def newest(state: Any, seqno: int) -> int:
    """The nonce of the rollup of a seqno."""
    return int(state.rollups[seqno].nonce)


def merge_of(
    inputs: tuple[CollectionBatch, ...], since: int, runs: tuple[CollectionRun, ...]
) -> CollectionBatch:
    """The output of a compaction of these batches."""
    return CollectionBatch(lower=inputs[0].lower, upper=inputs[-1].upper, since=since, runs=runs)


def within_empty(items: tuple[CollectionBatch, ...], output: CollectionBatch) -> bool:
    """Whether an empty batch covers the range of ``output``."""
    return any(
        not batch.runs and batch.lower <= output.lower and output.upper <= batch.upper
        for batch in items
    )


def play(examples: int, steps: int, *, shrinks: bool = True) -> None:
    run_state_machine_as_test(
        StateMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            suppress_health_check=list(HealthCheck),
            phases=[phase for phase in Phase if shrinks or phase is not Phase.shrink],
            deadline=None,
        ),
    )


def test_states() -> None:
    play(100, 60)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_states_for_long() -> None:
    play(share_of(4_000), 100)
