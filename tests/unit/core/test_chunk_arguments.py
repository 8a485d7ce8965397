"""The arguments that every binding refuses alike."""

from __future__ import annotations

from array import array
from typing import Any

import pytest

from siltstone.core.chunk_arguments import (
    check_buffers,
    check_chunk_name,
    check_concat,
    check_listing,
    require,
)
from siltstone.core.chunk_storage import Capabilities
from siltstone.core.errors import CapabilityError, ChunkNameError


def test_names_become_bytes() -> None:
    assert check_chunk_name("a/é", "create") == "a/é".encode()
    assert check_chunk_name("x" * 1_024, "create") == b"x" * 1_024


@pytest.mark.parametrize(
    "name", ["", "/a", "a/", "a//b", ".", "a/..", "a\0", "x" * 1_025, "\ud800"]
)
def test_wrong_names(name: str) -> None:
    with pytest.raises(ChunkNameError) as caught:
        check_chunk_name(name, "stat")
    assert caught.value.operation == "stat"
    str(caught.value).encode()  # A message can always be written to a log.


def test_a_prefix_need_be_no_key() -> None:
    assert check_listing("a//", "/") == (b"a//", b"/")
    with pytest.raises(ChunkNameError):
        check_listing("\ud800", "")


def test_buffers_are_counted() -> None:
    assert check_buffers([b"ab", bytearray(3), memoryview(b"abcd")[1:]]) == 8


@pytest.mark.parametrize(
    ("buffers", "kind"),
    [
        ([], ValueError),
        ([b""], ValueError),
        (b"abc", TypeError),
        (["abc"], TypeError),
        ([memoryview(array("I", [1, 2]))], ValueError),
        ([memoryview(b"abcdef")[::2]], ValueError),
    ],
)
def test_wrong_buffers(buffers: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        check_buffers(buffers)


LIMITED = Capabilities(
    append=False,
    concat=True,
    concat_part_bytes_min=5,
    concat_part_bytes_max=10,
    concat_parts_max=3,
    chunk_bytes_max=22,
)


@pytest.mark.parametrize(
    ("lengths", "total"),
    [([5], 5), ([1], 1), ([10, 10, 2], 22), ([5, 1], 6), ([5, 5, 10], 20)],
)
def test_concats_that_fit(lengths: list[int], total: int) -> None:
    sources = [(f"{length}", length) for length in lengths]
    assert check_concat("t", sources, LIMITED) == total


@pytest.mark.parametrize(
    "lengths", [[], [0], [-5], [11], [4, 5], [5, 4, 5], [5, 5, 5, 5], [10, 10, 3], [5, 0]]
)
def test_concats_that_do_not_fit(lengths: list[int]) -> None:
    with pytest.raises(ValueError, match=r"count|length"):
        check_concat("t", [(f"{length}", length) for length in lengths], LIMITED)


def test_a_missing_capability_is_named() -> None:
    require("append", able=True)
    with pytest.raises(CapabilityError, match="capability=append"):
        require("append", able=False)
