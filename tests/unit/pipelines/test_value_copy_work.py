"""Ranges of value segments are read in few calls, which read little that is not needed."""

from __future__ import annotations

import pytest

from siltstone.objects.compaction_plan import CopiedRange
from siltstone.pipelines.value_copy_work import Part, read_batches


def near(*places: tuple[int, int]) -> list[Part]:
    return [CopiedRange(1, start, end) for start, end in places]


@pytest.mark.parametrize(
    ("parts", "batches"),
    [
        ([], []),
        ([b"header"], [[b"header"]]),
        (near((0, 10), (20, 30)), [near((0, 10), (20, 30))]),
        (near((0, 10), (21, 30)), [near((0, 10)), near((21, 30))]),
        (near((0, 40), (45, 50)), [near((0, 40), (45, 50))]),
        (near((0, 40), (45, 51)), [near((0, 40)), near((45, 51))]),
        (near((0, 120)), [near((0, 50)), near((50, 100)), near((100, 120))]),
        ([*near((0, 9)), CopiedRange(2, 9, 18)], [near((0, 9)), [CopiedRange(2, 9, 18)]]),
        (
            [b"a", *near((0, 9)), b"b", *near((9, 18)), b"c", *near((90, 99))],
            [[b"a", *near((0, 9)), b"b", *near((9, 18)), b"c"], near((90, 99))],
        ),
    ],
)
def test_ranges_are_read_at_once_that_are_near_and_short(
    parts: list[Part], batches: list[list[Part]]
) -> None:
    assert list(read_batches(parts, read_bytes=50, gap_bytes=10)) == batches
