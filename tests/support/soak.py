"""What share of each soak test is run: ``SILTSTONE_SOAK_SHARE=2/8`` is the second eighth of it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from random import Random
from typing import TypeVar

Case = TypeVar("Case")


def share() -> tuple[int, int]:
    """Which share, counted from 1, and how many there are; ``1/1`` unless told otherwise.

    Raises:
        ValueError: the environment says something that is no share.
    """
    text = os.environ.get("SILTSTONE_SOAK_SHARE", "1/1")
    which, _, count = text.partition("/")
    if not (which.isdecimal() and count.isdecimal() and 1 <= int(which) <= int(count)):
        raise ValueError(f"SILTSTONE_SOAK_SHARE={text} is no share; one would be 2/8")
    return int(which), int(count)


def shared(cases: Iterable[Case]) -> list[Case]:
    """Return the cases of this share, in their order.

    All shares together are all cases, each once. They are drawn, always the same way, so no share
    has only cases of one kind when kinds take turns.
    """
    which, count = share()
    every = list(cases)
    drawn = Random(len(every)).sample(range(len(every)), len(every))
    return [every[index] for index in sorted(drawn[which - 1 :: count])]


def share_of(count: int) -> int:
    """Return how many of ``count`` random rounds this share has, 1 at least."""
    return max(1, count // share()[1])
