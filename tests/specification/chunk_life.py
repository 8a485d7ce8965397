"""The life of a data chunk as a state machine: id, bytes, commit, drop, task, deletion, pins.

Who acts: up to three owners, one an epoch, in the order of their claims; each may stop between any
two steps and continue later. A call to long-term storage may end with an unknown outcome: applied,
not applied, or applied at any later time. So may an append to the log. A reader without a claim
takes a pin and opens what the table log on long-term storage says.

Boot, log and table log are atomic here; the machines in ``file_log`` and ``system_journal`` take
them apart. An append is one unit; an owner flushes all that it knows of.
"""

from __future__ import annotations

from typing import Any

from tests.specification.chunk_life_state import (
    APPEND,
    COMMIT,
    DEAD,
    DROP,
    OPEN,
    RESERVE,
    STATED,
    TASK,
    UNBORN,
    Chunk,
    ChunkBounds,
    ChunkRules,
    Frame,
    Owner,
    Reader,
    Rows,
    State,
    lost,
    rows_of,
)
from tests.specification.chunk_life_state import shown as shown_parts
from tests.specification.owned import OwnedMachine, spend
from tests.specification.search import Steps, Violation

APPENDS, WRITES, DROPS, UNKNOWN, PINS = range(5)


class ChunkLife(OwnedMachine):
    """The machine."""

    def __init__(self, rules: ChunkRules, bounds: ChunkBounds) -> None:
        super().__init__()
        self.rules = rules
        self.bounds = bounds

    def initial(self) -> State:
        bounds = self.bounds
        return State(
            log=(),
            acknowledged=0,
            fence=0,
            covered=0,
            chunks=(),
            late=(),
            used=(),
            owners=(Owner(),) * bounds.owners,
            reader=Reader(),
            left=(bounds.appends, bounds.writes, bounds.drops, bounds.unknown, bounds.pins),
        )

    def broken(self, state: State) -> Violation | None:
        rows = rows_of(state.log)
        gone = lost(state.chunks, rows)
        if gone:
            return Violation("I13", f"the rows in the log name what is not there: {gone}")
        gone = lost(state.chunks, rows_of(state.log[: state.covered]))
        if gone:
            return Violation("I8", f"the table log on long-term storage names it: {gone}")
        reader = state.reader
        if reader.pin >= 0 and reader.opened >= 0:
            gone = lost(state.chunks, rows_of(state.log[: reader.opened]))
            if gone:
                return Violation("I13", f"a reader with a pin opened {reader.opened}: {gone}")
        named = {number for number, _ in (*rows.named, *rows.tasks)}
        reserved = {(f.chunk, f.epoch) for f in state.log if f.kind == RESERVE}
        for chunk in state.chunks:
            known = chunk.number in named or (chunk.number, chunk.epoch) in reserved
            if chunk.there and not known:
                return Violation("I4", f"nothing names chunk {chunk.number}, no owner reserved it")
        return None

    def shown(self, state: State) -> dict[str, object]:
        return shown_parts(state)

    def steps(self, state: State) -> Steps[State]:
        for epoch, owner in enumerate(state.owners, 1):
            if owner.at == DEAD:
                continue
            if owner.at == UNBORN:
                yield f"owner {epoch} claims and boots", self._claimed(state, epoch)
                break
            for label, after in self._owner_steps(state, epoch, owner):
                yield f"owner {epoch} {label}", after
            yield f"owner {epoch} dies", self._with(state, epoch, Owner(at=DEAD))
        for chunk in state.late:
            late = tuple(other for other in state.late if other != chunk)
            chunks = state.chunks
            if not any(c.number == chunk.number and c.epoch == chunk.epoch for c in chunks):
                chunks = (*chunks, chunk)
            label = f"the create of chunk {chunk.number} takes effect after all"
            yield label, self._parts(state, late=late, chunks=chunks)
        yield from self._reader_steps(state)

    def _claimed(self, state: State, epoch: int) -> State:
        rows = rows_of(state.log)
        owner = Owner(at=OPEN, known=len(state.log), covered=state.covered)
        if not self.rules.own_epoch_only and rows.named:
            owner = owner._replace(chunk=rows.named[-1][0])
        return self._with(state, epoch, owner, fence=epoch)

    def _owner_steps(self, state: State, epoch: int, owner: Owner) -> Steps[State]:
        rows = rows_of(state.log[: owner.known], owner.unseen)
        if state.left[APPENDS]:
            spent = spend(state, APPENDS)
            yield from self._log(state, epoch, owner, Frame(APPEND), left=spent)
        if not owner.reserved and state.left[WRITES]:
            yield from self._reserve(state, epoch, owner, rows)
        if not owner.written[0] and rows.appends > rows.flushed and state.left[WRITES]:
            yield from self._write(state, epoch, owner, rows)
        if owner.written[0]:
            number, end = owner.written
            done = owner._replace(written=(0, 0))
            yield from self._log(state, epoch, done, Frame(COMMIT, number, end))
        if owner.abandoned:
            done = owner._replace(abandoned=0)
            yield from self._log(state, epoch, done, Frame(TASK, owner.abandoned))
        if state.left[DROPS] and rows.named and not owner.written[0]:
            spent = spend(state, DROPS)
            number = rows.named[0][0]
            done = owner._replace(chunk=0 if owner.chunk == number else owner.chunk)
            yield from self._log(state, epoch, done, Frame(DROP, number), left=spent)
        if owner.covered < owner.known:
            done = owner._replace(covered=owner.known)
            covered = max(state.covered, owner.known)
            yield "flushes the table log", self._with(state, epoch, done, covered=covered)
        yield from self._collect(state, epoch, owner, rows)

    # --- the log ----------------------------------------------------------------------------------

    def _log(
        self, state: State, epoch: int, owner: Owner, frame: Frame, **parts: Any
    ) -> Steps[State]:
        if state.fence > epoch and self.rules.log_fenced:
            yield "finds itself fenced", self._with(state, epoch, Owner(at=DEAD))
            return
        log = (*state.log, frame._replace(epoch=epoch))
        label = shown_parts(state._replace(log=log[-1:]))["log"]
        known = owner._replace(known=len(log))
        done = self._with(state, epoch, known, log=log, acknowledged=len(log), **parts)
        yield f"puts into the log: {label}", done
        left = parts.get("left", state.left)
        if not left[UNKNOWN]:
            return
        parts["left"] = spend(state._replace(left=left), UNKNOWN)
        after = Owner(at=DEAD)
        if not self.rules.unknown_append_ends_owner:
            number = frame.chunk if frame.kind == COMMIT else 0
            after = known._replace(unseen=len(log) - 1, abandoned=number, chunk=0)
        done = self._with(state, epoch, after, log=log, **parts)
        yield f"puts into the log, not answered: {label}", done

    # --- bytes ------------------------------------------------------------------------------------

    def _reserve(self, state: State, epoch: int, owner: Owner, rows: Rows) -> Steps[State]:
        if self.rules.ids_reserved:
            number = rows.reserved + 1
            done = owner._replace(reserved=number)
            yield from self._log(state, epoch, done, Frame(RESERVE, number))
            return
        number = 1 + max((number for number, _ in (*rows.named, *rows.tasks)), default=0)
        yield f"takes id {number}", self._with(state, epoch, owner._replace(reserved=number))

    def _write(self, state: State, epoch: int, owner: Owner, rows: Rows) -> Steps[State]:
        spent = spend(state, WRITES)
        end = rows.appends
        if not self.rules.bytes_before_commit and owner.reserved:
            early = owner._replace(reserved=0)
            yield from self._log(
                state, epoch, early, Frame(COMMIT, owner.reserved, end), left=spent
            )
        elif owner.chunk:
            yield from self._extend(state._replace(left=spent), epoch, owner, end)
        elif owner.reserved:
            yield from self._create(state._replace(left=spent), epoch, owner, rows.flushed, end)

    def _extend(self, state: State, epoch: int, owner: Owner, end: int) -> Steps[State]:
        chunk = next(c for c in state.chunks if c.number == owner.chunk)
        label = f"appends to chunk {chunk.number}"
        if chunk.epoch != epoch:
            message = f"epoch {epoch} writes chunk {chunk.number} of epoch {chunk.epoch}"
            yield label, Violation("I3", message)
            return
        if chunk.doubt:
            message = f"chunk {chunk.number} is written after an unknown append"
            yield label, Violation("I3", message)
            return
        grown = _with_chunk(state.chunks, chunk._replace(end=end))
        after = owner._replace(written=(chunk.number, end))
        yield label, self._with(state, epoch, after, chunks=grown)
        if state.left[UNKNOWN]:
            kept = 0 if self.rules.not_written_after_unknown else chunk.number
            after = owner._replace(chunk=kept)
            left = spend(state, UNKNOWN)
            for size, what in ((end, "not answered"), (chunk.end, "in vain")):
                doubtful = _with_chunk(state.chunks, chunk._replace(end=size, doubt=True))
                done = self._with(state, epoch, after, chunks=doubtful, left=left)
                yield f"{label}, {what}", done

    def _create(self, state: State, epoch: int, owner: Owner, start: int, end: int) -> Steps[State]:
        number = owner.reserved
        label = f"creates chunk {number}"
        if number in state.used:
            yield label, Violation("I16", f"chunk id {number} is used a second time")
            return
        used = (*state.used, number)
        chunk = Chunk(number, epoch, start, end)
        after = owner._replace(reserved=0, chunk=number, written=(number, end))
        chunks = (*state.chunks, chunk)
        yield label, self._with(state, epoch, after, chunks=chunks, used=used)
        if state.left[UNKNOWN]:
            left = spend(state, UNKNOWN)
            again = owner
            if self.rules.names_burnt:
                again = owner._replace(reserved=0, abandoned=number)
            yield (
                f"{label}, not answered",
                self._with(state, epoch, again, chunks=chunks, used=used, left=left),
            )
            late = (*state.late, chunk)
            yield (
                f"{label}, not answered yet",
                self._with(state, epoch, again, late=late, used=used, left=left),
            )

    # --- garbage ----------------------------------------------------------------------------------

    def _collect(self, state: State, epoch: int, owner: Owner, rows: Rows) -> Steps[State]:
        number = owner.deleting
        if number and owner.stated:
            chunks = tuple(
                c._replace(there=False) if c.number == number else c for c in state.chunks
            )
            after = owner._replace(deleting=0, stated=False)
            yield f"deletes chunk {number}", self._with(state, epoch, after, chunks=chunks)
        elif number:
            after = owner._replace(stated=True)
            if self.rules.deletion_stated:
                yield from self._log(state, epoch, after, Frame(STATED, number))
            else:
                yield "continues without a statement", self._with(state, epoch, after)
        else:
            pin = state.reader.pin
            for number, version in rows.tasks:
                there = any(c.number == number and c.there for c in state.chunks)
                is_covered = version <= owner.covered or not self.rules.drop_covered
                is_free = pin < 0 or version <= pin or not self.rules.pins_kept
                if there and is_covered and is_free:
                    after = owner._replace(deleting=number)
                    label = f"finds that chunk {number} may go"
                    yield label, self._with(state, epoch, after)

    # --- a reader ---------------------------------------------------------------------------------

    def _reader_steps(self, state: State) -> Steps[State]:
        reader = state.reader
        first = self.rules.pin_before_open
        if state.left[PINS] and reader == Reader():
            after = Reader(pin=state.covered) if first else Reader(opened=state.covered)
            label = "a reader takes a pin" if first else "a reader opens"
            yield label, self._parts(state, reader=after, left=spend(state, PINS))
        elif reader.pin >= 0 and reader.opened < 0:
            after = reader._replace(opened=state.covered)
            yield "the reader opens", self._parts(state, reader=after)
        elif reader.opened >= 0 and reader.pin < 0:
            # Too late if it is gone by now; the reader sees that itself.
            if not lost(state.chunks, rows_of(state.log[: reader.opened])):
                after = reader._replace(pin=reader.opened)
                yield "the reader takes a pin", self._parts(state, reader=after)
        elif reader != Reader():
            yield "the reader ends", self._parts(state, reader=Reader())


def _with_chunk(chunks: tuple[Chunk, ...], chunk: Chunk) -> tuple[Chunk, ...]:
    return tuple(chunk if (c.number, c.epoch) == (chunk.number, chunk.epoch) else c for c in chunks)
