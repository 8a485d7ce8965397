"""Commands that complete times: an append, once by writer and sequence, and the end of all times.

What a repeat may conclude rests on one row: the writer's last sequence, with the upper after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from siltstone.collections.state.frontiers import since_by_policy
from siltstone.collections.state.limits import (
    BATCHES_MANY,
    BATCHES_MAX,
    SEQUENCE_MAX,
    WRITERS_MAX,
)
from siltstone.collections.state.refusals import (
    check_lease,
    check_name,
    check_open,
    check_room,
    cut_who,
    name_of,
)
from siltstone.collections.state.uploads import check_batches, check_parts, holds_moved
from siltstone.core.errors import (
    BackPressureError,
    CollectionSequenceError,
    UpdateTimeError,
    UpperMismatchError,
)
from siltstone.core.records.collection_batch import Batches, CollectionBatch, CollectionRun
from siltstone.core.records.collection_frontier import AT_COMMIT, DONE, TIME_MAX, is_frontier
from siltstone.core.records.collection_part import CollectionPart, PartFlags
from siltstone.core.records.collection_rows import NO_SEQUENCE, CollectionWriter
from siltstone.core.records.collection_state import CollectionState, Times
from siltstone.core.records.record_copy import copied


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionAppend:
    """What is to be appended: the same object for each attempt.

    Attributes:
        writer: name of who appends.
        sequence: of this append among those of the writer, from 0 to 2^63 - 1.
        runs: the rows. Parts whose time is ``AT_COMMIT`` get the time of the commit.
        expected: the upper that the collection has to have; ``None`` takes any.
        new: the upper that it gets, a frontier; ``None`` means one time only, that of the commit:
            now, or the upper where that is later or times are a count.
        lease_ms: how long the writer's last sequence is known, milliseconds; 0: for ever.
        who: describes the writer, for people.
    """

    writer: str
    sequence: int
    runs: tuple[CollectionRun, ...] = ()
    expected: int | None = None
    new: int | None = None
    lease_ms: int
    who: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """An append that counts once.

    Attributes:
        upper: of the collection after it. Where the append got its time at the commit, that is one
            less.
        repeated: an earlier attempt had succeeded.
    """

    upper: int
    repeated: bool


def compare_and_append(
    state: CollectionState, now_ms: int, *, append: CollectionAppend
) -> tuple[CollectionState, Appended]:
    """Append the updates of ``[upper, new)``.

    Args:
        state: the state.
        now_ms: milliseconds since 1970.
        append: what to append.

    Returns:
        The new state and what was appended. The state is the same where the row says that this
        sequence was appended before.

    Raises:
        UpperMismatchError: the upper is not the expected one.
        UpdateTimeError: the range is reversed, times are outside of it, or the collection is
            finished.
        CollectionSequenceError: the sequence is below the last one.
        CollectionSchemaError: the schema of a part is not known.
        BatchExpiredError: a part was appended before, or its writer is not known any more.
        InlineLimitError: rows have to be uploaded, since the state has no more room for them.
        BackPressureError: 1,000 batches or 50,000 parts.
        CollectionLimitError: there are 1,000 writers.
        CollectionDroppedError: it was dropped.
        CollectionMovedError: it continues elsewhere.
        ValueError: an argument is not as described.
    """
    check_name(append.writer)
    check_lease(append.lease_ms, least=0)
    if not 0 <= append.sequence <= SEQUENCE_MAX:
        raise ValueError(f"a sequence is 0 to {SEQUENCE_MAX}: {append.sequence}")
    row = state.writers.get(append.writer)
    if row is not None and row.sequence == append.sequence:
        return state, Appended(upper=row.upper, repeated=True)
    check_open(state)
    _check_sequence(state, append, row)
    lower, upper, time = _range(state, now_ms, append)
    runs = _timed(state, append.runs, time)
    parts = [part for run in runs for part in run]
    _check_times(state, parts, lower, upper)
    check_parts(state, parts)
    batches = _added(state, CollectionBatch(lower=lower, upper=upper, runs=runs))
    check_batches(state, batches)
    writers = {**state.writers, append.writer: _appender(now_ms, append, row, upper)}
    after = copied(
        state,
        batches=batches,
        writers=holds_moved(writers, parts),
        since=since_by_policy(state, batches.upper),
    )
    return after, Appended(upper=upper, repeated=False)


def finish(state: CollectionState, now_ms: int) -> tuple[CollectionState, None]:
    """Say that no more updates come: the upper becomes ``DONE``. May be repeated.

    Raises:
        BackPressureError: there are 1,000 batches.
        CollectionDroppedError: it was dropped.
        CollectionMovedError: it continues elsewhere.
    """
    del now_ms
    check_open(state)
    if state.upper == DONE:
        return state, None
    batches = _added(state, CollectionBatch(lower=state.upper, upper=DONE))
    return replace(state, batches=batches), None


def appends_wait(state: CollectionState) -> bool:
    """Whether appends should wait for a compaction first: from 900 batches on."""
    return len(state.batches.items) >= BATCHES_MANY


def _check_sequence(
    state: CollectionState, append: CollectionAppend, row: CollectionWriter | None
) -> None:
    last = NO_SEQUENCE if row is None else row.sequence
    if append.sequence < last:
        raise CollectionSequenceError(
            collection=name_of(state),
            writer=append.writer,
            sequence=append.sequence,
            last_sequence=last,
        )
    if row is None:
        check_room(state, "writers", len(state.writers), WRITERS_MAX)
    elif row.hold and not append.lease_ms:
        raise ValueError("a writer that uploads has a lease")


def _range(
    state: CollectionState, now_ms: int, append: CollectionAppend
) -> tuple[int, int, int | None]:
    """Lower, upper, and the time of parts that get theirs now; ``None`` where none may."""
    current = state.upper
    lower = current if append.expected is None else append.expected
    upper = DONE if append.new is None else append.new
    if not is_frontier(lower) or not is_frontier(upper):
        raise ValueError(f"not a range of frontiers: {lower} to {upper}")
    if upper < lower:
        raise _misfit(state, "range is reversed", lower=lower, upper=upper)
    if lower != current:
        raise UpperMismatchError(collection=name_of(state), expected=lower, current=current)
    if append.new is not None:
        return lower, upper, None
    if current == DONE:
        raise _misfit(state, "collection is finished")
    time = max(current, now_ms) if state.times is Times.MILLISECONDS else current
    if time > TIME_MAX:
        raise _misfit(state, "no time is left", time=time)
    return lower, time + 1 if time < TIME_MAX else DONE, time


def _timed(
    state: CollectionState, runs: Sequence[CollectionRun], time: int | None
) -> tuple[CollectionRun, ...]:
    """Give parts that wait for it the time of the commit. Their objects stay as they are."""
    return tuple([tuple([_timed_part(state, part, time) for part in run]) for run in runs if run])


def _timed_part(state: CollectionState, part: CollectionPart, time: int | None) -> CollectionPart:
    if part.time != AT_COMMIT or (part.flags != 0 and PartFlags.HAS_TIME in part.flags):
        return part
    if time is None:
        raise _misfit(state, "rows without a time in an append that says its range")
    return copied(part, time=time, time_min=time, time_max=time)


def _check_times(
    state: CollectionState, parts: Sequence[CollectionPart], lower: int, upper: int
) -> None:
    for part in parts:
        if not lower <= part.time_min <= part.time_max < upper:
            raise _misfit(
                state,
                "times of rows are not in the range of the append",
                lower=lower,
                upper=upper,
                time_min=part.time_min,
                time_max=part.time_max,
            )


def _added(state: CollectionState, batch: CollectionBatch) -> Batches:
    """Add a batch. An empty one extends an empty one before it: a heartbeat is no batch."""
    batches = state.batches
    if batch.lower == batch.upper:
        return batches
    last = batches.items[-1] if batches.items else None
    if last is not None and not last.runs and not batch.runs:
        count = len(batches.items)
        return batches.replaced(count - 1, count, (replace(last, upper=batch.upper),))
    if len(batches.items) >= BATCHES_MAX:
        raise BackPressureError("too many batches", collection=name_of(state), limit=BATCHES_MAX)
    return batches.added(batch)


def _appender(
    now_ms: int, append: CollectionAppend, row: CollectionWriter | None, upper: int
) -> CollectionWriter:
    return CollectionWriter(
        name=append.writer,
        id=0 if row is None else row.id,
        sequence=append.sequence,
        upper=upper,
        hold=0 if row is None else row.hold,
        lease_ms=append.lease_ms,
        renewed_ms=now_ms,
        who=cut_who(append.who),
    )


def _misfit(state: CollectionState, message: str, **facts: int) -> UpdateTimeError:
    return UpdateTimeError(message, collection=name_of(state), **facts)
