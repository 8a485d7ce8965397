"""Columns as bytes, compared with an oracle in plain Python on the same values."""

from __future__ import annotations

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone import events
from siltstone.spark.arrow_bytes import encoded
from siltstone.spark.options import Mode

KINDS = [pyarrow.string(), pyarrow.binary(), pyarrow.large_string(), pyarrow.large_binary()]
LINES = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)


def expected(values: list[bytes], mode: Mode) -> bytes:
    if mode is Mode.EVENTS:
        return events.encode_many(values)
    return b"".join(value + (b"\n" if mode is Mode.LINES else b"") for value in values)


@pytest.mark.slow
@given(st.lists(LINES, max_size=30), st.integers(0, 5), st.integers(0, 5), st.sampled_from(KINDS))
@pytest.mark.parametrize("mode", Mode)
def test_values_are_written_as_an_oracle_does(
    mode: Mode, texts: list[str], skipped: int, cut: int, kind: pyarrow.DataType
) -> None:
    """Also values of a slice, whose offsets do not begin at 0."""
    values = pyarrow.array(texts, pyarrow.string()).cast(kind)
    values = values[skipped : max(skipped, len(values) - cut)]
    raw = [text.encode() for text in texts[skipped : max(skipped, len(texts) - cut)]]
    assert b"".join(encoded(values, mode)) == expected(raw, mode)


@pytest.mark.parametrize("length", [0, 1, 255, 256, 65_535, 65_536, 70_000, 1 << 24])
def test_headers_of_events_are_those_of_the_library(length: int) -> None:
    value = b"x" * length
    data = b"".join(encoded(pyarrow.array([value], pyarrow.binary()), Mode.EVENTS))
    assert data == events.encode(value)


@pytest.mark.parametrize("mode", Mode)
def test_nothing_stands_for_null(mode: Mode) -> None:
    with pytest.raises(ValueError, match="a value is null"):
        list(encoded(pyarrow.array(["a", None]), mode))
