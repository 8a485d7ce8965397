"""What is garbage, what a sweep takes, and which batches become one."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from siltstone.collections.state import compaction_plan
from siltstone.collections.state.compaction_plan import (
    Levels,
    group_of,
    level_of,
    plan,
    plan_whole,
    widened,
)
from siltstone.collections.state.garbage_plan import garbage_of, lowest_hold
from siltstone.collections.state.lives import drop, move_away
from siltstone.collections.state.next_state import next_state
from siltstone.collections.state.part_names import (
    PartName,
    name_of_part,
    part_key,
    part_name,
    parts_prefix,
)
from siltstone.collections.state.readers import register_reader
from siltstone.collections.state.sweep_plan import parts_to_sweep, rollups_to_sweep
from siltstone.collections.state.writers import register_writer
from siltstone.core.constants import KIB
from siltstone.core.errors import CorruptDataError
from siltstone.core.records.collection_batch import Batches, CollectionBatch
from siltstone.core.records.collection_entry import Rollup
from siltstone.core.records.collection_part import CollectionPart
from siltstone.core.records.collection_state import CollectionState, Life
from tests.support.collections.state_world import (
    ID,
    START_MS,
    Update,
    first_state,
    part_of,
)

DAY_MS = 86_400_000
TINY, MOST, SMALL, MIDDLE, LARGE = 10, 4_096, 5_000, 40_000, 300_000
"""Lengths of batches, one of each level."""

NAMES = st.builds(
    PartName,
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**64 - 1),
)


def part(number: int, writer: int = 9, born: int = 1, length: int = 100) -> CollectionPart:
    return part_of([Update("a", 0, 1)], writer=writer, born=born, number=number, length=length)


def names_of(*numbers: int) -> tuple[PartName, ...]:
    return tuple(name_of_part(part(number)) for number in numbers)


def batches(*parts: int) -> Batches:
    """One batch with these parts."""
    runs = tuple((part(number),) for number in parts)
    return Batches().added(CollectionBatch(lower=0, upper=1, runs=runs))


def history(*contents: tuple[int, ...], **last: Any) -> list[CollectionState]:
    """States with these parts, one a second; the last has other fields, too."""
    states = [replace(first_state(), batches=batches(*contents[0]))]
    for content in contents[1:]:
        made = replace(states[-1], batches=batches(*content))
        states.append(next_state(states[-1], made, states[-1].written_ms + 1_000))
    return [*states[:-1], replace(states[-1], **last)]


NOW = START_MS + 100_000


def test_what_later_states_do_not_name_is_garbage() -> None:
    states = history((1, 2), (2, 3), (3,))
    found = garbage_of(states, now_ms=NOW, delay_ms=0)
    assert found is not None
    assert (found.through, found.parts) == (2, names_of(1, 2))


def test_garbage_is_not_collected_twice() -> None:
    states = history((1,), (2,), (3,), collected=1)
    found = garbage_of(states, now_ms=NOW, delay_ms=0)
    assert found is not None
    assert found.parts == names_of(2)
    assert garbage_of(history((1,), (2,), collected=1), now_ms=NOW, delay_ms=0) is None
    assert garbage_of(history((1,)), now_ms=NOW, delay_ms=0) is None


@pytest.mark.parametrize(("delay_ms", "through"), [(98_000, 2), (98_001, 1), (99_001, None)])
def test_parts_stay_for_a_delay(delay_ms: int, through: int | None) -> None:
    found = garbage_of(history((1,), (2,), (3,)), now_ms=NOW, delay_ms=delay_ms)
    assert (found and found.through) == through


def test_a_clock_that_was_days_ahead_does_not_keep_garbage_for_ever() -> None:
    states = history((1,), (2,), written_ms=NOW + 2 * DAY_MS)
    assert garbage_of(states, now_ms=NOW, delay_ms=900) is not None
    states = history((1,), (2,), written_ms=NOW + DAY_MS)
    assert garbage_of(states, now_ms=NOW, delay_ms=900) is None


def test_parts_stay_for_holds_of_readers_and_writers() -> None:
    states = history((1,), (2,), (3,), (4,))
    held: list[Any] = [
        partial(register_reader, reader_id=1, since=0, lease_ms=1, who=""),
        partial(register_writer, name="w", writer_id=9, lease_ms=1, who=""),
    ]
    for command in held:
        rows, row = command(states[1], START_MS)
        assert row.hold == 2
        newest = replace(states[-1], readers=rows.readers, writers=rows.writers)
        assert lowest_hold(newest) == 2
        found = garbage_of([*states[:-1], newest], now_ms=NOW, delay_ms=0)
        assert found is not None
        assert (found.through, found.parts) == (2, names_of(1, 2))


def test_all_of_a_dropped_collection_is_garbage_and_nothing_of_a_moved_one() -> None:
    states = history((1, 2))
    for end, parts in ((drop, names_of(1, 2)), (move_away, None)):
        ended = next_state(states[-1], end(states[-1], NOW)[0], START_MS + 1)
        found = garbage_of([*states, ended], now_ms=NOW, delay_ms=0)
        assert (found and found.parts) == parts
        swept = parts_to_sweep([*names_of(7)], [*states, ended])
        assert swept == ([] if parts is None else [*names_of(7)])


def test_a_sweep_takes_what_no_state_names_and_no_writer_can_append() -> None:
    states = history((1,), (2,))
    rows, _ = register_writer(
        replace(states[-1], seqno=5), START_MS, name="w", writer_id=9, lease_ms=1, who=""
    )
    states[-1] = replace(states[-1], writers=rows.writers)
    listed = [
        *names_of(1, 2, 3),
        name_of_part(part(4, writer=8)),
        name_of_part(part(5, born=6)),
        name_of_part(part(6, born=5)),
    ]
    assert parts_to_sweep(listed, states) == [listed[2], listed[3], listed[5]]


def test_a_rollup_that_can_not_be_linked_is_swept() -> None:
    rollup = Rollup(seqno=5, nonce=1, length=1, crc=1)
    state = replace(first_state(), seqno=9, rollups={5: rollup})
    assert rollups_to_sweep([(4, 1), (5, 1), (5, 2), (6, 1)], state) == [(4, 1), (5, 2)]
    assert rollups_to_sweep([(0, 1)], first_state()) == []


@given(NAMES)
def test_a_part_is_known_by_the_name_of_its_object(name: PartName) -> None:
    key = part_key(ID, name)
    assert key.startswith(parts_prefix(ID))
    assert part_name(key) == name


def test_the_name_of_an_object_is_the_one_on_the_page() -> None:
    assert part_key(ID, PartName(1, 2, 34, 5)) == (
        "collections/000102030405060708090a0b0c0d0e0f/parts/"
        "0000000000000001/0000000000000002-34-0000000000000005.parquet"
    )


@pytest.mark.parametrize(
    "key",
    [
        "",
        "parts",
        f"{parts_prefix(ID)}x",
        part_key(ID, PartName(1, 2, 3, 4)).replace("-3-", "-03-"),
    ],
)
def test_another_name_is_told(key: str) -> None:
    with pytest.raises(CorruptDataError, match="not the name of a part"):
        part_name(key)


@pytest.mark.parametrize(
    ("length", "level"),
    [(1, 0), (4_096, 0), (4_097, 1), (32_768, 1), (32_769, 2), (2**40, 10)],
)
def test_levels_are_4_kib_times_powers_of_eight(length: int, level: int) -> None:
    (batch,) = of_lengths([length]).batches.items
    assert level_of(batch) == level


def test_an_object_is_above_the_lowest_level() -> None:
    runs = ((timed(part(0, length=10), 0),),)
    assert level_of(CollectionBatch(lower=0, upper=1, runs=runs)) == 1


def of_lengths(lengths: list[int]) -> CollectionState:
    """A batch of each length; 0 is an empty one, and the least ones are in the state."""
    items = [
        CollectionBatch(lower=n, upper=n + 1, runs=runs_of(n, length))
        for n, length in enumerate(lengths)
    ]
    return replace(first_state(), batches=Batches().replaced(0, 0, items))


def runs_of(number: int, length: int) -> tuple[tuple[CollectionPart, ...], ...]:
    if not length:
        return ()
    one = timed(part(number, length=length), number)
    return ((replace(one, inline=bytes(length)) if length <= 4_096 else one,),)


def timed(one: CollectionPart, time: int) -> CollectionPart:
    return replace(one, time=time, time_min=time, time_max=time)


@pytest.mark.parametrize(
    ("lengths", "span"),
    [
        ([SMALL] * 7, None),
        ([SMALL] * 8, (0, 8)),
        ([SMALL] * 9, (0, 8)),
        ([MIDDLE, *[SMALL] * 8, 0], (1, 9)),
        ([*[SMALL] * 4, MIDDLE, *[SMALL] * 4], None),
        ([0, *[SMALL] * 4, 0, *[SMALL] * 4], (1, 10)),
        ([MIDDLE] * 4 + [SMALL] + [MIDDLE] * 4, (0, 9)),
        ([*[SMALL] * 3, MIDDLE, *[SMALL] * 3, LARGE, *[SMALL] * 2, MIDDLE], (8, 11)),
        ([*[SMALL] * 7, MIDDLE], None),
        ([*[SMALL] * 7, MIDDLE, SMALL, MIDDLE], (8, 10)),
        ([TINY] * 127, None),
        ([TINY] * 128, (0, 128)),
        ([*[TINY] * 127, SMALL], None),
        ([*[TINY] * 127, SMALL, TINY, SMALL], (128, 130)),
        ([MOST] * 31, None),
        ([MOST] * 33, (0, 32)),
        ([*[TINY] * 90, *[MOST] * 33], (0, 122)),
        ([*[MOST] * 31, SMALL, *[MOST] * 31], None),
        ([*[MOST] * 31, SMALL, MOST, SMALL], (32, 34)),
    ],
)
def test_a_group_of_a_level_becomes_one(lengths: list[int], span: tuple[int, int] | None) -> None:
    state = of_lengths(lengths)
    found = plan(state)
    if span is None:
        assert found is None
    else:
        assert found is not None
        assert found.inputs == state.batches.items[slice(*span)]
        assert (found.lower, found.upper, found.since) == (*span, state.since)


@pytest.mark.parametrize(
    ("lengths", "count"),
    [
        ([TINY] * 128, 128),
        ([TINY] * 150, 150),
        ([TINY] * 140 + [SMALL] + [TINY], 140),
        ([MOST] * 40 + [SMALL] + [MOST], 40),
        ([SMALL] * 8 + [TINY], 8),
    ],
)
def test_a_merge_of_small_batches_takes_those_that_came_meanwhile(
    lengths: list[int], count: int
) -> None:
    state = of_lengths(lengths)
    merge = plan(state)
    assert merge is not None
    assert widened(merge, state.batches).inputs == state.batches.items[:count]


def test_nothing_is_compacted_that_has_ended() -> None:
    state = replace(of_lengths([SMALL] * 8), life=Life.DROPPED)
    assert plan(state) is None
    assert plan_whole(state) is None


def test_the_whole_becomes_one_unless_it_is() -> None:
    state = of_lengths([0, 10, 0, 10, 0])
    found = plan_whole(state)
    assert found is not None
    assert (found.lower, found.upper) == (1, 4)
    assert plan_whole(of_lengths([0, 10, 0])) is None
    assert plan_whole(replace(of_lengths([0, 10]), since=1)) is not None
    assert plan_whole(of_lengths([0])) is None


@example(seed=0, shrink=1.0, top=1)
@given(st.integers(0, 2**32), st.floats(0.05, 1), st.integers(1, 12))
def test_less_than_two_groups_of_a_level_are_left(seed: int, shrink: float, top: int) -> None:
    """However sizes follow one another, and however much of a merge cancels."""
    chance = Random(seed)
    state, seen = of_lengths([]), Levels()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compaction_plan, "LOWEST_FACTOR", chance.choice((32, 128)))
        patch.setattr(compaction_plan, "LOWEST_BYTES", chance.choice((20_000, 128 * KIB)))
        for _ in range(150):
            length = int(8 ** (chance.random() * top)) if chance.random() < 0.9 else 0
            state = with_batch(state, length)
            assert plan(state, seen) == plan(state)
            state = settled(state, shrink)
            levels = [level_of(one) for one in state.batches.items if one.runs]
            assert all(levels.count(level) < 2 * group_of(level) for level in levels)
            assert lowest_bytes(state) < 2 * compaction_plan.LOWEST_BYTES


def lowest_bytes(state: CollectionState) -> int:
    return sum(one.length for one in state.batches.items if one.runs and not level_of(one))


def test_each_row_is_written_a_few_times_only() -> None:
    """Ten thousand appends of one size: each goes through the levels once."""
    state, written, appended = of_lengths([]), 0, 0
    for _ in range(4_096):
        state, appended = with_batch(state, 1_000), appended + 1_000
        while (found := plan(state)) is not None:
            written += sum(one.length for one in found.inputs)
            state = with_merge(state, found.inputs, 1.0)
    assert written <= 5 * appended


def with_batch(state: CollectionState, length: int) -> CollectionState:
    upper = state.upper
    made = CollectionBatch(lower=upper, upper=upper + 1, runs=runs_of(upper, length))
    return replace(state, batches=state.batches.added(made))


def with_merge(
    state: CollectionState, inputs: tuple[CollectionBatch, ...], shrink: float
) -> CollectionState:
    length = max(1, int(shrink * sum(one.length for one in inputs)))
    time = inputs[0].lower
    merged = CollectionBatch(
        lower=time,
        upper=inputs[-1].upper,
        runs=runs_of(time, length),
    )
    span = state.batches.span(merged.lower, merged.upper)
    assert span is not None
    return replace(state, batches=state.batches.replaced(*span, (merged,)))


def settled(state: CollectionState, shrink: float) -> CollectionState:
    """Compact until nothing is due."""
    while (found := plan(state)) is not None:
        state = with_merge(state, found.inputs, shrink)
    return state
