"""Readers, writers and bookmarks: what they hold, how long, and who may move them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from siltstone.collections.state.bookmarks import remove_bookmark, set_bookmark
from siltstone.collections.state.frontiers import advance_since
from siltstone.collections.state.lives import drop
from siltstone.collections.state.next_state import next_state
from siltstone.collections.state.readers import leave_reader, register_reader, renew_reader
from siltstone.collections.state.writers import leave_writer, register_writer, renew_writer
from siltstone.core import errors
from siltstone.core.records.collection_batch import Batches, CollectionBatch
from siltstone.core.records.collection_rows import Bookmark
from siltstone.core.records.collection_state import CollectionState
from tests.support.collections.state_world import START_MS, committed, first_state

TOKEN, OTHER = bytes(16), bytes(15) + b"1"
DAY_MS = 86_400_000


def at(since: int = 0, upper: int = 100) -> CollectionState:
    """A collection with these frontiers."""
    batches = Batches().added(CollectionBatch(lower=0, upper=upper))
    return replace(first_state(), batches=batches, since=since)


def read(number: int = 1, since: int = 5, **fields: Any) -> Any:
    fields = {"lease_ms": 1_000, "who": "me", **fields}
    return partial(register_reader, reader_id=number, since=since, **fields)


def write(number: int = 7, **fields: Any) -> Any:
    fields = {"name": "w", "lease_ms": 1_000, "who": "me", **fields}
    return partial(register_writer, writer_id=number, **fields)


def mark(expected: bytes | None, token: bytes, since: int | None, name: str = "m") -> Any:
    return partial(set_bookmark, name=name, expected=expected, token=token, since=since, who="me")


def test_a_reader_holds_what_it_asks_for_from_its_own_commit_on() -> None:
    state = committed(at(since=3), read(since=50))
    row = state.readers[1]
    assert (row.hold, row.since, row.renewed_ms) == (1, 50, START_MS)
    assert row.hold == state.seqno


def test_a_reader_that_registers_again_is_renewed_and_holds_the_same() -> None:
    state = committed(committed(at(), read(since=5)), read(since=9), START_MS + 7)
    row = state.readers[1]
    assert (row.hold, row.since, row.renewed_ms) == (1, 5, START_MS + 7)


def test_a_reader_moves_forward_only_and_not_beyond_the_next_commit() -> None:
    state = committed(at(), read(since=5))
    state = committed(state, partial(renew_reader, reader_id=1, since=4, hold=0))
    assert (state.readers[1].since, state.readers[1].hold) == (5, 1)
    state = committed(state, partial(renew_reader, reader_id=1, since=6, hold=99))
    assert (state.readers[1].since, state.readers[1].hold) == (6, state.seqno)


def test_a_lease_ends_in_a_commit_of_anyone_and_is_told() -> None:
    state = committed(at(), read())
    for now, there in ((START_MS + 999, True), (START_MS + 1_000, False)):
        after = committed(state, mark(None, TOKEN, None), now)
        assert bool(after.readers) is there
    with pytest.raises(errors.LeaseExpiredError, match="reader=0000000000000001"):
        renew_reader(after, START_MS, reader_id=1, since=5, hold=1)


def test_a_renewal_that_comes_late_is_in_time_if_nobody_committed() -> None:
    """Leases are judged on the new state: its own commit does not drop it."""
    state = committed(at(), read())
    late = committed(state, partial(renew_reader, reader_id=1, since=5, hold=1), START_MS + 50_000)
    assert late.readers[1].renewed_ms == START_MS + 50_000


def test_rows_of_the_committing_process_stay() -> None:
    state = committed(committed(at(), read()), write())
    late = START_MS + 50_000
    after, _ = mark(None, TOKEN, None)(state, late)
    kept = next_state(state, after, late, own_readers=[1], own_writers=["w"])
    assert (list(kept.readers), list(kept.writers)) == ([1], ["w"])
    gone = next_state(state, after, late)
    assert (list(gone.readers), list(gone.writers)) == ([], [])


def test_a_row_that_a_wrong_clock_renewed_does_not_stay_for_ever() -> None:
    state = committed(at(), read(), START_MS + 10 * DAY_MS)
    assert not committed(state, mark(None, TOKEN, None), START_MS).readers
    state = committed(at(), read(), START_MS + DAY_MS)
    assert committed(state, mark(None, TOKEN, None), START_MS).readers


def test_times_of_entries_increase_whatever_the_clock_says() -> None:
    state = committed(at(), read(), START_MS + 5)
    assert committed(state, read(2), START_MS).written_ms == START_MS + 6


def test_since_does_not_move_when_leases_end() -> None:
    state = committed(at(since=3), read())
    state = committed(state, mark(None, TOKEN, 90), START_MS + 5_000)
    assert (state.readers, state.since) == ({}, 3)


def test_a_reader_that_left_holds_nothing() -> None:
    state = committed(committed(at(), read()), partial(leave_reader, reader_id=1))
    assert not state.readers
    assert leave_reader(state, START_MS, reader_id=1) == (state, None)


def test_a_reader_can_not_begin_where_history_is_gone() -> None:
    with pytest.raises(errors.SinceError) as caught:
        read(since=4)(at(since=5), START_MS)
    assert (caught.value.as_of, caught.value.since) == (4, 5)


@pytest.mark.parametrize("lease_ms", [0, -1, 2**32])
def test_a_lease_is_a_time(lease_ms: int) -> None:
    for command in (read(lease_ms=lease_ms), write(lease_ms=lease_ms)):
        with pytest.raises(ValueError, match="lease"):
            command(at(), START_MS)


def test_a_thousand_readers_and_writers_and_256_bookmarks() -> None:
    state = at()
    reader, writer = read()(state, START_MS)[1], write()(state, START_MS)[1]
    full = replace(
        state,
        readers={n: replace(reader, id=n) for n in range(1, 1_001)},
        writers={f"{n}": replace(writer, name=f"{n}") for n in range(1_000)},
        bookmarks={f"{n}": Bookmark(name=f"{n}", since=0, token=TOKEN, who="") for n in range(256)},
    )
    for command, limit in (
        (read(5_000), 1_000),
        (write(), 1_000),
        (mark(None, TOKEN, None), 256),
    ):
        with pytest.raises(errors.CollectionLimitError) as caught:
            command(full, START_MS)
        assert caught.value.limit == limit
    assert read(5)(full, START_MS + 1)[1].renewed_ms == START_MS + 1


def test_a_writer_that_comes_again_keeps_its_hold_and_another_id_gets_a_new_one() -> None:
    state = committed(committed(at(), write()), mark(None, TOKEN, None))
    again = committed(state, write(), START_MS + 9)
    assert (again.writers["w"].hold, again.writers["w"].renewed_ms) == (1, START_MS + 9)
    other = committed(state, write(8), START_MS + 9)
    assert (other.writers["w"].id, other.writers["w"].hold) == (8, other.seqno)


def test_a_writer_moves_its_hold_forward_only() -> None:
    state = committed(committed(at(), write()), mark(None, TOKEN, None))
    state = committed(state, partial(renew_writer, name="w", writer_id=7, hold=99))
    assert state.writers["w"].hold == state.seqno
    state = committed(state, partial(renew_writer, name="w", writer_id=7, hold=1))
    assert state.writers["w"].hold == state.seqno - 1
    for name, number in (("w", 8), ("x", 7)):
        with pytest.raises(errors.BatchExpiredError, match=f"writer={name}"):
            renew_writer(state, START_MS, name=name, writer_id=number, hold=1)


def test_a_writer_that_lives_for_ever_gets_no_lease_by_an_upload() -> None:
    state = committed(at(), write())
    state = replace(state, writers={"w": replace(state.writers["w"], lease_ms=0, hold=0, id=0)})
    with pytest.raises(ValueError, match="under another name"):
        write()(state, START_MS)


def test_a_writer_that_left_is_forgotten() -> None:
    state = committed(committed(at(), write()), partial(leave_writer, name="w"))
    assert not state.writers
    assert leave_writer(state, START_MS, name="w") == (state, None)


def test_a_bookmark_is_made_moved_and_taken_over() -> None:
    state = committed(at(since=3), mark(None, TOKEN, None))
    assert state.bookmarks["m"].since == 3
    state = committed(state, mark(TOKEN, TOKEN, 8))
    assert state.bookmarks["m"].since == 8
    state = committed(state, mark(TOKEN, OTHER, None))
    assert (state.bookmarks["m"].since, state.bookmarks["m"].token) == (8, OTHER)
    with pytest.raises(errors.BookmarkFencedError) as caught:
        mark(TOKEN, TOKEN, 9)(state, START_MS)
    assert caught.value.actual == OTHER


@pytest.mark.parametrize("expected", [None, TOKEN])
def test_a_bookmark_that_is_set_again_is_the_same(expected: bytes | None) -> None:
    state = at() if expected is None else committed(at(), mark(None, TOKEN, None))
    state = committed(state, mark(expected, OTHER, 5))
    assert mark(expected, OTHER, 5)(state, START_MS)[0] is state


def test_a_bookmark_that_is_not_there_has_no_token() -> None:
    with pytest.raises(errors.BookmarkFencedError, match="actual=none") as caught:
        mark(TOKEN, TOKEN, 1)(at(), START_MS)
    assert caught.value.actual is None


def test_a_bookmark_does_not_go_back() -> None:
    state = committed(at(since=3), mark(None, TOKEN, 8))
    for command, lowest in (
        (mark(TOKEN, TOKEN, 7), 8),
        (mark(None, TOKEN, 2, name="other"), 3),
    ):
        with pytest.raises(errors.SinceError) as caught:
            command(state, START_MS)
        assert caught.value.since == lowest


def test_a_bookmark_is_removed_by_its_token() -> None:
    state = committed(at(), mark(None, TOKEN, None))
    with pytest.raises(errors.BookmarkFencedError):
        remove_bookmark(state, START_MS, name="m", expected=OTHER)
    state = committed(state, partial(remove_bookmark, name="m", expected=TOKEN))
    assert remove_bookmark(state, START_MS, name="m", expected=OTHER) == (state, None)


def test_since_is_advanced_up_to_what_holds_it() -> None:
    state = committed(at(since=3), read(since=50))
    state = committed(state, mark(None, TOKEN, 20))
    assert advance_since(state, START_MS, to=2) == (state, 3)
    assert advance_since(state, START_MS, to=20)[1] == 20
    with pytest.raises(errors.SinceHeldError, match="holder=bookmark m") as caught:
        advance_since(state, START_MS, to=21)
    assert (caught.value.to, caught.value.limit) == (21, 20)


def test_one_time_can_always_be_read() -> None:
    assert advance_since(at(), START_MS, to=99)[1] == 99
    with pytest.raises(errors.SinceHeldError, match="limit=99 holder=the upper"):
        advance_since(at(), START_MS, to=100)


@pytest.mark.parametrize("value", [-1, 2**63 - 1, 2**64])
def test_what_is_no_frontier_is_refused(value: int) -> None:
    state = committed(at(), read())
    for command in (
        read(9, since=value),
        partial(renew_reader, reader_id=1, since=value, hold=1),
        mark(None, TOKEN, value),
        partial(advance_since, to=value),
    ):
        with pytest.raises(ValueError, match="not a frontier"):
            command(state, START_MS)


def test_tokens_and_ids_are_what_they_should_be() -> None:
    with pytest.raises(ValueError, match="token"):
        mark(None, b"short", None)(at(), START_MS)
    for number in (0, 2**64):
        for command in (write(number), read(number)):
            with pytest.raises(ValueError, match="an id is 1 to"):
                command(at(), START_MS)


def test_texts_for_people_are_cut() -> None:
    assert len(read(who="x" * 999)(at(), START_MS)[1].who) == 200


def test_nothing_registers_where_a_collection_was_dropped_and_all_may_leave() -> None:
    state = committed(committed(committed(at(), read()), write()), drop)
    assert (state.readers, state.writers) == ({}, {})
    for command in (
        read(),
        write(),
        mark(None, TOKEN, None),
        partial(advance_since, to=1),
        partial(renew_reader, reader_id=1, since=5, hold=1),
        partial(renew_writer, name="w", writer_id=7, hold=1),
    ):
        with pytest.raises(errors.CollectionDroppedError):
            command(state, START_MS)
    assert leave_reader(state, START_MS, reader_id=1)[0] is state
    assert leave_writer(state, START_MS, name="w")[0] is state
    assert remove_bookmark(state, START_MS, name="m", expected=TOKEN)[0] is state
