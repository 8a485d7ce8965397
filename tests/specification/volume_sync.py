"""Volumes between clients as a state machine: commits, pushes, recovery, pulls, resets, marks.

Who acts: clients with a folder, of which each may stop between any two steps, and go on later or
die and be opened again; lite clients, which have no folder and forget everything when they die;
and a collector, of which there are only its marks here (``volume_garbage`` has the rest). Of a
create whose answer is missing, the effect may come at any later time. Power may be lost.

The rules. A push has these steps, and each change of the folder is one batch:

A. Its end is the newest local commit now. Nothing has to be durable yet.
B. The bundle is uploaded. A name whose create was not answered is never used again.
C. The record for the remote LSN after that of the mapping is noted, with the end, in a synced
   batch; then it is created, the same bytes again and again, until the name is taken.
D. If by this record, the mapping becomes (this remote LSN, the *noted* end). If by another commit,
   the push is rejected and its note goes. If by a mark, the mapping's remote LSN becomes that of
   the mark, the note goes, and the push continues with B: its bundle has to be newer than the mark.

A push without a note has sent nothing to the log: a client that finds one may go on with B, or
forget it. A push with a note ends by C and D alone, and pulls and resets wait for that. Records are
never deleted: a name that is free again would be taken a second time.

What is atomic here: one batch, one create, one read. A fetch is one step, since a log only grows.
A local commit is one unit, and no two have the same pages: who publishes publishes all before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.specification.search import Interner, Steps, Violation
from tests.specification.volume_sync_state import (
    CREATE,
    FINISH,
    IDLE,
    MARK,
    NOTE,
    TAKEN,
    UPLOAD,
    Client,
    Late,
    Push,
    Record,
    State,
    SyncBounds,
    SyncRules,
    contents,
    sorted_commits,
    sorted_late,
    with_bundle,
    wrong_bundle,
)
from tests.specification.volume_sync_state import shown as shown_parts

COMMITS, UPLOADS, UNKNOWN, MARKS, CUTS = range(5)

Step = tuple[str, State | Violation]


class VolumeSync:
    """The machine."""

    def __init__(self, rules: SyncRules, bounds: SyncBounds) -> None:
        self.rules = rules
        self.bounds = bounds
        self._kept = Interner()
        self._next = {
            IDLE: self._idle,
            UPLOAD: self._uploads,
            NOTE: self._notes,
            CREATE: self._creates,
            TAKEN: self._reads_taken,
            FINISH: self._finishes,
        }

    def initial(self) -> State:
        bounds = self.bounds
        return State(
            log=(),
            freed=0,
            bundles=(),
            late=(),
            refused=(),
            given_up=(),
            clients=(Client(),) * (bounds.clients + bounds.lite),
            left=(bounds.commits, bounds.uploads, bounds.unknown, bounds.marks, bounds.cuts),
        )

    def broken(self, state: State) -> Violation | None:
        log = state.log
        published = contents(log)
        if len(set(published)) < len(published):
            return Violation("V1", f"a commit is published twice: {published}")
        for number, client in enumerate(state.clients, 1):
            if client.base != contents(log[: client.remote]):
                message = f"client {number} has {client.base} at remote LSN {client.remote}"
                return Violation("V2", message)
            if not 0 <= client.pending <= len(client.queue):
                return Violation("V2", f"pending_sync of client {number} is out of its range")
        queued = [commit for client in state.clients for commit in client.queue]
        for commit in range(state.left[COMMITS] + 1, self.bounds.commits + 1):
            if not (commit in published or commit in queued or commit in state.given_up):
                return Violation("V3", f"commit {commit} was acknowledged and is nowhere")
        why = wrong_bundle(log, state.bundles)
        return Violation("V5", why) if why else None

    def shown(self, state: State) -> dict[str, object]:
        return shown_parts(state)

    def steps(self, state: State) -> Steps[State]:
        for number, client in enumerate(state.clients):
            for label, after in self._client_steps(state, number, client):
                yield f"client {number + 1} {label}", after
        if state.left[MARKS]:
            left = _spend(state, MARKS)
            yield "a collector puts a mark", self._parts(state, log=(*state.log, MARK), left=left)
        for late in state.late:
            others = tuple(other for other in state.late if other is not late)
            what = f"record {late.lsn}" if late.lsn else f"bundle {late.record.bundle}"
            yield f"the create of {what} lands after all", self._landed(state, late, others)
        if not self.rules.records_stay and state.freed < len(state.log):
            yield "a collector deletes a record", self._parts(state, freed=state.freed + 1)

    def _client_steps(self, state: State, number: int, client: Client) -> Iterator[Step]:
        yield from self._next[client.at](state, number, client)
        if self._is_lite(number):
            if client.at != IDLE:
                yield "dies", self._over(state, number, client)
            return
        if state.left[COMMITS]:
            commit = state.left[COMMITS]
            grown = client._replace(queue=(*client.queue, commit))
            left = _spend(state, COMMITS)
            yield f"commits {commit}", self._with(state, number, grown, left=left)
        if client.at != IDLE:
            push = client.push if client.push is not None and client.push.noted else None
            is_kept = client.at == UPLOAD and not self.rules.names_burnt
            name = client.bundle if is_kept else 0
            dead = client._replace(at=IDLE, push=push, bundle=name)
            yield "dies and is opened again", self._with(state, number, dead)
        if state.left[CUTS]:
            yield from self._loses_power(state, number, client)

    # --- what an idle client may do ---------------------------------------------------------------

    def _idle(self, state: State, number: int, client: Client) -> Iterator[Step]:
        if self._is_lite(number):
            yield from self._begins_write(state, number)
            return
        if client.known < len(state.log):
            fetched = client._replace(known=len(state.log))
            yield "fetches", self._with(state, number, fetched)
        if client.pending:
            yield from self._recovers(state, number, client)
        elif client.queue:
            yield from self._begins_push(state, number, client)
        if client.known > client.remote and not (client.pending and self.rules.accept_waits):
            yield from self._accepts(state, number, client)
        if client.queue and not (client.pending and self.rules.reset_waits):
            queue = client.queue
            told = [one for one in state.late if one.lsn and {*queue} & {*one.record.commits}]
            parts = self._told_no(state, told)
            parts["given_up"] = sorted_commits((*state.given_up, *client.queue))
            yield "resets", self._with(state, number, self._mapped(state, client), **parts)

    def _begins_write(self, state: State, number: int) -> Iterator[Step]:
        if state.left[COMMITS]:
            commit = state.left[COMMITS]
            end, base = len(state.log), contents(state.log)
            begun = Client(UPLOAD, remote=end, known=end, base=base, queue=(commit,), pending=1)
            left = _spend(state, COMMITS)
            yield f"writes {commit}", self._with(state, number, begun, left=left)

    def _begins_push(self, state: State, number: int, client: Client) -> Iterator[Step]:
        news = state.log[client.remote : client.known]
        if news and (news[0] != MARK or not self.rules.marks_passed):
            yield "is rejected at once", self._rejected(state, number, client)
        elif not news:
            begun = client._replace(at=UPLOAD, pending=len(client.queue))
            yield "begins a push", self._with(state, number, begun)

    def _accepts(self, state: State, number: int, client: Client) -> Iterator[Step]:
        news = state.log[client.remote : client.known]
        all_marks = all(record == MARK for record in news) or not self.rules.only_marks_passed
        if all_marks and self.rules.marks_passed:
            passed = client._replace(remote=client.known)
            yield "passes marks", self._with(state, number, passed)
        elif client.queue and self.rules.accept_checks_queue:
            mine = [commit for commit in client.queue if commit in contents(state.log)]
            if mine:
                message = f"client {number + 1} is told of a conflict about {mine}, its own"
                yield "is told of a conflict", Violation("V4", message)
        else:
            yield "accepts", self._with(state, number, self._mapped(state, client))

    def _mapped(self, state: State, client: Client) -> Client:
        """The client with what it knows of the log, and nothing else."""
        known = client.known
        return Client(remote=known, known=known, base=contents(state.log[:known]))

    def _recovers(self, state: State, number: int, client: Client) -> Iterator[Step]:
        push = client.push
        if push is None:
            goes_on = client._replace(at=UPLOAD)
            yield "continues a push", self._with(state, number, goes_on)
            forgets = client._replace(pending=0)
            yield "forgets a push that sent nothing", self._with(state, number, forgets)
        elif self.rules.name_filled:
            fills = client._replace(at=CREATE)
            yield "recovers its push", self._with(state, number, fills)
        elif len(state.log) >= push.target:
            looks = client._replace(at=TAKEN)
            yield "finds a record", self._with(state, number, looks)
        else:
            told = [late for late in state.late if late.record == push.record]
            forgets = client._replace(pending=0, push=None)
            parts = self._told_no(state, told)
            yield (
                "finds no record and forgets its push",
                self._with(state, number, forgets, **parts),
            )

    # --- a push -----------------------------------------------------------------------------------

    def _uploads(self, state: State, number: int, client: Client) -> Iterator[Step]:
        if not state.left[UPLOADS]:
            return
        commits = client.queue[: client.pending]
        name = client.bundle or state.left[UPLOADS]
        bundle = Record(commits, name)
        state = self._parts(state, left=_spend(state, UPLOADS))
        uploaded = client._replace(at=NOTE, bundle=name)
        done = with_bundle(state.bundles, bundle)
        yield f"uploads bundle {name}", self._with(state, number, uploaded, bundles=done)
        if state.left[UNKNOWN]:
            late = sorted_late((*state.late, Late(0, bundle)))
            again = uploaded
            if self.rules.unknown_upload_repeated:
                again = client._replace(bundle=0 if self.rules.names_burnt else name)
            left = _spend(state, UNKNOWN)
            label = f"uploads bundle {name}, not answered"
            yield label, self._with(state, number, again, late=late, left=left)

    def _notes(self, state: State, number: int, client: Client) -> Iterator[Step]:
        rules = self.rules
        record = Record(client.queue[: client.pending], client.bundle)
        is_noted = rules.noted_before_create and not self._is_lite(number)
        push = Push(client.remote + 1, client.pending, record, is_noted)
        noted = client._replace(at=CREATE, push=push, bundle=0)
        if is_noted and rules.note_synced:
            noted = self._synced(noted)
        yield "notes its push", self._with(state, number, noted)

    def _creates(self, state: State, number: int, client: Client) -> Iterator[Step]:
        push = client.push
        assert push is not None
        if push.target <= state.freed:
            message = f"remote LSN {push.target} is taken a second time"
            yield "creates its record", Violation("V1", message)
        elif push.target > len(state.log) + 1:
            message = f"the log has no record before {push.target}"
            yield "creates its record", Violation("V1", message)
        elif push.target == len(state.log) + 1:
            ends = client._replace(at=FINISH)
            after = self._with(state, number, ends)
            late = Late(push.target, push.record)
            yield "creates its record", self._landed(after, late)
            if state.left[UNKNOWN]:
                lates = sorted_late({*state.late, late})
                left = _spend(state, UNKNOWN)
                yield "gets no answer", self._parts(state, late=lates, left=left)
        else:
            reads = client._replace(at=TAKEN)
            yield "finds the name taken", self._with(state, number, reads)

    def _reads_taken(self, state: State, number: int, client: Client) -> Iterator[Step]:
        push = client.push
        assert push is not None
        found = state.log[push.target - 1]
        if found == push.record or not self.rules.records_compared:
            ends = client._replace(at=FINISH)
            yield "finds its own record", self._with(state, number, ends)
        elif found == MARK and self.rules.marks_passed:
            known = max(client.known, push.target)
            passed = client._replace(at=UPLOAD, remote=push.target, known=known, push=None)
            yield "finds a mark", self._with(state, number, passed)
        else:
            yield "is rejected", self._rejected(state, number, client)

    def _finishes(self, state: State, number: int, client: Client) -> Iterator[Step]:
        push = client.push
        assert push is not None
        end = push.end if self.rules.end_noted else len(client.queue)
        told = client.queue[:end]
        missing = [commit for commit in told if commit not in contents(state.log)]
        if missing:
            message = f"client {number + 1} is told that {missing} are published; they are not"
            yield "has pushed", Violation("V4", message)
            return
        if self._is_lite(number):
            yield "has committed", self._with(state, number, Client())
            return
        pushed = client._replace(
            at=IDLE,
            remote=push.target,
            known=max(client.known, push.target),
            base=(*client.base, *told),
            queue=client.queue[end:],
            pending=0,
            push=None,
        )
        yield "has pushed", self._with(state, number, self._synced(pushed))

    def _rejected(self, state: State, number: int, client: Client) -> State | Violation:
        refused = client.queue[: client.pending or None]
        mine = [commit for commit in refused if commit in contents(state.log)]
        if mine:
            message = f"client {number + 1} is told that {mine} are not published; they are"
            return Violation("V4", message)
        if state.log[client.remote] == MARK:
            return Violation("V4", f"client {number + 1} is rejected, and only a mark is new")
        if self._is_lite(number):
            return self._over(state, number, client)
        rejected = client._replace(at=IDLE, pending=0, push=None)
        return self._with(state, number, rejected)

    # --- ends -------------------------------------------------------------------------------------

    def _over(self, state: State, number: int, client: Client) -> State:
        """A lite client forgets its write, of which it did not say that it is committed."""
        given_up = sorted_commits((*state.given_up, *client.queue))
        return self._with(state, number, Client(), given_up=given_up)

    def _loses_power(self, state: State, number: int, client: Client) -> Iterator[Step]:
        left = _spend(state, CUTS)
        push = client.push
        if push is not None and not (push.noted and self.rules.note_synced):
            push = None
        for end in range(client.durable, len(client.queue) + 1):
            given_up = sorted_commits((*state.given_up, *client.queue[end:]))
            dark = client._replace(
                at=IDLE,
                known=client.remote,
                queue=client.queue[:end],
                pending=0 if push is None else client.pending,
                push=push,
                bundle=0,
                durable=end,
            )
            label = f"loses power, and {len(client.queue) - end} commits"
            yield label, self._with(state, number, dark, given_up=given_up, left=left)

    def _synced(self, client: Client) -> Client:
        return client._replace(durable=len(client.queue)) if self.bounds.cuts else client

    # --- states -----------------------------------------------------------------------------------

    def _is_lite(self, number: int) -> bool:
        return number >= self.bounds.clients

    def _told_no(self, state: State, told: list[Late]) -> dict[str, Any]:
        return {"refused": sorted_late({*state.refused, *told})} if told else {}

    def _landed(
        self, state: State, late: Late, others: tuple[Late, ...] | None = None
    ) -> State | Violation:
        """A create has its effect, if the name is free."""
        others = state.late if others is None else others
        lsn, record = late
        if not lsn:
            bundles = with_bundle(state.bundles, record)
            return self._parts(state, bundles=bundles, late=others)
        assert lsn == len(state.log) + 1, "what finds its name taken is not kept"
        if late in state.refused:
            message = f"{record} was told not to be published, and now it is"
            return Violation("V4", message)
        return self._parts(state, log=(*state.log, record), late=others)

    def _with(self, state: State, number: int, client: Client, **parts: Any) -> State:
        if not state.left[CUTS] and client.durable:
            client = client._replace(durable=0)
        clients = state.clients
        client = self._kept("client", client)
        clients = (*clients[:number], client, *clients[number + 1 :])
        return self._parts(state, clients=clients, **parts)

    def _parts(self, state: State, **parts: Any) -> State:
        log = parts.get("log")
        if log is not None:
            # Any other create of this name finds it taken.
            late = parts.get("late", state.late)
            parts["late"] = tuple(one for one in late if one.lsn != len(log))
            parts["refused"] = tuple(one for one in state.refused if one.lsn != len(log))
        return state._replace(**{key: self._kept(key, value) for key, value in parts.items()})


def _spend(state: State, what: int) -> tuple[int, ...]:
    left = list(state.left)
    left[what] -= 1
    return tuple(left)
