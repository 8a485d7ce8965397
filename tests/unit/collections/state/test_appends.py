"""Appends and the end of a collection: what each of them changes, and each refusal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from siltstone.collections.state.appends import (
    Appended,
    CollectionAppend,
    appends_wait,
    compare_and_append,
    finish,
)
from siltstone.collections.state.bookmarks import set_bookmark
from siltstone.collections.state.lives import drop, move_away
from siltstone.collections.state.next_state import next_state
from siltstone.collections.state.readers import register_reader
from siltstone.collections.state.writers import register_writer
from siltstone.core import errors
from siltstone.core.records.collection_batch import Batches, CollectionBatch
from siltstone.core.records.collection_frontier import AT_COMMIT, DONE, HISTORY_ALL, TIME_MAX
from siltstone.core.records.collection_rows import CollectionWriter
from siltstone.core.records.collection_state import CollectionState, Times
from tests.support.collections.state_world import (
    START_MS,
    Update,
    committed,
    first_state,
    part_of,
)

KIB = 1024


def rows(*times: int, **fields: Any) -> tuple[Any, ...]:
    """A run of one part with a row at each time."""
    made = part_of([Update("a", time, 1) for time in times], **fields)
    return (made if made.writer else replace(made, inline=b"x" * 100, length=100),)


def append(**fields: Any) -> CollectionAppend:
    """An append of one row that gets its time at the commit."""
    made = CollectionAppend(
        writer="w", sequence=0, runs=(rows(AT_COMMIT),), lease_ms=1_000, who="me"
    )
    return replace(made, **fields)


def appended(
    state: CollectionState, made: CollectionAppend, now_ms: int = START_MS
) -> CollectionState:
    return committed(state, partial(compare_and_append, append=made), now_ms)


def with_uploader(state: CollectionState, writer_id: int = 7) -> CollectionState:
    command = partial(
        register_writer, name="up", writer_id=writer_id, lease_ms=1_000, who="a worker"
    )
    return committed(state, command)


def test_rows_get_the_time_of_the_commit_and_their_part_stays() -> None:
    state = with_uploader(first_state(times=Times.MILLISECONDS, history=HISTORY_ALL))
    run = rows(AT_COMMIT, writer=7, born=1, number=3, nonce=4)
    after, result = compare_and_append(state, START_MS + 5, append=append(runs=(run,)))
    assert result == Appended(upper=START_MS + 6, repeated=False)
    (batch,) = after.batches.items
    assert (batch.lower, batch.upper) == (0, START_MS + 6)
    time = START_MS + 5
    assert batch.runs == ((replace(run[0], time=time, time_min=time, time_max=time),),)


def test_a_time_of_a_commit_is_never_below_the_upper() -> None:
    state = appended(first_state(times=Times.MILLISECONDS), append(new=START_MS * 2, runs=()))
    _, result = compare_and_append(state, START_MS, append=append(sequence=1))
    assert result.upper == START_MS * 2 + 1


def test_where_times_are_a_count_each_commit_is_one_more() -> None:
    state = first_state()
    for sequence in range(3):
        state = appended(state, append(sequence=sequence))
    assert [(b.lower, b.upper) for b in state.batches.items] == [(0, 1), (1, 2), (2, 3)]


def test_an_append_may_say_its_range_and_its_times() -> None:
    made = append(expected=0, new=10, runs=(rows(0, 9), rows(4)))
    state = appended(first_state(), made)
    assert state.batches.items == (CollectionBatch(lower=0, upper=10, runs=made.runs),)
    assert state.batches.inline_bytes == 200


def test_the_same_sequence_is_one_append() -> None:
    state = appended(first_state(), append(sequence=4))
    later = appended(state, append(writer="other"))
    after, result = compare_and_append(later, START_MS, append=append(sequence=4))
    assert after is later
    assert result == Appended(upper=1, repeated=True)


def test_an_append_that_was_made_is_known_even_where_the_collection_moved() -> None:
    state = committed(appended(first_state(), append()), move_away)
    after, result = compare_and_append(state, START_MS, append=append())
    assert (after, result) == (state, Appended(upper=1, repeated=True))


def test_a_named_writer_stays_for_ever_and_holds_nothing() -> None:
    state = appended(first_state(), append(lease_ms=0))
    state = appended(state, append(writer="other"), START_MS + 10**12)
    assert state.writers["w"] == CollectionWriter(
        name="w",
        id=0,
        sequence=0,
        upper=1,
        hold=0,
        lease_ms=0,
        renewed_ms=START_MS,
        who="me",
    )


def test_since_follows_the_upper_at_the_distance_of_the_history() -> None:
    state = appended(first_state(history=3), append(new=2, runs=()))
    assert state.since == 0
    state = appended(state, append(sequence=1, new=10, runs=()))
    assert state.since == 7
    everything = appended(first_state(history=HISTORY_ALL), append(new=10, runs=()))
    assert everything.since == 0


def test_since_waits_for_readers_and_bookmarks_and_does_not_jump_when_they_go() -> None:
    state = appended(first_state(history=1), append(new=5, runs=()))
    state = committed(state, partial(register_reader, reader_id=1, since=4, lease_ms=10, who="me"))
    mark = partial(set_bookmark, name="m", expected=None, token=bytes(16), since=5, who="me")
    state = committed(state, mark)
    state = appended(state, append(sequence=1, new=20, runs=()))
    assert state.since == 4
    state = committed(state, mark, START_MS + 10)
    assert (state.since, dict(state.readers)) == (4, {})
    assert appended(state, append(sequence=2, new=21, runs=()), START_MS + 11).since == 5


def test_empty_appends_are_one_batch() -> None:
    state = appended(first_state(), append(new=3, runs=(rows(1),)))
    for sequence in range(1, 50):
        state = appended(state, append(sequence=sequence, new=3 + sequence, runs=()))
    state = appended(state, append(sequence=50))
    found = [(batch.lower, batch.upper, len(batch.runs)) for batch in state.batches.items]
    assert found == [(0, 3, 1), (3, 52, 0), (52, 53, 1)]


def test_an_append_of_nothing_to_nothing_only_notes_its_sequence() -> None:
    state = appended(first_state(), append(expected=0, new=0, runs=((),)))
    assert state.batches == Batches()
    assert state.writers["w"].sequence == 0


def test_a_finished_collection_takes_no_rows_and_no_since() -> None:
    state = committed(appended(first_state(history=1), append()), finish)
    assert (state.upper, state.since) == (DONE, 0)
    assert finish(state, START_MS) == (state, None)
    with pytest.raises(errors.UpdateTimeError, match="finished"):
        compare_and_append(state, START_MS, append=append(sequence=1))
    with pytest.raises(errors.UpperMismatchError) as caught:
        compare_and_append(state, START_MS, append=append(sequence=1, expected=1))
    assert (caught.value.expected, caught.value.current) == (1, DONE)


def test_the_last_rows_may_come_with_the_end() -> None:
    state = appended(first_state(), append(new=DONE, runs=(rows(0, TIME_MAX),)))
    assert state.upper == DONE
    state = appended(first_state(), append(new=TIME_MAX, runs=()))
    assert appended(state, append(sequence=1)).upper == DONE


@pytest.mark.parametrize(
    ("made", "error"),
    [
        (append(expected=1), errors.UpperMismatchError),
        (append(expected=1, new=0), errors.UpdateTimeError),
        (append(expected=1, new=2, runs=(rows(1),)), errors.UpperMismatchError),
        (append(new=5, runs=(rows(5),)), errors.UpdateTimeError),
        (append(new=5, runs=(rows(0, 7),)), errors.UpdateTimeError),
        (append(new=0, runs=(rows(0),)), errors.UpdateTimeError),
        (append(new=5), errors.UpdateTimeError),
        (append(runs=(rows(AT_COMMIT, schema_id=1),)), errors.CollectionSchemaError),
        (append(runs=(rows(AT_COMMIT, writer=7, born=1),)), errors.BatchExpiredError),
        (append(new=2**63), ValueError),
        (append(sequence=-1), ValueError),
        (append(sequence=2**63), ValueError),
        (append(writer=""), ValueError),
        (append(writer="x" * 1_025), ValueError),
        (append(lease_ms=2**32), ValueError),
    ],
)
def test_what_does_not_fit_is_refused(made: CollectionAppend, error: type[Exception]) -> None:
    with pytest.raises(error):
        compare_and_append(first_state(), START_MS, append=made)


def test_a_refusal_names_both_uppers_and_the_collection() -> None:
    state = first_state()
    with pytest.raises(errors.UpperMismatchError, match="expected=3 current=0") as caught:
        compare_and_append(state, START_MS, append=append(expected=3))
    assert (caught.value.expected, caught.value.current) == (3, 0)
    assert caught.value.collection == state.id.hex()


def test_an_older_sequence_is_refused() -> None:
    state = appended(first_state(), append(sequence=4))
    with pytest.raises(errors.CollectionSequenceError) as caught:
        compare_and_append(state, START_MS, append=append(sequence=3))
    assert caught.value.last_sequence == 4


@pytest.mark.parametrize(
    ("end", "error"),
    [(drop, errors.CollectionDroppedError), (move_away, errors.CollectionMovedError)],
)
@pytest.mark.parametrize("command", [partial(compare_and_append, append=append()), finish])
def test_nothing_is_appended_to_what_has_ended(
    command: Callable[..., Any], end: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        command(committed(first_state(), end), START_MS)


def test_a_part_is_appended_once_and_only_from_its_writers_hold_on() -> None:
    state = with_uploader(first_state())
    assert state.writers["up"].hold == 1
    run = rows(AT_COMMIT, writer=7, born=1, number=3, nonce=4)
    two = rows(AT_COMMIT, writer=7, born=1, number=4, nonce=4)
    with pytest.raises(errors.BatchExpiredError, match="there twice"):
        compare_and_append(state, START_MS, append=append(runs=(run, run)))
    early = rows(AT_COMMIT, writer=7, born=0)
    with pytest.raises(errors.BatchExpiredError, match="before"):
        compare_and_append(state, START_MS, append=append(runs=(early,)))
    late = rows(AT_COMMIT, writer=7, born=2)
    with pytest.raises(errors.BatchExpiredError, match="later state"):
        compare_and_append(state, START_MS, append=append(runs=(late,)))
    state = appended(state, append(runs=(run, two)))
    assert state.writers["up"].hold == 2
    with pytest.raises(errors.BatchExpiredError, match="before"):
        compare_and_append(state, START_MS, append=append(sequence=1, runs=(run,)))


def test_a_writer_that_uploads_under_its_own_name_keeps_its_lease() -> None:
    state = with_uploader(first_state())
    with pytest.raises(ValueError, match="sequence"):
        compare_and_append(state, START_MS, append=append(writer="up", sequence=-1))
    with pytest.raises(ValueError, match="lease"):
        compare_and_append(state, START_MS, append=append(writer="up", lease_ms=0))
    state = appended(state, append(writer="up"))
    assert (state.writers["up"].id, state.writers["up"].hold) == (7, 1)


def test_rows_in_the_state_are_bounded() -> None:
    wide = (replace(rows(AT_COMMIT)[0], inline=bytes(64 * KIB), length=64 * KIB),)
    state = first_state()
    for sequence in range(16):
        state = appended(state, append(sequence=sequence, runs=(wide,)))
    with pytest.raises(errors.InlineLimitError, match="limit=1048576"):
        compare_and_append(state, START_MS, append=append(sequence=16))


@pytest.mark.slow
def test_batches_are_bounded() -> None:
    state = with_uploader(first_state())
    for sequence in range(1_000):
        assert appends_wait(state) is (sequence >= 900)
        after, _ = compare_and_append(state, START_MS, append=append(sequence=sequence))
        state = next_state(state, after, START_MS)
    with pytest.raises(errors.BackPressureError, match="too many batches"):
        compare_and_append(state, START_MS, append=append(sequence=1_000))
    heartbeat = append(sequence=1_000, new=state.upper, runs=())
    assert appended(state, heartbeat).writers["w"].sequence == 1_000


def test_parts_are_bounded() -> None:
    state = appended(first_state(), append())
    full = replace(state, batches=replace(state.batches, part_count=49_999))
    assert appended(full, append(sequence=1)).batches.part_count == 50_000
    two = rows(AT_COMMIT), rows(AT_COMMIT)
    with pytest.raises(errors.BackPressureError, match="too many parts"):
        compare_and_append(full, START_MS, append=append(sequence=1, runs=two))


def test_writers_are_bounded() -> None:
    state = first_state()
    row = CollectionWriter(
        name="", id=0, sequence=0, upper=0, hold=0, lease_ms=0, renewed_ms=0, who=""
    )
    state = replace(state, writers={f"{n}": replace(row, name=f"{n}") for n in range(1_000)})
    with pytest.raises(errors.CollectionLimitError) as caught:
        compare_and_append(state, START_MS, append=append())
    assert caught.value.limit == 1_000
    assert appended(state, append(writer="5", sequence=1)).writers["5"].sequence == 1
