"""The end of a compaction: it changes no sum, and only what it has read."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from siltstone.collections.state.lives import drop, move_away
from siltstone.collections.state.merges import replace_batches
from siltstone.collections.state.writers import register_writer
from siltstone.core import errors
from siltstone.core.records.collection_batch import Batches, CollectionBatch
from siltstone.core.records.collection_part import CollectionPart
from siltstone.core.records.collection_state import CollectionState
from tests.support.collections.state_world import (
    START_MS,
    Update,
    committed,
    first_state,
    part_of,
)


def part(*updates: tuple[str, int, int], **fields: Any) -> CollectionPart:
    made = part_of([Update(*update) for update in updates], **fields)
    return made if made.writer else replace(made, inline=bytes(made.length))


def batch(lower: int, upper: int, *parts: CollectionPart, since: int = 0) -> CollectionBatch:
    runs = tuple((one,) for one in parts)
    return CollectionBatch(lower=lower, upper=upper, since=since, runs=runs)


A = batch(0, 2, part(("p", 0, 1), ("q", 1, 2)))
B = batch(2, 4, part(("q", 3, -2)))
C = batch(4, 6)
D = batch(6, 8, part(("r", 6, 1)))
MERGED = batch(0, 4, part(("p", 3, 1)), since=3)


def state_of(*batches: CollectionBatch, since: int = 3) -> CollectionState:
    made = replace(first_state(), batches=Batches().replaced(0, 0, batches), since=since)
    command = partial(register_writer, name="c", writer_id=9, lease_ms=1_000, who="a compactor")
    return committed(made, command)


STATE = state_of(A, B, C, D)


def merged(
    state: CollectionState, inputs: tuple[CollectionBatch, ...], output: CollectionBatch
) -> CollectionState:
    return replace_batches(state, START_MS, inputs=inputs, output=output)[0]


def test_one_batch_stands_where_two_were() -> None:
    after = merged(STATE, (A, B), MERGED)
    assert after.batches.items == (MERGED, C, D)
    assert after.batches == Batches().replaced(0, 0, (MERGED, C, D))


def test_a_repeat_changes_nothing() -> None:
    after = merged(STATE, (A, B), MERGED)
    assert merged(after, (A, B), MERGED) is after


@pytest.mark.parametrize(
    "now",
    [
        state_of(MERGED, C, D).batches,
        state_of(replace(A, since=1), B, C, D).batches,
        state_of(batch(0, 1), replace(A, lower=1, runs=()), B, C, D).batches,
        state_of(batch(0, 8)).batches,
    ],
)
def test_what_came_meanwhile_stays(now: Batches) -> None:
    output = replace(MERGED, since=2, runs=((part(("p", 2, 1)),),))
    with pytest.raises(errors.ConditionFailedError) as caught:
        merged(replace(STATE, batches=now), (A, B), output)
    assert caught.value.condition == (0, 4)


def test_a_since_that_is_not_reached_is_refused() -> None:
    with pytest.raises(errors.ConditionFailedError, match="since is not reached"):
        merged(replace(STATE, since=2), (A, B), MERGED)


@pytest.mark.parametrize(
    ("inputs", "output", "match"),
    [
        ((A,), MERGED, "another range"),
        ((), MERGED, "another range"),
        ((A, B), batch(0, 4, part(("p", 3, 2)), since=3), "another sum"),
        (
            (A, B),
            batch(0, 4, *[part(("p", 3, 1))] * 2, *[part(("p", 3, -1))] * 2, since=3),
            "more rows",
        ),
        ((A, replace(B, since=3)), replace(MERGED, since=2, runs=()), "lower since"),
    ],
)
def test_an_output_that_is_no_shorter_form_is_a_mistake(
    inputs: tuple[CollectionBatch, ...], output: CollectionBatch, match: str
) -> None:
    with pytest.raises(ValueError, match=match):
        merged(STATE, inputs, output)


def test_an_output_that_is_empty_joins_the_empty_ones_next_to_it() -> None:
    gone = batch(0, 2, part(("p", 0, 1), ("p", 0, -1)))
    state = state_of(gone, C_AT_2, D_AT_4)
    output = batch(0, 2, since=3)
    after = merged(state, (gone,), output)
    assert after.batches.items == (batch(0, 4, since=3), D_AT_4)
    assert merged(after, (gone,), output) is after


C_AT_2 = replace(C, lower=2, upper=4)
D_AT_4 = batch(4, 8, part(("r", 6, 1)))


def test_new_parts_have_a_writer_whose_hold_moves_on_and_old_ones_need_none() -> None:
    made = part(("p", 3, 1), writer=9, born=1, number=5)
    output = replace(MERGED, runs=((made,),))
    after = merged(STATE, (A, B), output)
    assert after.writers["c"].hold == 2
    with pytest.raises(errors.BatchExpiredError, match="forgotten"):
        merged(replace(STATE, writers={}), (A, B), output)
    again = replace(output, upper=8, runs=((made,), *D.runs))
    later = merged(replace(after, writers={}), (output, C, D), again)
    assert later.batches.items == (again,)


def test_rows_in_the_state_are_bounded() -> None:
    full = replace(STATE, batches=replace(STATE.batches, inline_bytes=2**20 + 300))
    with pytest.raises(errors.InlineLimitError):
        merged(full, (A, B), MERGED)


@pytest.mark.parametrize(
    ("end", "error"),
    [(drop, errors.CollectionDroppedError), (move_away, errors.CollectionMovedError)],
)
def test_nothing_is_compacted_that_has_ended(end: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        merged(committed(STATE, end), (A, B), MERGED)
