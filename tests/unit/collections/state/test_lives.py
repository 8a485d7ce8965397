"""Schemas, formats, and the two ends of a collection."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from siltstone.collections.state.lives import drop, move_away, upgrade
from siltstone.collections.state.next_state import initial_state
from siltstone.collections.state.schemas import evolve, newest_schema
from siltstone.core import errors
from siltstone.core.records.collection_batch import Batches, CollectionBatch
from siltstone.core.records.collection_frontier import HISTORY_ALL
from siltstone.core.records.collection_rows import Bookmark, CollectionSchema
from siltstone.core.records.collection_state import CollectionState, Life, Times
from tests.support.collections.state_world import START_MS, committed, first_state

FILLED = replace(
    first_state(),
    batches=Batches()
    .added(CollectionBatch(lower=0, upper=4))
    .added(CollectionBatch(lower=4, upper=9)),
    since=2,
    bookmarks={"m": Bookmark(name="m", since=3, token=bytes(16), who="")},
)


def widened(
    state: CollectionState, arrow: bytes, expected: int = 0
) -> tuple[CollectionState, CollectionSchema]:
    return evolve(state, START_MS, expected=expected, arrow=arrow)


def test_a_wider_schema_is_the_newest_and_older_ones_stay() -> None:
    state, made = widened(first_state(), b"first, second")
    assert made == CollectionSchema(schema_id=1, key_columns=1, arrow=b"first, second")
    assert list(state.schemas) == [0, 1]
    assert newest_schema(state) == made


def test_the_same_schema_again_is_the_one_that_is_there() -> None:
    state, made = widened(first_state(), b"first, second")
    for expected in (0, 1):
        assert widened(state, b"first, second", expected) == (state, made)


def test_a_schema_for_an_older_one_and_one_that_is_too_long_are_refused() -> None:
    state, _ = widened(first_state(), b"first, second")
    with pytest.raises(errors.CollectionSchemaError, match="expected=0 current=1"):
        widened(state, b"first, second, third", 0)
    with pytest.raises(errors.CollectionSchemaError, match="too long"):
        widened(state, b"first, second" + bytes(64 * 1024), 1)


def test_schemas_are_bounded_by_count_and_bytes() -> None:
    state = first_state()
    for count, size, more in ((256, 1, 1), (66, 63_000, 1_000)):
        rows = [
            CollectionSchema(schema_id=n, key_columns=1, arrow=bytes(size)) for n in range(count)
        ]
        full = replace(state, schemas={row.schema_id: row for row in rows})
        with pytest.raises(errors.CollectionLimitError):
            widened(full, bytes(size + more), count - 1)


def test_a_dropped_collection_keeps_its_frontiers_and_nothing_else() -> None:
    state = committed(FILLED, drop)
    assert (state.life, state.upper, state.since) == (Life.DROPPED, 9, 2)
    assert state.batches.items == (CollectionBatch(lower=0, upper=9, since=2),)
    assert state.bookmarks == {}
    assert drop(state, START_MS) == (state, None)
    assert committed(first_state(), drop).batches == Batches()
    with pytest.raises(errors.CollectionDroppedError):
        move_away(state, START_MS)


def test_a_moved_collection_keeps_all_and_is_neither_dropped_nor_changed() -> None:
    state = committed(FILLED, move_away)
    assert replace(state, life=Life.OPEN, seqno=0, written_ms=START_MS) == FILLED
    assert move_away(state, START_MS) == (state, None)
    for command in (drop, partial(upgrade, format_number=1)):
        with pytest.raises(errors.CollectionMovedError):
            command(state, START_MS)


def test_a_format_is_raised_only_as_far_as_this_release_knows() -> None:
    assert upgrade(FILLED, START_MS, format_number=1) == (FILLED, None)
    for number in (0, 2):
        with pytest.raises(ValueError, match="formats up to 1"):
            upgrade(FILLED, START_MS, format_number=number)


@pytest.mark.parametrize(
    ("collection_id", "schema_id", "history", "size"),
    [(bytes(15), 0, 1, 1), (bytes(16), 1, 1, 1), (bytes(16), 0, 0, 1), (bytes(16), 0, 1, 2**17)],
)
def test_what_no_collection_can_be_is_refused(
    collection_id: bytes, schema_id: int, history: int, size: int
) -> None:
    schema = CollectionSchema(schema_id=schema_id, key_columns=1, arrow=bytes(size))
    with pytest.raises(ValueError, match=r"at least|at most|bytes"):
        initial_state(
            collection_id, schema, times=Times.COUNT, history=history, created_ms=START_MS
        )


def test_the_first_state_depends_on_its_arguments_alone() -> None:
    schema = CollectionSchema(schema_id=0, key_columns=1, arrow=b"a")
    made = [
        initial_state(bytes(16), schema, times=Times.COUNT, history=HISTORY_ALL, created_ms=7)
        for _ in range(2)
    ]
    assert made[0] == made[1]
    assert (made[0].seqno, made[0].upper, made[0].since, made[0].written_ms) == (0, 0, 0, 7)


def test_the_catalog_is_called_so_and_not_by_its_id_of_zeros() -> None:
    moved, _ = move_away(replace(FILLED, id=bytes(16)), START_MS)
    with pytest.raises(errors.CollectionMovedError, match=r"collection=the catalog$"):
        upgrade(moved, START_MS, format_number=1)
