"""Rollups and garbage: which are named, which is the floor, and when one is due."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from siltstone.collections.state.lives import drop
from siltstone.collections.state.rollups import (
    forget_rollups,
    link_of,
    link_rollup,
    newest_rollup,
    note_collected,
    rollup_is_due,
)
from siltstone.core.errors import ConditionFailedError
from siltstone.core.records.collection_entry import Rollup
from siltstone.core.records.collection_state import CollectionState
from tests.support.collections.state_world import START_MS, committed, first_state


def rollup(seqno: int, nonce: int = 1) -> Rollup:
    return Rollup(seqno=seqno, nonce=nonce, length=1, crc=1)


def state_at(seqno: int, *rollups: int, **fields: int) -> CollectionState:
    named = {each: rollup(each) for each in rollups}
    return replace(first_state(), seqno=seqno, rollups=named, **fields)  # type: ignore[arg-type]


def test_the_first_entry_names_the_rollup_of_what_was_before_it() -> None:
    state = committed(first_state(), partial(link_rollup, rollup=rollup(0)))
    assert state.rollups == {0: rollup(0)}
    assert link_of(first_state(), state) is None
    later = committed(state, partial(link_rollup, rollup=rollup(1)))
    assert link_of(state, later) == rollup(1) == newest_rollup(later)
    assert link_of(later, replace(later, seqno=3)) is None


def test_a_rollup_is_named_once() -> None:
    state = committed(state_at(9, 5), partial(link_rollup, rollup=rollup(7)))
    assert link_rollup(state, START_MS, rollup=rollup(7))[0] is state
    for other in (rollup(7, 2), rollup(6)):
        with pytest.raises(ConditionFailedError, match="newer rollup") as caught:
            link_rollup(state, START_MS, rollup=other)
        assert caught.value.current == 7
    with pytest.raises(ValueError, match="later state"):
        link_rollup(state, START_MS, rollup=rollup(11))


def test_the_floor_is_the_newest_rollup_whose_garbage_is_gone() -> None:
    state = state_at(99, 0, 40, 80)
    assert note_collected(state, START_MS, through=39)[0].floor == 0
    state = committed(state, partial(note_collected, through=79))
    assert (state.floor, state.collected) == (40, 79)
    assert note_collected(state, START_MS, through=78)[0] is state
    state = committed(state, partial(note_collected, through=99))
    assert state.floor == 80
    assert committed(state, partial(link_rollup, rollup=rollup(99))).floor == 99
    with pytest.raises(ValueError, match="later state"):
        note_collected(state, START_MS, through=102)


def test_rollups_below_the_floor_are_forgotten_and_no_others() -> None:
    state = state_at(99, 0, 40, 80, floor=40, collected=50)
    after, _ = forget_rollups(state, START_MS, below=40)
    assert sorted(after.rollups) == [40, 80]
    assert forget_rollups(after, START_MS, below=40)[0] is after
    with pytest.raises(ValueError, match="floor"):
        forget_rollups(state, START_MS, below=41)


@pytest.mark.parametrize(
    ("before", "after", "newest", "due"),
    [
        (63, 64, 0, True),
        (64, 65, 0, False),
        (63, 64, 63, True),
        (60, 70, 0, True),
        (None, 64, 0, False),
        (None, 127, 0, False),
        (None, 128, 0, True),
        (130, 131, 0, True),
        (130, 131, 128, False),
    ],
)
def test_a_rollup_is_due_at_each_64th_entry_and_late_after_128(
    before: int | None, after: int, newest: int, due: bool
) -> None:
    states = None if before is None else state_at(before, newest), state_at(after, newest)
    assert rollup_is_due(*states) is due


def test_a_rollup_is_due_where_a_collection_ends() -> None:
    state = state_at(70, 64)
    assert rollup_is_due(state, committed(state, drop))
    assert not rollup_is_due(None, committed(state, drop))
