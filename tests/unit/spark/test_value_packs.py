"""Which records one task reads."""

from __future__ import annotations

import pytest

from siltstone.spark import value_packs
from siltstone.spark.value_packs import Pack, ValuePlace, pack_places


def place(segment: str, offset: int, length: int) -> ValuePlace:
    return ValuePlace(segment, offset, length, b"key", b"row")


def offsets(packs: list[Pack]) -> list[list[int]]:
    return [[each.offset for each in pack.places] for pack in packs]


def test_packs_have_neighbours_up_to_their_bytes_and_one_at_least() -> None:
    places = [place("a", 0, 40), place("a", 50, 50), place("a", 100, 300), place("b", 7, 1)]
    packs = list(pack_places(places, lambda _: 1_000, 100))
    assert offsets(packs) == [[0, 50], [100], [7]]
    assert [pack.spans for pack in packs] == [{"a": (0, 100)}, {"a": (100, 400)}, {"b": (7, 8)}]
    (whole,) = pack_places(places, lambda _: 1_000, 1_000)
    assert whole.spans == {"a": (0, 400), "b": (7, 8)}
    assert list(pack_places([], lambda _: 0, 100)) == []


def test_what_is_not_flushed_travels_in_small_shares_with_its_gaps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(value_packs, "TAIL_RANGE_BYTES", 100)
    flushed = [place("a", offset, 50) for offset in range(0, 300, 50)]
    rest = [place("a", offset, 50) for offset in range(300, 600, 50)]
    packs = list(pack_places([*flushed, *rest], lambda _: 300, 1_000))
    assert offsets(packs) == [[0, 50, 100, 150, 200, 250, 300, 350], [400, 450], [500, 550]]
    apart = [place("a", 300, 10), place("a", 395, 5), place("a", 396, 10)]
    assert offsets(list(pack_places(apart, lambda _: 300, 1_000))) == [[300, 395], [396]]
