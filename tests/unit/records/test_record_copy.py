"""Copies of records: as ``dataclasses.replace`` makes them, and of records alone that allow it."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, replace

import pytest

from siltstone.core.records.collection_batch import CollectionBatch
from siltstone.core.records.collection_entry import Diff
from siltstone.core.records.record_copy import copied


@dataclass(frozen=True, slots=True, kw_only=True)
class Gust:
    """A record with values of its own, and a default."""

    station: str
    speed: float
    seen: bool = True


def test_a_copy_is_what_replace_makes_and_the_record_stays() -> None:
    gust = Gust(station="a", speed=1.5, seen=False)
    copy = copied(gust, speed=2.5, station="b")
    assert copy == replace(gust, speed=2.5, station="b")
    assert gust == Gust(station="a", speed=1.5, seen=False)
    assert copied(gust) == gust


def test_a_copy_cannot_be_changed_either() -> None:
    copy = copied(Gust(station="a", speed=1.5))
    with pytest.raises(FrozenInstanceError):
        copy.speed = 2.5  # type: ignore[misc]


def test_a_field_that_is_not_there_is_refused() -> None:
    with pytest.raises(KeyError, match="gusts"):
        copied(Gust(station="a", speed=1.5), gusts=1)


def test_a_record_that_checks_or_computes_something_is_not_copied() -> None:
    diff = Diff(seqno=1, token=0, written_ms=1, actor="", changes=())
    with pytest.raises(AssertionError, match="computed"):
        copied(diff, token=1)
    with pytest.raises(AssertionError, match="computed"):
        copied(CollectionBatch(lower=0, upper=1), upper=2)


def test_a_record_that_checks_what_it_is_given_is_not_copied() -> None:
    @dataclass(frozen=True, slots=True)
    class Checked:
        speed: float

        def __post_init__(self) -> None:
            assert self.speed >= 0, "no gust blows backwards"

    with pytest.raises(AssertionError, match="left out"):
        copied(Checked(1.0), speed=-1.0)
