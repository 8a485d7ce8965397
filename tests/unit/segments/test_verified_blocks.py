"""Remembered blocks: by version, for a limited time, and in a bounded number."""

from __future__ import annotations

from siltstone.segments.verified_blocks import VerifiedBlocks


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_all_blocks_of_a_range_must_be_known() -> None:
    blocks = VerifiedBlocks(Clock())
    assert blocks.version("a", 0, 1) is None
    blocks.remember("a", "v1", 2, 4)
    assert blocks.version("a", 2, 4) == "v1"
    assert blocks.version("a", 3, 4) == "v1"
    assert blocks.version("a", 1, 3) is None
    assert blocks.version("a", 3, 5) is None
    assert blocks.version("b", 2, 4) is None


def test_another_version_forgets_the_old_one() -> None:
    blocks = VerifiedBlocks(Clock())
    blocks.remember("a", "v1", 0, 4)
    blocks.remember("a", "v2", 1, 2)
    assert blocks.version("a", 0, 1) is None
    assert blocks.version("a", 1, 2) == "v2"
    blocks.forget("a")
    assert blocks.version("a", 1, 2) is None


def test_nothing_is_remembered_for_longer_than_the_period() -> None:
    clock = Clock()
    blocks = VerifiedBlocks(clock, remember_s=600)
    for now in range(0, 5_000, 7):
        clock.now = now
        if now % 49 == 0:
            blocks.remember("other", "v", 0, 1)
        if now == 280:
            blocks.remember("a", "v", 0, 1)
        if now > 280:
            known = blocks.version("a", 0, 1)
            if now <= 580:
                assert known == "v"
            if now > 880:
                assert known is None


def test_nothing_is_remembered_for_no_time() -> None:
    blocks = VerifiedBlocks(Clock(), remember_s=0)
    blocks.remember("a", "v", 0, 1)
    assert blocks.version("a", 0, 1) is None


def test_the_chunk_not_used_for_longest_goes_first() -> None:
    blocks = VerifiedBlocks(Clock(), chunks_max=2)
    blocks.remember("a", "v", 0, 1)
    blocks.remember("b", "v", 0, 1)
    assert blocks.version("a", 0, 1)
    blocks.remember("c", "v", 0, 1)
    assert [name for name in "abc" if blocks.version(name, 0, 1)] == ["a", "c"]
