"""Bundles of volumes as a state machine: pushes, forks, and a collection without lists or clocks.

Who acts: clients, and collectors that know nothing of one another. Each may stop between any two
steps, go on later, or die; a client that dies forgets what it was about, as a lite client does, and
one that goes on later is one that recovers. Of the create of a record whose answer is missing, the
effect may come at any later time.

The rules. A collector goes through these steps; what it knows is only in its memory, so the work of
one that died is done by the next:

1. List the logs that have a record. For each: choose a horizon, the oldest remote LSN to be kept;
   list the bundles in its folder; then put a mark, with the horizon, as the next record of the log.
   Or leave it alone: then nothing in its folder is deleted, and its horizon stays. It is read up to
   where it ends now.
2. When all have their marks, read each log up to its mark. Kept is what its states from the horizon
   on name, and what forks name of which there is a fork mark below, and whose log was not listed.
3. Delete what was listed and is not kept.

A push whose place a collection mark took uploads its bundle again. So a record above a mark names
no bundle that is older than the mark, and what was listed before it is named below it or never. A
bundle whose upload was not answered is garbage of that kind from the beginning.

A fork is a fork mark in the log of its source, then the first record of a log of its own. It begins
at any LSN that is not below the horizon of a mark below the fork mark, which is looked at again
whenever another record takes the place of the fork mark.

What is atomic here: one create, one read, one listing of a folder, one deletion. Maps are parts of
the states that name them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.specification.search import Interner, Steps, Violation
from tests.specification.volume_garbage_state import (
    BEGIN,
    BRANCH,
    COMMIT,
    CREATE,
    DELETE,
    DONE,
    FIRST,
    FORK,
    IDLE,
    LIST,
    MARK,
    NO_BUNDLE,
    PAGES,
    PUT,
    READ,
    REST,
    UPLOAD,
    Bundle,
    Client,
    Collector,
    GarbageBounds,
    GarbageRules,
    Late,
    Logs,
    Marked,
    Record,
    State,
    horizon,
    lacking,
    named,
    pages_at,
)
from tests.specification.volume_garbage_state import shown as shown_parts

PUSHES, FORKS, UNKNOWN = range(3)

Step = tuple[str, State | Violation]


class VolumeGarbage:
    """The machine. At first, log 0 has a commit for each page, and each client knows it."""

    def __init__(self, rules: GarbageRules, bounds: GarbageBounds) -> None:
        self.rules = rules
        self.bounds = bounds
        self._kept = Interner()
        self._next = {
            IDLE: self._idle,
            UPLOAD: self._uploads,
            CREATE: self._creates,
            BRANCH: self._branches,
            BEGIN: self._begins_log,
        }
        self._next_of_collector = {
            REST: self._lists_logs,
            LIST: self._lists_bundles,
            PUT: self._puts_mark,
            READ: self._reads_logs,
            DELETE: self._deletes,
        }

    def initial(self) -> State:
        bounds = self.bounds
        bundles = tuple((0, number) for number in range(1, PAGES + 1))
        log = tuple(Record(COMMIT, page, bundle) for page, bundle in enumerate(bundles))
        return State(
            logs=(log, *((),) * bounds.forks),
            bundles=bundles,
            numbers=PAGES,
            late=(),
            clients=(Client(known=len(log)),) * bounds.clients,
            collectors=(Collector(),) * bounds.collectors,
            left=(bounds.pushes, bounds.forks, bounds.unknown),
        )

    def broken(self, state: State) -> Violation | None:
        why = lacking(state.logs, state.bundles)
        return Violation("V5", why) if why else None

    def shown(self, state: State) -> dict[str, object]:
        return shown_parts(state)

    def steps(self, state: State) -> Steps[State]:
        for number, client in enumerate(state.clients):
            if client in state.clients[:number]:
                continue  # Equal clients do equal things.
            for label, after in self._next[client.at](state, number, client):
                yield f"client {number + 1} {label}", after
            if client.at != IDLE:
                dead = Client(log=client.log, known=client.known)
                yield f"client {number + 1} dies", self._with(state, number, dead)
        for number, collector in enumerate(state.collectors):
            if collector.at == DONE or collector in state.collectors[:number]:
                continue
            name = f"collector {number + 1}"
            for label, after in self._next_of_collector[collector.at](state, number, collector):
                yield f"{name} {label}", after
            if collector.at != REST:
                yield f"{name} dies", self._collects(state, number, Collector(at=DONE))
        for late in state.late:
            label = f"the create of {late.lsn} of log {late.log} lands after all"
            yield label, self._landed(state, late)

    # --- clients ----------------------------------------------------------------------------------

    def _idle(self, state: State, number: int, client: Client) -> Iterator[Step]:
        records = state.logs[client.log]
        for log, other in enumerate(state.logs):
            if other and (log, len(other)) != (client.log, client.known):
                reads = Client(log=log, known=len(other))
                yield f"reads log {log}", self._with(state, number, reads)
        if state.left[PUSHES]:
            left = _spend(state, PUSHES)
            for page in range(PAGES):
                begun = client._replace(at=UPLOAD, page=page)
                yield f"writes page {page}", self._with(state, number, begun, left=left)
        if state.left[FORKS]:
            fork = len(state.logs) - state.left[FORKS]
            left = _spend(state, FORKS)
            oldest = horizon(records[: client.known]) if self.rules.fork_above_horizon else 1
            at = BRANCH if self.rules.fork_marked else BEGIN
            for lsn in range(oldest, client.known + 1):
                forks = client._replace(at=at, fork=fork, lsn=lsn)
                yield f"begins a fork at {lsn}", self._with(state, number, forks, left=left)

    def _uploads(self, state: State, number: int, client: Client) -> Iterator[Step]:
        bundle = (client.log, state.numbers + 1)
        uploaded = client._replace(at=CREATE, bundle=bundle)
        bundles = tuple(sorted((*state.bundles, bundle)))
        numbers = state.numbers + 1
        label = f"uploads bundle {bundle}"
        yield label, self._with(state, number, uploaded, bundles=bundles, numbers=numbers)

    def _creates(self, state: State, number: int, client: Client) -> Iterator[Step]:
        record = Record(COMMIT, client.page, client.bundle)
        lsn = client.known + 1
        ended = Client(log=client.log, known=lsn)
        found = self._found(state, client.log, lsn)
        if found is None:
            yield from self._create(state, number, ended, Late(client.log, lsn, record))
        elif found == record:
            yield "finds its own record", self._with(state, number, ended)
        elif found.kind == COMMIT:
            yield "is rejected", self._with(state, number, ended)
        elif found.kind == MARK and self.rules.uploads_anew:
            again = client._replace(at=UPLOAD, known=lsn, bundle=NO_BUNDLE)
            yield "finds a collection mark", self._with(state, number, again)
            if self.bounds.lists and client.bundle not in found.listed:
                passed = client._replace(known=lsn)
                yield "finds a mark that spares its bundle", self._with(state, number, passed)
        else:
            passed = client._replace(known=lsn)
            yield "passes a mark", self._with(state, number, passed)

    def _branches(self, state: State, number: int, client: Client) -> Iterator[Step]:
        record = Record(FORK, log=client.fork, lsn=client.lsn)
        lsn = client.known + 1
        marked = client._replace(at=BEGIN, known=lsn)
        found = self._found(state, client.log, lsn)
        if found is None:
            yield from self._create(state, number, marked, Late(client.log, lsn, record))
        elif found == record:
            yield "finds its own fork mark", self._with(state, number, marked)
        elif found.kind == MARK and found.lsn > client.lsn and self.rules.horizon_looked_at_again:
            gone = Client(log=client.log, known=lsn)
            yield "is told that its history is gone", self._with(state, number, gone)
        else:
            passed = client._replace(known=lsn)
            yield "passes a record", self._with(state, number, passed)

    def _begins_log(self, state: State, number: int, client: Client) -> Iterator[Step]:
        record = Record(FIRST, log=client.log, lsn=client.lsn)
        begun = Client(log=client.fork, known=1)
        if self._found(state, client.fork, 1) is None:
            yield from self._create(state, number, begun, Late(client.fork, 1, record))
        else:
            yield "finds its fork begun", self._with(state, number, begun)

    def _create(self, state: State, number: int, after: Client, late: Late) -> Iterator[Step]:
        """Create a record under a free name, and be ``after`` if it is answered."""
        done = self._with(state, number, after)
        yield f"creates {late.lsn} of log {late.log}", self._landed(done, late)
        yield from self._unanswered(state, late)

    def _unanswered(self, state: State, late: Late) -> Iterator[Step]:
        if state.left[UNKNOWN] and late not in state.late:
            lates = tuple(sorted((*state.late, late)))
            left = _spend(state, UNKNOWN)
            label = f"creates {late.lsn} of log {late.log}, not answered"
            yield label, self._parts(state, late=lates, left=left)

    # --- collectors -------------------------------------------------------------------------------

    def _lists_logs(self, state: State, number: int, collector: Collector) -> Iterator[Step]:
        logs = tuple(Marked(log) for log, records in enumerate(state.logs) if records)
        listed = collector._replace(at=LIST, logs=logs)
        yield "lists the logs", self._collects(state, number, listed)

    def _lists_bundles(self, state: State, number: int, collector: Collector) -> Iterator[Step]:
        rules = self.rules
        one = collector.logs[collector.next]
        records = state.logs[one.log]
        found = _folder(state, one.log) if rules.lists_before_mark else ()
        if not rules.spares_below_mark:
            ends = tuple(one._replace(mark=len(state.logs[one.log])) for one in collector.logs)
            found = tuple(sorted(set(found) - self._needed(state, ends)))
        for oldest in sorted({horizon(records), len(records)}):
            listed = one._replace(horizon=oldest, listed=found)
            puts = _changed(collector, listed)._replace(at=PUT)
            label = f"lists the bundles of log {one.log}, keeps from {oldest}"
            yield label, self._collects(state, number, puts)
        if rules.lists_before_mark and rules.marked_logs_only:
            alone = one._replace(horizon=horizon(records), mark=len(records))
            after = self._advanced(collector, alone)
            yield f"leaves log {one.log} alone", self._collects(state, number, after)

    def _puts_mark(self, state: State, number: int, collector: Collector) -> Iterator[Step]:
        one = collector.logs[collector.next]
        lsn = len(state.logs[one.log]) + 1
        listed = one.listed if self.bounds.lists else ()
        late = Late(one.log, lsn, Record(MARK, lsn=one.horizon, listed=listed))
        after = self._advanced(collector, one._replace(mark=lsn))
        if not self.rules.marks_all_first:
            after = after._replace(at=READ)
        done = self._collects(state, number, after)
        yield f"puts mark {lsn} of log {one.log}", self._landed(done, late)
        yield from self._unanswered(state, late)

    def _advanced(self, collector: Collector, one: Marked) -> Collector:
        """The collector after what it did in a log."""
        after = _changed(collector, one)._replace(next=collector.next + 1, at=LIST)
        return after._replace(at=READ) if after.next == len(after.logs) else after

    def _reads_logs(self, state: State, number: int, collector: Collector) -> Iterator[Step]:
        rules = self.rules
        logs = tuple(
            one if one.mark else one._replace(listed=_folder(state, one.log), mark=len(records))
            for one in collector.logs
            for records in [state.logs[one.log]]
        )
        listed = {bundle for one in logs for bundle in one.listed}
        if not rules.lists_before_mark:
            listed = {bundle for one in logs for bundle in _folder(state, one.log)}
        if not rules.marked_logs_only:
            listed.update(state.bundles)
        needed = self._needed(state, logs) if rules.spares_below_mark else set()
        doomed = tuple(sorted(listed - needed))
        deletes = Collector(at=DELETE if doomed else DONE, doomed=doomed)
        yield "reads the logs", self._collects(state, number, deletes)

    def _needed(self, state: State, marked: tuple[Marked, ...]) -> set[Bundle]:
        """What logs need up to their marks, and forks of them that were not listed."""
        rules = self.rules
        logs: Logs = tuple(state.logs)
        listed = {one.log for one in marked}
        needed = set[Bundle]()
        for one in marked:
            records = logs[one.log][: one.mark]
            needed |= named(logs, one.log, one.horizon or horizon(records), len(records))
            for record in records:
                is_kept = rules.fork_mark_keeps or logs[record.log]
                if record.kind == FORK and record.log not in listed and is_kept:
                    needed.update(pages_at(logs, one.log, record.lsn))
        if not rules.marked_logs_only:
            for log in range(len(logs)):
                if log not in listed:
                    needed |= named(logs, log, 1, len(logs[log]))
        return needed

    def _deletes(self, state: State, number: int, collector: Collector) -> Iterator[Step]:
        first, *others = collector.doomed
        after = collector._replace(doomed=tuple(others)) if others else Collector(at=DONE)
        bundles = tuple(bundle for bundle in state.bundles if bundle != first)
        yield f"deletes bundle {first}", self._collects(state, number, after, bundles=bundles)

    # --- states -----------------------------------------------------------------------------------

    def _found(self, state: State, log: int, lsn: int) -> Record | None:
        records = state.logs[log]
        return records[lsn - 1] if lsn <= len(records) else None

    def _landed(self, state: State, late: Late) -> State | Violation:
        """A create has its effect; others of its name find it taken, and are kept no longer."""
        log, lsn, record = late
        records = state.logs[log]
        if lsn != len(records) + 1:
            return Violation("V1", f"log {log} has no record before {lsn}")
        logs = (*state.logs[:log], (*records, record), *state.logs[log + 1 :])
        lates = tuple(other for other in state.late if (other.log, other.lsn) != (log, lsn))
        return self._parts(state, logs=logs, late=lates)

    def _with(self, state: State, number: int, client: Client, **parts: Any) -> State:
        clients = state.clients
        # The order of clients means nothing, nor does that of collectors.
        clients = tuple(sorted((*clients[:number], client, *clients[number + 1 :])))
        return self._parts(state, clients=clients, **parts)

    def _collects(self, state: State, number: int, collector: Collector, **parts: Any) -> State:
        collectors = state.collectors
        others = (*collectors[:number], collector, *collectors[number + 1 :])
        return self._parts(state, collectors=tuple(sorted(others)), **parts)

    def _parts(self, state: State, **parts: Any) -> State:
        return state._replace(**{key: self._kept(key, value) for key, value in parts.items()})


def _folder(state: State, log: int) -> tuple[Bundle, ...]:
    return tuple(bundle for bundle in state.bundles if bundle[0] == log)


def _changed(collector: Collector, one: Marked) -> Collector:
    """The collector with another record of the log that is next."""
    logs, index = collector.logs, collector.next
    return collector._replace(logs=(*logs[:index], one, *logs[index + 1 :]))


def _spend(state: State, what: int) -> tuple[int, ...]:
    left = list(state.left)
    left[what] -= 1
    return tuple(left)
