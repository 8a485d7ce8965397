"""Sums of blocks: incremental, cut into groups, combined."""

from __future__ import annotations

import random

import pytest

from siltstone.core.checksums import crc32c
from siltstone.core.constants import BLOCK_BYTES, GROUP_BLOCKS
from siltstone.core.storage.block_sums import block_count, combined, extend_sums, patches

DATA = random.Random(1).randbytes(3 * BLOCK_BYTES + 7)


def sums_of(data: bytes) -> list[int]:
    return [crc32c(data[start : start + BLOCK_BYTES]) for start in range(0, len(data), BLOCK_BYTES)]


@pytest.mark.parametrize(
    ("length", "count"), [(0, 0), (1, 1), (BLOCK_BYTES, 1), (BLOCK_BYTES + 1, 2)]
)
def test_block_count(length: int, count: int) -> None:
    assert block_count(length) == count


@pytest.mark.parametrize("offset", [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 600_000])
@pytest.mark.parametrize("end", [BLOCK_BYTES, BLOCK_BYTES + 1, 2 * BLOCK_BYTES, len(DATA)])
@pytest.mark.parametrize("piece", [1_000, BLOCK_BYTES - 1, BLOCK_BYTES, len(DATA)])
def test_extended_sums_are_those_of_the_whole(offset: int, end: int, piece: int) -> None:
    end = max(offset, end)
    before, new = sums_of(DATA[:offset]), DATA[offset:end]
    buffers = [new[start : start + piece] for start in range(0, len(new), piece)]
    found = extend_sums(buffers, offset, before[-1] if before else 0)
    if new:
        assert before[: offset // BLOCK_BYTES] + found == sums_of(DATA[:end])


def test_patches_stay_in_their_group() -> None:
    sums = list(range(2 * GROUP_BLOCKS + 2))
    found = patches(7, GROUP_BLOCKS - 1, sums)
    assert [(patch.group, patch.first_block, len(patch.sums)) for patch in found] == [
        (0, GROUP_BLOCKS - 1, 1),
        (1, 0, GROUP_BLOCKS),
        (2, 0, GROUP_BLOCKS),
        (3, 0, 1),
    ]
    assert [value for patch in found for value in patch.sums] == sums


@pytest.mark.parametrize("length", [0, 1, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES, len(DATA)])
def test_combined(length: int) -> None:
    assert combined(sums_of(DATA[:length]), length) == crc32c(DATA[:length])
