"""The entries of a collection as a state machine: creates, anchors, rollups, truncation, listing.

Who acts: up to three processes. Each may stop between any two calls, continue later, give up, or
die. Of a create whose answer is missing, the effect may come at any later time, also when another
process has deleted what had the name. A truncation may end in its middle.

What is atomic here: one create, read, stat or delete. A listing is not: what came and went while
it ran may be seen or missed, as the contract of storage says. An entry repeats no diffs of those
before it, so each is read by itself.

What must be true is kept next to it: an entry counts if its name was never free before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

from tests.specification.object_entries_state import (
    BACK,
    BEGIN,
    CREATE,
    CUT,
    DEAD,
    HEAD,
    IDLE,
    LIST,
    NEW,
    NEXT,
    PROVE,
    SEEN,
    STAT,
    Entry,
    EntryBounds,
    EntryRules,
    Process,
    Rollup,
    State,
    anchor_at,
    linked,
    stuck,
    under,
)
from tests.specification.object_entries_state import shown as shown_parts
from tests.specification.search import Interner, Steps, Violation

BEGINS, COMMITS, LINKS, CUTS, UNKNOWN, REFRESHES, OPENS = range(7)

Step = tuple[str, State | Violation]


class ObjectEntries:
    """The machine."""

    def __init__(self, rules: EntryRules, bounds: EntryBounds) -> None:
        self.rules = rules
        self.bounds = bounds
        self._kept = Interner()
        self._order = lru_cache(maxsize=None)(_order)
        self._next: dict[int, Callable[[State, int, Process], Iterator[Step]]] = {
            BEGIN: self._creates,
            IDLE: self._idle,
            CREATE: self._creates,
            SEEN: self._reads_taken,
            STAT: self._proves_create,
            NEXT: self._reads_next,
            PROVE: self._proves_reads,
            LIST: self._listed,
            HEAD: self._reads_back,
            BACK: self._reads_back,
            CUT: self._cuts,
        }

    def initial(self) -> State:
        bounds = self.bounds
        first = Entry(1, 0, Rollup(0, 0), None)
        truth = (first,) * bounds.ready
        return State(
            truth=truth,
            entries=truth,
            rollups=(first.anchor,) * bounds.ready,
            late=(),
            refused=(),
            processes=(_idle_at(1) if bounds.ready else Process(),) * bounds.processes,
            left=(
                bounds.begins,
                bounds.commits,
                bounds.links,
                bounds.cuts,
                bounds.unknown,
                bounds.refreshes,
                bounds.opens,
            ),
        )

    def broken(self, state: State) -> Violation | None:
        why = stuck(state)
        return Violation("C1", why) if why else None

    def shown(self, state: State) -> dict[str, object]:
        return shown_parts(state)

    def steps(self, state: State) -> Steps[State]:
        tried = set[Process]()
        for number, process in enumerate(state.processes):
            if process.at == DEAD or process in tried:
                continue
            tried.add(process)  # Equal processes do equal things.
            for label, after in self._process_steps(state, number, process):
                yield f"process {number + 1} {label}", after
            if process.at not in (NEW, IDLE):
                yield f"process {number + 1} dies", self._with(state, number, Process(at=DEAD))
        for entry in state.late:
            late = tuple(other for other in state.late if other is not entry)
            label = f"the create of {entry.seqno}#{entry.token} lands after all"
            yield label, self._landed(state, entry, late=late)

    def _process_steps(self, state: State, number: int, process: Process) -> Iterator[Step]:
        if process.at == NEW:
            yield from self._begun(state, number)
        else:
            yield from self._next[process.at](state, number, process)
        if process.at in (NEW, IDLE) and state.left[OPENS]:
            yield "lists", self._lists(state, number, process, left=_spend(state, OPENS))

    # --- beginning, and what an idle process may do -----------------------------------------------

    def _begun(self, state: State, number: int) -> Iterator[Step]:
        if not state.left[BEGINS]:
            return
        rollup = Rollup(0, state.left[BEGINS])
        aim = Entry(1, 300 + state.left[BEGINS], rollup, None)
        rollups = tuple(sorted((*state.rollups, rollup)))
        left = _spend(state, BEGINS)
        process = Process(at=BEGIN, aim=aim)
        yield (
            "makes a rollup to begin",
            self._with(state, number, process, rollups=rollups, left=left),
        )

    def _idle(self, state: State, number: int, process: Process) -> Iterator[Step]:
        seqno = process.seqno
        anchor = anchor_at(state.truth, seqno)
        if state.left[COMMITS]:
            aim = Entry(seqno + 1, 100 + state.left[COMMITS], anchor, None)
            creates = process._replace(at=CREATE, aim=aim)
            left = _spend(state, COMMITS)
            yield "begins a commit", self._with(state, number, creates, left=left)
        if state.left[LINKS] and seqno > anchor.seqno:
            link = Rollup(seqno, 200 + state.left[LINKS])
            aim = Entry(seqno + 1, 200 + state.left[LINKS], anchor, link)
            creates = process._replace(at=CREATE, aim=aim)
            rollups = tuple(sorted((*state.rollups, link)))
            left = _spend(state, LINKS)
            label = "makes a rollup and begins to link it"
            yield label, self._with(state, number, creates, rollups=rollups, left=left)
        if state.left[REFRESHES]:
            reads = process._replace(at=NEXT, begun=len(state.truth))
            left = _spend(state, REFRESHES)
            yield "begins a refresh", self._with(state, number, reads, left=left)
        settled = state.truth[seqno - 1].anchor if self.rules.newest_keeps_anchor else anchor
        if state.left[CUTS] and settled.seqno > 0:
            cuts = process._replace(at=CUT, begun=settled.seqno)
            left = _spend(state, CUTS)
            yield "begins a truncation", self._with(state, number, cuts, left=left)

    # --- a commit ---------------------------------------------------------------------------------

    def _creates(self, state: State, number: int, process: Process) -> Iterator[Step]:
        aim = process.aim
        assert aim is not None
        if state.left[UNKNOWN]:
            late = _sorted((*state.late, aim))
            left = _spend(state, UNKNOWN)
            yield "gets no answer", self._parts(state, late=late, left=left)
            gives_up = Process(at=NEW) if process.at == BEGIN else _idle_at(process.seqno)
            yield "gives up", self._with(state, number, gives_up, late=late, left=left)
        if under(state, aim.seqno) is None:
            after = self._landed(state, aim)
            if isinstance(after, Violation):
                yield "creates", after
            elif process.at == CREATE:
                yield "creates", self._with(after, number, process._replace(at=STAT, seen=(aim,)))
            elif self.rules.opens_after_begin:
                yield "creates the first", self._lists(after, number, Process())
            else:
                yield "creates the first", self._adopted(after, number, process, (aim,), 0)
        elif process.at == CREATE:
            yield "finds the name taken", self._with(state, number, process._replace(at=SEEN))
        else:
            yield "finds the collection begun", self._lists(state, number, Process())

    def _reads_taken(self, state: State, number: int, process: Process) -> Iterator[Step]:
        assert process.aim is not None
        found = under(state, process.aim.seqno)
        if found is None:
            yield "reads nothing", self._lists(state, number, process)
        elif found == process.aim and not self.rules.token_compared:
            yield from self._refused(state, number, process, process.seqno + 1)
        else:
            yield "reads it", self._with(state, number, process._replace(at=STAT, seen=(found,)))

    def _proves_create(self, state: State, number: int, process: Process) -> Iterator[Step]:
        aim, found = process.aim, process.seen[0]
        assert aim is not None
        anchor = anchor_at(state.truth, process.seqno)
        if self.rules.anchor_after_create and anchor not in state.rollups:
            yield "finds no anchor", self._lists(state, number, process)
        elif state.truth[found.seqno - 1] != found:
            what = "committed" if found == aim else "taken by another"
            yield "sees the anchor", Violation("C7", f"{found} is told to be {what}; it is not")
        elif found == aim:
            yield "has committed", self._with(state, number, _idle_at(found.seqno))
        else:
            yield from self._refused(state, number, process, found.seqno)

    def _refused(self, state: State, number: int, process: Process, seqno: int) -> Iterator[Step]:
        """The process is told that its entry is none, and goes to ``seqno``."""
        aim = process.aim
        assert aim is not None
        if aim in state.truth:
            yield "is refused", Violation("C7", f"{aim} is told not to be committed; it is")
            return
        refused = state.refused
        if aim in state.late and aim not in refused:
            refused = _sorted((*refused, aim))
        yield "is refused", self._with(state, number, _idle_at(seqno), refused=refused)

    # --- a refresh --------------------------------------------------------------------------------

    def _reads_next(self, state: State, number: int, process: Process) -> Iterator[Step]:
        found = under(state, process.seqno + len(process.seen) + 1)
        if found is None:
            yield "reads nothing", self._with(state, number, process._replace(at=PROVE))
        else:
            seen = (*process.seen, found)
            yield "reads an entry", self._with(state, number, process._replace(seen=seen))

    def _proves_reads(self, state: State, number: int, process: Process) -> Iterator[Step]:
        rules = self.rules
        is_ruled = rules.anchor_after_reads if process.seen else rules.anchor_after_absence
        anchor = anchor_at(state.truth, process.seqno)
        if is_ruled and anchor not in state.rollups:
            yield "finds no anchor", self._lists(state, number, process)
        else:
            seen = process.seen
            yield "has refreshed", self._adopted(state, number, process, seen, process.begun)

    # --- opening by a listing ---------------------------------------------------------------------

    def _lists(self, state: State, number: int, process: Process, **parts: Any) -> State:
        """Begin a listing; what is known is forgotten, but for what is to be committed."""
        lists = Process(at=LIST, aim=process.aim, seen=state.entries, begun=len(state.truth))
        return self._with(state, number, lists, **parts)

    def _listed(self, state: State, number: int, process: Process) -> Iterator[Step]:
        """End it with any first name that the contract of storage allows."""
        throughout = [entry.seqno for entry in process.seen if entry in state.entries]
        least = max(throughout, default=0)
        names = {entry.seqno for entry in (*process.seen, *state.entries)}
        for seqno in sorted(names):
            if seqno >= least:
                head = process._replace(at=HEAD, seqno=seqno, seen=())
                yield f"has listed {seqno}", self._with(state, number, head)
        if not throughout:
            if process.aim is not None or process.begun:
                message = f"a collection of {process.begun} entries is told not to be there"
                yield "has listed nothing", Violation("C2", message)
            else:
                yield "has listed nothing", self._with(state, number, Process())

    def _reads_back(self, state: State, number: int, process: Process) -> Iterator[Step]:
        if process.at == HEAD:
            found = under(state, process.seqno)
            if found is None:
                yield "finds it gone", self._lists(state, number, process)
            else:
                back = process._replace(at=BACK, seen=(found,))
                yield "reads it", self._with(state, number, back)
            return
        newest = process.seen[-1]
        proof = newest.anchor if self.rules.anchor_before_entry else newest.link or newest.anchor
        older = process.seen[0].seqno - 1
        if older > proof.seqno:
            found = under(state, older)
            if found is None:
                yield "finds it gone", self._lists(state, number, process)
            else:
                back = process._replace(seen=(found, *process.seen))
                yield "reads an older one", self._with(state, number, back)
        elif proof not in state.rollups:
            yield "finds the rollup gone", self._lists(state, number, process)
        else:
            seen = tuple(entry for entry in process.seen if entry.seqno > proof.seqno)
            opened = process._replace(seqno=proof.seqno)
            yield "has opened", self._adopted(state, number, opened, seen, process.begun)

    def _adopted(
        self, state: State, number: int, process: Process, seen: tuple[Entry, ...], begun: int
    ) -> State | Violation:
        """Go to the state after the last of ``seen``, which follow the process's seqno."""
        end = process.seqno + len(seen)
        if state.truth[process.seqno : end] != seen:
            return Violation("C2", f"a process takes {seen} for what follows {process.seqno}")
        if end < begun:
            return Violation("C2", f"a process takes {end} for the newest; there were {begun}")
        aim = process.aim
        if aim is None or aim in state.truth[:end] or process.at == BEGIN:
            return self._with(state, number, _idle_at(end))
        if aim.seqno > end:
            return Violation("C1", f"{aim} was created, and is gone")
        return next(after for _, after in self._refused(state, number, process, end))

    # --- a truncation -----------------------------------------------------------------------------

    def _cuts(self, state: State, number: int, process: Process) -> Iterator[Step]:
        floor = process.begun
        named = linked(state.truth, process.seqno)
        older = [rollup for rollup in named if rollup.seqno < floor and rollup in state.rollups]
        for rollup in older:
            rollups = tuple(other for other in state.rollups if other != rollup)
            yield f"deletes rollup {rollup.seqno}", self._parts(state, rollups=rollups)
        if older and self.rules.rollups_before_entries:
            return
        first = 2 if self.rules.first_entry_stays else 1
        freed = [entry for entry in state.entries if first <= entry.seqno <= floor]
        for entry in freed:
            entries = tuple(other for other in state.entries if other is not entry)
            yield f"deletes entry {entry.seqno}", self._parts(state, entries=entries)
        if not (older or freed):
            yield "has truncated", self._with(state, number, _idle_at(process.seqno))

    # --- states -----------------------------------------------------------------------------------

    def _landed(self, state: State, entry: Entry, **parts: Any) -> State | Violation:
        """A create has its effect, if the name is free."""
        if under(state, entry.seqno) is not None:
            return self._parts(state, **parts)
        truth = state.truth
        if entry.seqno == len(truth) + 1:
            if entry in state.refused:
                return Violation("C7", f"{entry} was told never to be committed, and now is")
            truth = (*truth, entry)
        return self._parts(state, truth=truth, entries=_sorted((*state.entries, entry)), **parts)

    def _with(self, state: State, number: int, process: Process, **parts: Any) -> State:
        processes = state.processes
        process = self._kept("process", process)
        processes = (*processes[:number], process, *processes[number + 1 :])
        return self._parts(state, processes=processes, **parts)

    def _parts(self, state: State, **parts: Any) -> State:
        after = state._replace(**parts)
        refused = tuple(entry for entry in after.refused if entry in after.late)
        # The order of processes means nothing.
        processes = tuple(sorted(after.processes, key=self._order))
        changed = {**parts, "refused": refused, "processes": processes}
        return after._replace(**{key: self._kept(key, value) for key, value in changed.items()})


def _idle_at(seqno: int) -> Process:
    return Process(at=IDLE, seqno=seqno)


def _sorted(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    return tuple(sorted(entries, key=lambda entry: (entry.seqno, entry.token)))


def _order(process: Process) -> tuple[object, ...]:
    """Any order will do, if equal processes are together."""
    at, seqno, aim, seen, begun = process
    return at, seqno, begun, 0 if aim is None else aim.token, [entry.token for entry in seen]


def _spend(state: State, what: int) -> tuple[int, ...]:
    left = list(state.left)
    left[what] -= 1
    return tuple(left)
