"""What a sweep does with a page, as tables: what goes and stays, where the next one begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from siltstone.container.garbage.sweep_plan import (
    Known,
    SweepPage,
    Unnamed,
    behind_epoch,
    chunk_name_parts,
    epoch_under,
    findings,
    plan_epochs,
    plan_page,
)
from siltstone.container.models.garbage import SweepFinding
from siltstone.core.chunk_names import data_chunk, shared_chunk
from siltstone.core.chunk_storage import ChunkStat
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.epoch_row import EpochRow

CONTAINER, EPOCH, NEXT_ID = 12, 5, 100
DAY_S, DAY_MS = 86_400, 86_400_000
NOW_S = 1_000 * DAY_S
OLD_S = NOW_S - DAY_S
WEEK_MS = 7 * DAY_MS


def stat(name: str, modified_s: float = OLD_S) -> ChunkStat:
    return ChunkStat(name=name, length=len(name), modified_s=modified_s, version="v")


def named(epoch: int, chunk_id: int, segment: str = "a") -> str:
    return data_chunk(CONTAINER, epoch, segment, 0, chunk_id)


def known(
    rows: Sequence[Chunk] = (), epochs: Sequence[EpochRow] = (), *, all_epochs: bool = False
) -> Known:
    return Known(
        container=CONTAINER,
        epoch=EPOCH,
        next_chunk_id=NEXT_ID,
        chunk={row.chunk_id: row for row in rows}.get,
        epoch_row={row.epoch: row for row in epochs}.get,
        now_s=NOW_S,
        all_epochs=all_epochs,
    )


def planned(
    *stats: ChunkStat,
    full: bool = False,
    rows: Sequence[Chunk] = (),
    epochs: Sequence[EpochRow] = (),
    all_epochs: bool = False,
) -> SweepPage:
    return plan_page(stats, known(rows, epochs, all_epochs=all_epochs), full=full)


def chunk(name: str, chunk_id: int) -> Chunk:
    return Chunk(chunk_id=chunk_id, name=name, epoch=1, length=1)


EMPTY = SweepPage(old=(), young=(), foreign=(), epochs=(), cursor=None, unfinished=None)


def test_an_empty_page_ends_the_round() -> None:
    assert planned() == EMPTY
    assert planned(full=True) == EMPTY


@pytest.mark.parametrize(
    ("modified_s", "old"),
    [
        (OLD_S, True),
        (OLD_S - 0.001, True),
        (OLD_S + 0.001, False),
        (NOW_S, False),
        (NOW_S + 1, False),
        (0.001, True),
        (0, False),
        (-1, False),
    ],
)
def test_what_nothing_names_goes_when_it_is_surely_a_day_old(modified_s: float, old: bool) -> None:
    found = stat(named(1, 7), modified_s)
    page = planned(found)
    unnamed = (Unnamed(chunk_id=7, stat=found),)
    assert (page.old, page.young) == ((unnamed, ()) if old else ((), unnamed))
    assert page.epochs == ((1, 1),)


@pytest.mark.parametrize(("chunk_id", "given"), [(NEXT_ID - 1, True), (NEXT_ID, False)])
def test_an_id_that_was_never_given_is_not_ours(chunk_id: int, given: bool) -> None:
    found = stat(named(1, chunk_id))
    page = planned(found)
    assert [each.stat for each in page.old] == ([found] if given else [])
    assert page.foreign == (() if given else ((found, "its id was never given"),))
    assert page.epochs == ((1, int(given)),)


def test_a_chunk_with_a_row_stays_and_its_id_under_another_name_is_not_ours() -> None:
    mine, copy, large = named(2, 7), named(2, 7, "copy"), named(2, NEXT_ID)
    rows = [chunk(mine, 7), chunk(large, NEXT_ID)]
    page = planned(stat(mine), stat(copy), stat(large), rows=rows)
    assert page == replace(
        EMPTY, foreign=((stat(copy), f"its id is that of {mine}"),), epochs=((2, 0),)
    )


@pytest.mark.parametrize("epoch", [EPOCH, EPOCH + 1, 10**19])
@pytest.mark.parametrize("full", [False, True])
def test_epochs_that_are_not_closed_end_the_round_untouched(epoch: int, full: bool) -> None:
    closed, living = stat(named(EPOCH - 1, 7)), stat(named(epoch, 8))
    page = planned(closed, living, stat(named(epoch, 9)), full=full)
    assert [each.chunk_id for each in page.old] == [7]
    assert page.epochs == ((EPOCH - 1, 1),)
    assert (page.young, page.foreign) == ((), ())
    assert (page.cursor, page.unfinished) == (None, None)


def test_a_full_page_continues_after_its_last_name() -> None:
    last = named(2, 8)
    page = planned(stat(named(1, 6)), stat(named(1, 7)), stat(last), full=True)
    assert (page.cursor, page.unfinished) == (last, 2)
    assert page.epochs == ((1, 2), (2, 1))
    page = planned(stat(named(1, 7)), stat(last), full=False)
    assert (page.cursor, page.unfinished) == (None, None)


def test_a_swept_epoch_is_passed_over_to_its_end() -> None:
    swept = EpochRow(epoch=2, closed_ms=1, swept=True)
    stats = [stat(named(2, 7)), stat(named(2, 8))]
    page = planned(*stats, full=True, epochs=[swept])
    assert page == replace(EMPTY, cursor=behind_epoch(CONTAINER, 2))
    assert named(2, NEXT_ID - 1, "zzzz") < behind_epoch(CONTAINER, 2) < named(3, 1)
    assert planned(*stats, full=False, epochs=[swept]) == EMPTY
    assert len(planned(*stats, epochs=[swept], all_epochs=True).old) == 2
    assert len(planned(*stats, epochs=[replace(swept, swept=False)]).old) == 2


def test_what_follows_a_swept_epoch_on_its_page_is_looked_at() -> None:
    swept = EpochRow(epoch=2, closed_ms=1, swept=True)
    stats = [stat(named(2, 7)), stat(named(3, 8))]
    page = planned(*stats, full=True, epochs=[swept])
    assert [each.chunk_id for each in page.old] == [8]
    assert (page.cursor, page.unfinished) == (named(3, 8), 3)
    assert page.epochs == ((3, 1),)


def test_a_foreign_name_hides_nothing_after_it() -> None:
    foreign = [stat(f"data/c{CONTAINER}/e{1:020d}/x"), stat(named(1, NEXT_ID)), stat("other")]
    page = planned(*foreign, stat(named(2, 7)), full=True)
    assert [each for each, _ in page.foreign] == foreign
    reasons = [reason for _, reason in page.foreign]
    assert reasons == ["not the name of a chunk", "its id was never given", *reasons[:1]]
    assert [each.chunk_id for each in page.old] == [7]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        (named(3, 0xAB), (3, 0xAB)),
        (named(3, 2**64 - 1, "a/b/c_d"), (3, 2**64 - 1)),
        (shared_chunk(CONTAINER, 4, 2, 9), (4, 9)),
        (named(3, 7)[1:], None),
        (f"x{named(3, 7)}", None),
        (f"{named(3, 7)}x", None),
        (f"{named(3, 7)}\n", None),
        (named(3, 7).replace(".chunk", "xchunk"), None),
        (named(3, 0xAB).replace("ab.", "AB."), None),
        (named(3, 7).replace("/a/", "/"), None),
        (named(3, 7).replace("/a/", "/a.b/"), None),
        (named(3, 7).replace("/e0", "/e"), None),
        (data_chunk(CONTAINER + 1, 3, "a", 0, 7), None),
        (data_chunk(1, 3, "a", 0, 7), None),
        ("", None),
    ],
)
def test_the_whole_name_says_whether_it_is_a_chunk(
    name: str, parts: tuple[int, int] | None
) -> None:
    assert chunk_name_parts(name, CONTAINER) == parts


@pytest.mark.parametrize(
    ("name", "epoch"),
    [
        (named(3, 7), 3),
        (f"data/c{CONTAINER}/e{3:020d}/", 3),
        (f"data/c{CONTAINER}/e{3:020d}/whatever", 3),
        (f"data/c{CONTAINER}/e{3:020d}", None),
        (f"data/c{CONTAINER}/x", None),
        ("", None),
    ],
)
def test_the_folder_says_the_epoch(name: str, epoch: int | None) -> None:
    assert epoch_under(name, CONTAINER) == epoch


def listed(
    epochs: dict[int, int],
    rows: Sequence[EpochRow],
    *,
    unfinished: int | None = None,
    listing: int | None = None,
    now_ms: int = 50,
) -> list[EpochRow]:
    page = replace(EMPTY, epochs=tuple(epochs.items()), unfinished=unfinished)
    return plan_epochs(page, {row.epoch: row for row in rows}.get, listing, now_ms)


def test_an_epoch_that_is_met_for_the_first_time_was_closed_by_now() -> None:
    assert listed({3: 0, 1: 2}, []) == [
        EpochRow(epoch=1, closed_ms=50, listed_ms=50, clean=0),
        EpochRow(epoch=3, closed_ms=50, listed_ms=50, clean=1),
    ]


def test_an_epoch_whose_listing_continues_is_not_judged() -> None:
    row = EpochRow(epoch=2, closed_ms=1, listed_ms=9, clean=1)
    assert listed({2: 0}, [row], unfinished=2) == [row]
    assert listed({2: 1}, [row], unfinished=2) == [replace(row, found=True)]
    found = replace(row, found=True)
    assert listed({2: 0}, [found], unfinished=2, listing=2) == [found]
    assert listed({}, [found], listing=2) == [replace(row, listed_ms=50, clean=0)]
    assert listed({}, [row], listing=2) == [replace(row, listed_ms=50, clean=2)]
    assert listed({2: 0}, [row], listing=2) == [replace(row, listed_ms=50, clean=2)]


def test_what_an_aborted_listing_found_counts_for_no_later_one() -> None:
    stale = EpochRow(epoch=2, closed_ms=1, listed_ms=9, clean=1, found=True)
    (row,) = listed({2: 0}, [stale])
    assert row == EpochRow(epoch=2, closed_ms=1, listed_ms=50, clean=2)


@pytest.mark.parametrize(
    ("clean", "age_ms", "found", "swept"),
    [
        (1, WEEK_MS, 0, True),
        (9, WEEK_MS + 1, 0, True),
        (1, WEEK_MS - 1, 0, False),
        (0, WEEK_MS, 0, False),
        (9, WEEK_MS, 1, False),
    ],
)
def test_an_epoch_is_swept_once_clean_twice_and_a_week_old(
    clean: int, age_ms: int, found: int, swept: bool
) -> None:
    before = EpochRow(epoch=2, closed_ms=77, listed_ms=80, clean=clean)
    now_ms = 77 + age_ms
    after = EpochRow(
        epoch=2,
        closed_ms=77,
        listed_ms=now_ms,
        clean=0 if found else clean + 1,
        swept=swept,
    )
    assert listed({2: found}, [before], now_ms=now_ms) == [after]


def test_a_person_is_told_each_name_with_its_reason() -> None:
    def told(kind: str, name: str, reason: str, modified_ms: int) -> SweepFinding:
        return SweepFinding(
            kind=kind, name=name, length=len(name), modified_ms=modified_ms, reason=reason
        )

    page = replace(
        EMPTY,
        foreign=((stat("f", 0), "why"),),
        young=(Unnamed(chunk_id=1, stat=stat("y", 2.5)),),
        old=(Unnamed(chunk_id=2, stat=stat("w", 3)), Unnamed(chunk_id=3, stat=stat("g", 4))),
    )
    assert findings(page, {2}) == [
        told("foreign", "f", "why", 0),
        told("young", "y", "nothing names it; it is kept for 24 hours", 2_500),
        told("waiting", "w", "a task is to delete it", 3_000),
        told("garbage", "g", "nothing names it", 4_000),
    ]
