"""What holds tier 1 back, and how many bytes it keeps."""

from __future__ import annotations

import pytest

from siltstone.container.measuring import HELD_BY, KeptBytes, LogNeeds, held_by


@pytest.mark.parametrize(
    ("user", "table", "stated", "checkpoint", "reason"),
    [
        (None, None, 100, 99, "nothing"),
        (None, None, 92, 92, "nothing"),
        (40, 60, 40, 90, "user_bytes"),
        (60, 40, 40, 90, "table_log"),
        (40, 40, 40, 90, "user_bytes"),
        (None, None, 40, 90, "journal"),
        (None, None, 91, 91, "journal"),
        (60, 70, 50, 90, "user_bytes"),
        (None, 70, 50, 90, "table_log"),
        (None, None, 100, 40, "checkpoint"),
        (60, None, 60, 40, "user_bytes"),
        (None, None, 100, None, "nothing"),
    ],
)
def test_what_holds_the_log(
    user: int | None, table: int | None, stated: int, checkpoint: int | None, reason: str
) -> None:
    needs = LogNeeds(next_index=100, user=user, table=table, stated=stated, checkpoint=checkpoint)
    assert held_by(needs) == reason
    assert reason in HELD_BY


def test_kept_bytes_go_with_their_frames() -> None:
    kept = KeptBytes()
    for index in range(5_000):
        kept.add(index, 10)
    assert kept.size == 50_000
    kept.drop_below(999)
    assert kept.size == 50_000
    kept.drop_below(2_500)
    assert kept.size == 30_000, "an upper bound, by less than a thousand frames"
    kept.drop_below(10_000)
    assert kept.size == 0
