"""Small items share a pack, large ones do not, and none is lost."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from siltstone.core.constants import KIB, MIB
from siltstone.pipelines.work import (
    ITEM_BYTES,
    PACK_BYTES_MAX,
    PACK_ITEMS_MAX,
    packed,
)


@dataclass(frozen=True, slots=True)
class Thing:
    size: int


@given(st.lists(st.integers(0, 200 * MIB), max_size=300), st.integers(1, 64))
def test_packs_hold_all_items_in_order_within_their_bound(sizes: list[int], workers: int) -> None:
    items = [Thing(size) for size in sizes]
    packs = list(packed(items, workers))
    assert [item for pack in packs for item in pack] == items
    for pack in packs:
        cost = sum(item.size + ITEM_BYTES for item in pack)
        assert len(pack) == 1 or cost <= PACK_BYTES_MAX


def test_ten_thousand_small_chunks_are_a_few_tasks() -> None:
    packs = list(packed([Thing(16 * KIB)] * 10_000, 2))
    assert 4 <= len(packs) <= 8


def test_large_chunks_are_a_task_each() -> None:
    assert len(list(packed([Thing(64 * MIB)] * 16, 2))) == 16


def test_a_pack_has_a_bounded_count_of_items() -> None:
    packs = list(packed([Thing(0)] * 50_000, 1))
    assert max(map(len, packs)) <= PACK_ITEMS_MAX


def test_little_work_is_one_task() -> None:
    assert len(list(packed([Thing(KIB)] * 20, 64))) == 1
