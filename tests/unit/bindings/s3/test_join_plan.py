"""The plan of a join, by tables of cases and for random lengths."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.bindings.s3.joins import plan_join

LEAST, MOST = 10, 50


def shown(lengths: list[int]) -> list[str]:
    """``c`` for a copied part and ``m`` for one through memory, with its slices."""
    return [
        ("c" if part.copied else "m") + "+".join(f"{s.source}:{s.start}-{s.start + s.length}"
                                                 for s in part.slices)
        for part in plan_join(lengths, LEAST, MOST)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("lengths", "plan"),
    [
        ([20], ["c0:0-20"]),
        ([3], ["c0:0-3"]),
        ([20, 30], ["c0:0-20", "c1:0-30"]),
        ([20, 3], ["c0:0-20", "c1:0-3"]),
        ([3, 20], ["m0:0-3+1:0-7", "c1:7-20"]),
        ([3, 12], ["m0:0-3+1:0-12"]),
        ([3, 17], ["m0:0-3+1:0-7", "c1:7-17"]),
        ([3, 4], ["m0:0-3+1:0-4"]),
        ([3, 4, 5, 6], ["m0:0-3+1:0-4+2:0-5", "c3:0-6"]),
        ([20, 3, 20], ["c0:0-20", "m1:0-3+2:0-7", "c2:7-20"]),
        ([101], ["c0:0-34", "c0:34-68", "c0:68-101"]),
        ([3, 58], ["m0:0-3+1:0-7", "c1:7-33", "c1:33-58"]),
    ],
)
def test_plans(lengths: list[int], plan: list[str]) -> None:
    assert shown(lengths) == plan


@pytest.mark.slow
@given(st.lists(st.integers(1, 200), min_size=1, max_size=30))
def test_every_plan_is_possible_and_whole(lengths: list[int]) -> None:
    parts = plan_join(lengths, LEAST, MOST)
    covered = [(s.source, s.start + at) for part in parts for s in part.slices
               for at in range(s.length)]  # fmt: skip
    assert covered == [(i, at) for i, length in enumerate(lengths) for at in range(length)]
    for part in parts[:-1]:
        assert part.length >= LEAST
    for part in parts:
        if part.copied:
            assert len(part.slices) == 1
            assert part.length <= MOST
        else:
            assert part.length < 2 * LEAST
