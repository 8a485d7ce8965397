"""Which states of a collection have warnings, at both sides of each border."""

from __future__ import annotations

from dataclasses import replace

import pytest

from siltstone.collections.state.state_warnings import WarningKind, warnings_of
from siltstone.core.records.collection_batch import Batches, CollectionBatch
from siltstone.core.records.collection_frontier import DONE, HISTORY_ALL
from siltstone.core.records.collection_rows import Bookmark, CollectionReader, CollectionWriter
from siltstone.core.records.collection_state import CollectionState, Life, Times
from tests.support.collections.state_world import first_state

DAY_MS = 24 * 3_600 * 1_000


def kinds(state: CollectionState) -> list[WarningKind]:
    found = list(warnings_of("gusts", state))
    assert all(one.collection == "gusts" for one in found)
    return [one.kind for one in found]


def marked(upper: int, since: int, history: int, times: Times = Times.COUNT) -> CollectionState:
    """A state with this upper, and a bookmark."""
    state = first_state(times=times, history=history)
    batches = Batches().added(CollectionBatch(lower=0, upper=upper, since=0))
    mark = Bookmark(name="bill", since=since, token=bytes(16), who="a loader")
    return replace(state, batches=batches, bookmarks={"bill": mark})


@pytest.mark.parametrize(
    ("upper", "since", "history", "times", "is_told"),
    [
        (2_000, 0, 1_000, Times.COUNT, True),  # twice the history
        (1_999, 0, 1_000, Times.COUNT, False),
        (6_000, 0, 3_000, Times.COUNT, True),
        (5_999, 0, 3_000, Times.COUNT, False),
        (1_005, 0, 5, Times.COUNT, True),  # a short history, and 1,000 more
        (1_004, 0, 5, Times.COUNT, False),
        (9_005, 8_000, 5, Times.COUNT, True),
        (9_005, 8_001, 5, Times.COUNT, False),
        (14 * DAY_MS, 0, 7 * DAY_MS, Times.MILLISECONDS, True),
        (14 * DAY_MS - 1, 0, 7 * DAY_MS, Times.MILLISECONDS, False),
        (DAY_MS + 60_000, 0, 60_000, Times.MILLISECONDS, True),
        (DAY_MS + 59_999, 0, 60_000, Times.MILLISECONDS, False),
        (10**12, 0, HISTORY_ALL, Times.COUNT, False),  # no append would move the since
        (DONE, 0, 5, Times.COUNT, False),
    ],
)
def test_a_bookmark_that_keeps_twice_the_history_is_told(
    upper: int, since: int, history: int, times: Times, *, is_told: bool
) -> None:
    found = list(warnings_of("gusts", marked(upper, since, history, times)))
    assert [one.kind for one in found] == [WarningKind.HISTORY] * is_told
    if is_told:
        assert f"bookmark bill keeps {upper / history - since / history:,.1f} times" in (
            found[0].message
        )
        assert f"since={since} who=a loader" in found[0].message


@pytest.mark.parametrize(("count", "is_told"), [(899, False), (900, True), (1_000, True)])
def test_many_batches_readers_and_writers_are_told(count: int, *, is_told: bool) -> None:
    state = first_state()
    many = tuple(CollectionBatch(lower=one, upper=one + 1, since=0) for one in range(count))
    batches = replace(state, batches=Batches().replaced(0, 0, many))
    assert kinds(batches) == [WarningKind.COMPACTION] * is_told
    writers = {f"w{one}": writer(f"w{one}") for one in range(count)}
    assert kinds(replace(state, writers=writers)) == [WarningKind.WRITERS] * is_told
    readers = {one: reader(one) for one in range(count)}
    assert kinds(replace(state, readers=readers)) == [WarningKind.READERS] * is_told


@pytest.mark.parametrize("life", [Life.DROPPED, Life.MOVED])
def test_nothing_is_told_of_a_collection_that_ended(life: Life) -> None:
    assert kinds(replace(marked(2_000, 0, 1_000), life=life)) == []


def writer(name: str) -> CollectionWriter:
    return CollectionWriter(
        name=name, id=0, sequence=0, upper=0, hold=0, lease_ms=0, renewed_ms=0, who=""
    )


def reader(number: int) -> CollectionReader:
    return CollectionReader(id=number, hold=1, since=0, lease_ms=1, renewed_ms=0, who="")
