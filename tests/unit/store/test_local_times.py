"""Local times where a zone skips or repeats an hour, compared with zoneinfo's way from UTC."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest

from siltstone.store.handles.arguments import check_time_ms
from siltstone.store.local_times import seconds_of

ZONES = {
    "Europe/Berlin": ("2025-03-30", "2025-10-26"),
    "America/New_York": ("2025-03-09", "2025-11-02"),
    "Australia/Lord_Howe": ("2025-10-05", "2025-04-06"),
    "America/Santiago": ("2025-09-06T12:00", "2025-04-05T12:00"),
    "Pacific/Apia": ("2011-12-29", "2010-01-01"),
}


@pytest.fixture(params=[*ZONES])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


def _walls(begin: datetime, zone: tzinfo) -> tuple[list[datetime], list[float]]:
    """The latest time that a wall clock has shown, minute by minute, and the moments."""
    moment = (begin - timedelta(days=1)).replace(tzinfo=UTC)
    shown: list[datetime] = []
    moments: list[float] = []
    for _ in range(4 * 24 * 60):
        shown.append(max([*shown[-1:], moment.astimezone(zone).replace(tzinfo=None)]))
        moments.append(moment.timestamp())
        moment += timedelta(minutes=1)
    return shown, moments


@pytest.mark.parametrize("change", [0, 1])
def test_a_local_time_is_the_first_moment_that_is_not_before_it(zone: str, change: int) -> None:
    begin = datetime.fromisoformat(ZONES[zone][change])
    shown_most, moments = _walls(begin, ZoneInfo(zone))
    last = 0.0
    for minutes in range(0, 30 * 60, 17):
        shown = begin + timedelta(minutes=minutes)
        expected = moments[bisect_left(shown_most, shown)]
        assert seconds_of(shown) == expected, shown
        assert seconds_of(shown.replace(tzinfo=ZoneInfo(zone))) == expected, shown
        assert expected >= last
        last = expected


def test_the_second_of_two_equal_hours_can_be_asked_for() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    first = datetime(2025, 10, 26, 2, 30, tzinfo=berlin)
    assert seconds_of(first.replace(fold=1)) - seconds_of(first) == 3600


def test_fixed_offsets_and_fractions_are_what_they_say() -> None:
    moment = datetime(2025, 3, 30, 2, 30, 1, 250_000, tzinfo=timezone(timedelta(hours=1)))
    assert seconds_of(moment) == moment.timestamp() == 1_743_298_201.25


def test_a_segment_is_asked_by_a_skipped_time_as_by_the_end_of_the_skip() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    skip = datetime(2025, 3, 30, 1, tzinfo=UTC).timestamp()
    for minute in (0, 30, 59):
        assert check_time_ms(datetime(2025, 3, 30, 2, minute, tzinfo=berlin)) == skip * 1000
