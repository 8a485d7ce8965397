"""What a sync does about an object that differs, by cases."""

from __future__ import annotations

from typing import Any

import pytest

from siltstone.objects.records.head import Head, encode_head
from siltstone.objects.sync import SyncStep, SyncTarget, check_preference, step_of


def side(modified_ms: int, metadata: bytes = b"") -> tuple[Head, bytes]:
    head = Head(1, 0, 1, 0, 9, 9, bytes(8), modified_ms, 0, (), metadata)
    return head, encode_head(head)


OLD, NEW = side(1), side(2, b"new")
COPY_LEFT, COPY_RIGHT = SyncStep(SyncTarget.LEFT, False), SyncStep(SyncTarget.RIGHT, False)
REMOVE_LEFT, REMOVE_RIGHT = SyncStep(SyncTarget.LEFT, True), SyncStep(SyncTarget.RIGHT, True)


@pytest.mark.parametrize(
    ("left", "right", "prefer", "deletes", "step"),
    [
        (OLD, NEW, "left", False, COPY_RIGHT),
        (NEW, OLD, "left", True, COPY_RIGHT),
        (OLD, NEW, "right", False, COPY_LEFT),
        (NEW, OLD, "right", True, COPY_LEFT),
        (OLD, NEW, "newest", False, COPY_LEFT),
        (NEW, OLD, "newest", False, COPY_RIGHT),
        (side(1, b"b"), side(1, b"a"), "newest", False, COPY_RIGHT),
        (side(1, b"a"), side(1, b"b"), "newest", False, COPY_LEFT),
        (None, NEW, "left", False, COPY_LEFT),
        (None, NEW, "right", False, COPY_LEFT),
        (None, NEW, "newest", False, COPY_LEFT),
        (NEW, None, "left", False, COPY_RIGHT),
        (NEW, None, "right", False, COPY_RIGHT),
        (NEW, None, "newest", False, COPY_RIGHT),
        (None, NEW, "left", True, REMOVE_RIGHT),
        (None, NEW, "right", True, COPY_LEFT),
        (NEW, None, "left", True, COPY_RIGHT),
        (NEW, None, "right", True, REMOVE_LEFT),
    ],
)
def test_step(left: Any, right: Any, prefer: Any, deletes: bool, step: SyncStep) -> None:
    assert step_of(left, right, prefer, deletes=deletes) == step


def test_a_preference_is_known_and_says_whose_absence_counts() -> None:
    with pytest.raises(ValueError, match="newest"):
        check_preference("both", deletes=False)
    with pytest.raises(ValueError, match="absence"):
        check_preference("newest", deletes=True)
