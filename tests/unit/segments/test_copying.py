"""Copies of all sizes, between buffers that begin anywhere."""

from __future__ import annotations

import pytest

from siltstone.core.constants import BLOCK_BYTES
from siltstone.segments.read_ahead import copy

PATTERN = bytes(range(251)) * (2 * BLOCK_BYTES // 251 + 2)


@pytest.mark.parametrize("length", [0, 1, BLOCK_BYTES, BLOCK_BYTES + 1, 2 * BLOCK_BYTES])
@pytest.mark.parametrize("begin", [0, 3])
def test_a_copy_is_all_of_it_and_nothing_else(length: int, begin: int) -> None:
    source = memoryview(bytearray(PATTERN))[begin : begin + length]
    whole = bytearray(b"x" * (length + 10))
    copy(memoryview(whole)[5 : 5 + length], source)
    assert whole == b"xxxxx" + PATTERN[begin : begin + length] + b"xxxxx"


@pytest.mark.parametrize("length", [10, 2 * BLOCK_BYTES])
def test_another_length_is_refused(length: int) -> None:
    target = memoryview(bytearray(length))
    with pytest.raises(ValueError, match="different"):
        copy(target, memoryview(bytearray(length - 1)))
