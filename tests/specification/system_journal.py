"""The system journal as a state machine: claims, table log, checkpoints, truncation, retention.

Who acts: up to three owners, one an epoch, in the order of their claims; each may stop between any
two steps and continue later, long after it lost the log. Long-term storage has no fence: it takes
whatever a fenced owner still writes and deletes. Calls to it may end with an unknown outcome,
applied or not, and one checkpoint file may be damaged.

What is atomic here: a claim, an append with its acknowledgement, one call to long-term storage, and
one listing together with the reads of what it showed (in the code a file that went meanwhile makes
recovery list again). What follows the last look for a newer owner may happen at any later time.

Which files may go is decided by ``journal/retention.py`` itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.specification.owned import OwnedMachine, spend
from tests.specification.search import Steps, Violation
from tests.specification.system_journal_retention import Retention, made_durable, without
from tests.specification.system_journal_state import (
    APPEND,
    BOOTING,
    CLAIMED,
    DEAD,
    FLUSHED,
    OPEN,
    PEEKED,
    RECOVERED,
    UNBORN,
    Batch,
    Checkpoint,
    Chunk,
    File,
    Index,
    JournalBounds,
    JournalRules,
    Layout,
    Owner,
    Pending,
    Recovered,
    State,
    missing,
    recover,
    safe_index,
)
from tests.specification.system_journal_state import shown as shown_parts

APPENDS, COMMITS, FLUSHES, CHECKPOINTS, UNKNOWN, DAMAGE = range(6)


class SystemJournal(OwnedMachine):
    """The machine."""

    def __init__(self, rules: JournalRules, bounds: JournalBounds) -> None:
        super().__init__()
        self.rules = rules
        self.bounds = bounds
        self._retention = Retention(rules)
        self._recovered: dict[object, Recovered | None] = {}
        self._missing: dict[object, Violation | None] = {}

    def initial(self) -> State:
        bounds = self.bounds
        return State(
            log=(),
            acknowledged=0,
            first=0,
            fence=0,
            journals=((),) * bounds.owners,
            chunks=(),
            indexes=(),
            owners=(Owner(),) * bounds.owners,
            left=(
                bounds.appends,
                bounds.commits,
                bounds.flushes,
                bounds.checkpoints,
                bounds.unknown,
                bounds.damage,
            ),
        )

    def broken(self, state: State) -> Violation | None:
        """A claim at this moment has to find everything."""
        key = (
            state.log,
            state.acknowledged,
            state.first,
            state.journals,
            state.chunks,
            state.indexes,
        )
        if key not in self._missing:
            wrong = missing(state, self._recover(state))
            self._missing[key] = None if wrong is None else Violation(*wrong)
        return self._missing[key]

    def shown(self, state: State) -> dict[str, object]:
        return shown_parts(state)

    def steps(self, state: State) -> Steps[State]:
        for epoch, owner in enumerate(state.owners, 1):
            if owner.at == DEAD:
                continue
            for label, after in self._owner_steps(state, epoch, owner):
                yield f"owner {epoch} {label}", after
            if owner.at == UNBORN:
                break
            yield f"owner {epoch} dies", self._with(state, epoch, Owner(at=DEAD))
        if state.left[DAMAGE]:
            yield from self._damages(state)

    # --- boot -------------------------------------------------------------------------------------

    def _owner_steps(self, state: State, epoch: int, owner: Owner) -> Steps[State]:
        at = owner.at
        if at == UNBORN and not self.rules.recovers_after_claim:
            peeked = owner._replace(at=PEEKED, found=self._recover(state))
            yield "recovers", self._with(state, epoch, peeked)
        elif at in (UNBORN, PEEKED):
            after = CLAIMED if at == UNBORN else RECOVERED
            claimed = owner._replace(at=after, known=len(state.log))
            yield "claims the log", self._with(state, epoch, claimed, fence=epoch)
        elif at == CLAIMED:
            recovered = owner._replace(at=RECOVERED, found=self._recover(state, below=epoch))
            yield "recovers", self._with(state, epoch, recovered)
        elif at == RECOVERED:
            yield "reads log, index and table log", self._booted(state, epoch, owner)
        elif owner.pending:
            yield from self._write_journal(state, epoch, owner)
            if at == OPEN:
                yield from self._open_steps(state, epoch, owner)
        elif at == BOOTING:
            yield from self._put_record(state, epoch, owner)
        else:
            yield from self._open_steps(state, epoch, owner)

    def _booted(self, state: State, epoch: int, owner: Owner) -> State | Violation:
        wrong = missing(state, owner.found)
        if wrong is not None and state.fence > epoch:
            return self._with(state, epoch, Owner(at=DEAD))  # No call waits for this one.
        if wrong is not None:
            return Violation(wrong[0], f"the boot of epoch {epoch} fails: {wrong[1]}")
        found = owner.found or Recovered()
        booting = Owner(at=BOOTING, known=owner.known, layout=found.layout)
        first = self._checkpoint(state, booting, found.index_id, found.version)
        copies = 2 if self.rules.first_checkpoint_twice else 1
        return self._with(state, epoch, booting._replace(pending=(Pending(first, copies),)))

    def _put_record(self, state: State, epoch: int, owner: Owner) -> Steps[State]:
        if state.fence > epoch:
            yield "finds itself fenced", self._with(state, epoch, Owner(at=DEAD))
            return
        after = owner._replace(at=OPEN, record=owner.known)
        yield "puts its checkpoint record into the log", self._with(state, epoch, after)

    # --- an open container ------------------------------------------------------------------------

    def _open_steps(self, state: State, epoch: int, owner: Owner) -> Steps[State]:
        yield from self._append(state, epoch, owner)
        yield from self._flush_table_log(state, epoch, owner)
        yield from self._begin_checkpoint(state, epoch, owner)
        if not owner.pending or not self.rules.composed_in_turn:
            yield from self._compose(state, epoch, owner)
        newest = owner.durable[-1].checkpoint if owner.durable else None
        if owner.record < owner.known and newest is not None and not owner.pending:
            yield from self._put_record(state, epoch, owner)
        yield from self._truncate(state, epoch, owner)
        yield from self._delete(state, epoch, owner)

    def _append(self, state: State, epoch: int, owner: Owner) -> Steps[State]:
        frames = []
        if state.left[APPENDS]:
            frames.append((APPEND, APPENDS, "appends"))
        if state.left[COMMITS] and APPEND in state.log[: owner.known]:
            frames.append((FLUSHED + owner.known, COMMITS, "commits a flush of all appends"))
        for frame, spent, label in frames:
            if state.fence > epoch:
                yield "finds itself fenced", self._with(state, epoch, Owner(at=DEAD))
                return
            log = (*state.log, frame)
            left = spend(state, spent)
            known = owner._replace(known=len(log))
            acknowledged = self._with(
                state, epoch, known, log=log, acknowledged=len(log), left=left
            )
            yield label, acknowledged
            if left[UNKNOWN]:
                left = (*left[:UNKNOWN], left[UNKNOWN] - 1, *left[UNKNOWN + 1 :])
                dead = self._with(state, epoch, Owner(at=DEAD), log=log, left=left)
                yield f"{label} and is not answered", dead

    def _flush_table_log(self, state: State, epoch: int, owner: Owner) -> Steps[State]:
        if not state.left[FLUSHES] or owner.written[0] or owner.known <= owner.layout.end:
            return
        left = spend(state, FLUSHES)
        number, chunks = owner.chunk, state.chunks
        if number:
            grown = chunks[number - 1]._replace(end=owner.known)
            chunks = (*chunks[: number - 1], grown, *chunks[number:])
        else:
            number = len(chunks) + 1
            chunks = (*chunks, Chunk(epoch, owner.layout.end, owner.known))
        written = owner._replace(chunk=number, written=(number, owner.known))
        label = f"writes the table log up to {owner.known} into chunk {number}"
        yield label, self._with(state, epoch, written, chunks=chunks, left=left)
        if state.left[UNKNOWN]:
            left = (*left[:UNKNOWN], left[UNKNOWN] - 1, *left[UNKNOWN + 1 :])
            kept = 0 if self.rules.chunk_not_written_after_unknown else number
            after = owner._replace(chunk=kept)
            refunded = (*left[:FLUSHES], left[FLUSHES] + 1, *left[FLUSHES + 1 :])
            for what, there in ((", not answered", chunks), (", in vain", state.chunks)):
                if what == ", in vain" and not owner.chunk:
                    continue  # Nothing is there, and the name is not used again.
                yield label + what, self._with(state, epoch, after, chunks=there, left=refunded)

    def _begin_checkpoint(self, state: State, epoch: int, owner: Owner) -> Steps[State]:
        if state.left[CHECKPOINTS] and not owner.index_id and owner.known:
            indexes = (*state.indexes, Index(epoch, owner.known))
            after = owner._replace(index_id=len(indexes))
            left = spend(state, CHECKPOINTS)
            label = f"uploads index {len(indexes)} of version {owner.known}"
            yield label, self._with(state, epoch, after, indexes=indexes, left=left)

    # --- the journal ------------------------------------------------------------------------------

    def _compose(self, state: State, epoch: int, owner: Owner) -> Steps[State]:
        """Compose each record that is due and write it: what is in memory is not seen by others."""
        for record in self._due(state, owner):
            pending = (*owner.pending, Pending(record))
            if owner.pending:
                after = self._with(state, epoch, owner._replace(pending=pending))
                yield f"composes sequence {record.sequence} too early", after
            else:
                yield from self._write_journal(state, epoch, owner._replace(pending=pending))

    def _due(self, state: State, owner: Owner) -> Iterator[Batch | Checkpoint]:
        chunk, end = owner.written
        queued = {type(pending.record) for pending in owner.pending}
        parts = owner.layout.parts
        if chunk and Batch not in queued:
            kept = [part for part in parts if part[0] != chunk]
            yield self._batch(
                state, owner, Layout(owner.layout.start, (*kept, (chunk, end))), chunk
            )
        if owner.index_id and Checkpoint not in queued:
            version = state.indexes[owner.index_id - 1].version
            if owner.layout.end >= version or not self.rules.index_not_ahead:
                yield self._checkpoint(state, owner, owner.index_id, version)
        if len(owner.durable) == 2 and Batch not in queued and parts:
            place = 0 if self.rules.trims_below_older_checkpoint else 1
            oldest = owner.durable[place].checkpoint.version
            if parts[0][1] <= oldest:
                after = Layout(parts[0][1], parts[1:])
                yield self._batch(state, owner, after, parts[0][0])

    def _batch(self, state: State, owner: Owner, after: Layout, chunk: int) -> Batch:
        covers = after.end if self.rules.batch_states_what_it_covers else owner.known
        safe = self._safe(state, owner, covers)
        return Batch(owner.sequence, after, safe, owner.known - 1, chunk)

    def _checkpoint(self, state: State, owner: Owner, index: int, version: int) -> Checkpoint:
        safe = self._safe(state, owner, owner.layout.end)
        return Checkpoint(owner.sequence, owner.layout, index, version, safe, owner.known - 1)

    def _safe(self, state: State, owner: Owner, table_end: int) -> int:
        hold = self.rules.appends_hold_safe_index
        return safe_index(state.log[: owner.known], table_end, appends_hold=hold)

    def _write_journal(self, state: State, epoch: int, owner: Owner) -> Steps[State]:
        record = owner.pending[0].record
        files = state.journals[epoch - 1]
        alone = isinstance(record, Checkpoint)
        number, usable = owner.usable, 0
        if number and not (alone and self.rules.checkpoint_alone):
            file = files[number - 1]
            if file is None:
                return
            files = (
                *files[: number - 1],
                file._replace(records=(*file.records, record)),
                *files[number:],
            )
            usable = number
        else:
            files = (*files, File((record,)))
            number = len(files)
            if not alone or not self.rules.checkpoint_alone:
                usable = number
            elif not self.rules.closes_older_file:
                usable = owner.usable
        journals = _at(state.journals, epoch, files)
        what = f"{'checkpoint' if alone else 'batch'} {record.sequence}"
        label = f"writes {what} into journal file {number}"
        after = made_durable(owner, number, self.rules)._replace(usable=usable)
        yield label, self._with(state, epoch, after, journals=journals)
        if not state.left[UNKNOWN]:
            return
        left = spend(state, UNKNOWN)
        again = owner._replace(usable=0)
        if not self.rules.unknown_write_repeated:
            again = again._replace(pending=owner.pending[1:])
        lost = journals
        if number > len(state.journals[epoch - 1]):
            lost = _at(state.journals, epoch, (*state.journals[epoch - 1], None))
        else:
            lost = state.journals
        yield (
            f"{label}, not answered",
            self._with(state, epoch, again, journals=journals, left=left),
        )
        yield f"{label}, in vain", self._with(state, epoch, again, journals=lost, left=left)

    # --- destruction ------------------------------------------------------------------------------

    def _truncate(self, state: State, epoch: int, owner: Owner) -> Steps[State]:
        if owner.truncation:
            first = max(state.first, owner.truncation)
            after = owner._replace(truncation=0)
            yield f"truncates the log to {first}", self._with(state, epoch, after, first=first)
            return
        index = owner.stated
        if self.rules.truncation_bounded_by_record:
            index = min(index, owner.record)
        if index <= state.first:
            return
        if state.fence > epoch and self.rules.truncation_stated:
            yield "finds itself fenced", self._with(state, epoch, Owner(at=DEAD))
            return
        label = f"states the truncation to {index}"
        yield label, self._with(state, epoch, owner._replace(truncation=index))

    def _delete(self, state: State, epoch: int, owner: Owner) -> Steps[State]:
        if owner.doomed:
            after = owner._replace(doomed=())
            left = without(state, set(owner.doomed))
            yield "deletes what it stated", self._with(state, epoch, after, **left)
            return
        if len(owner.durable) < 2:
            return
        names = self._retention.needless(state, epoch, owner)
        if not names:
            return
        if state.fence > epoch and self.rules.deletion_stated:
            yield "finds itself fenced", self._with(state, epoch, Owner(at=DEAD))
            return
        label = f"states the deletion of {', '.join(names)}"
        yield label, self._with(state, epoch, owner._replace(doomed=tuple(names)))

    # --- the world --------------------------------------------------------------------------------

    def _damages(self, state: State) -> Iterator[tuple[str, State]]:
        """One checkpoint file is damaged, of an epoch that has opened."""
        left = spend(state, DAMAGE)
        for epoch, files in enumerate(state.journals, 1):
            if state.owners[epoch - 1].at != OPEN:
                continue
            for number, file in enumerate(files):
                if not file or file.damaged or not isinstance(file.records[0], Checkpoint):
                    continue
                broken = (*files[:number], File((), damaged=True), *files[number + 1 :])
                journals = _at(state.journals, epoch, broken)
                label = f"journal file {epoch}.{number + 1} is damaged"
                yield label, self._parts(state, journals=journals, left=left)

    def _recover(self, state: State, below: int = 1 << 30) -> Recovered | None:
        key = state.journals[: below - 1]
        if key not in self._recovered:
            newest = self.rules.newest_epoch_counts
            self._recovered[key] = recover(key, newest_epoch_counts=newest)
        return self._recovered[key]


def _at(
    journals: tuple[tuple[File | None, ...], ...], epoch: int, files: tuple[File | None, ...]
) -> tuple[tuple[File | None, ...], ...]:
    return (*journals[: epoch - 1], files, *journals[epoch:])
