"""The offset of a stream in Spark's checkpoint: the example, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.docs.format_page import example
from tests.support.spark.packages import missing_packages

if missing_packages():
    pytest.skip("the Spark set is not installed", allow_module_level=True)

from siltstone.core.errors import CorruptDataError, FormatError
from siltstone.spark.stream_offsets import (
    LastRead,
    StreamPosition,
    lineages_of,
    offset_of,
    positions_of,
    share_bytes,
)

POSITIONS = st.dictionaries(
    st.text(min_size=1, max_size=9),
    st.builds(
        StreamPosition,
        segment_id=st.integers(1, 2**63),
        offset=st.integers(0, 2**63),
        done=st.booleans(),
        first=st.none() | st.integers(0, 2**63),
        last=st.none()
        | st.builds(LastRead, length=st.integers(1, 2**18), sum=st.integers(0, 2**32 - 1)),
    ),
    max_size=5,
)
LINEAGES = st.dictionaries(st.integers(0, 300), st.uuids().map(str), max_size=5)
LINEAGE = "0f8fad5b-d9cb-469f-a165-70867728950e"


def test_the_example() -> None:
    data = example("stream-offset.md")
    last = LastRead(length=7, sum=0x01020304)
    positions = {"a": StreamPosition(segment_id=7, offset=12, first=5, last=last)}
    assert positions_of(json.loads(data)) == positions
    assert lineages_of(json.loads(data)) == {0: LINEAGE}
    assert json.dumps(offset_of(positions, {0: LINEAGE})).encode() == data


@pytest.mark.slow
@given(POSITIONS, LINEAGES)
def test_positions_and_lineages_come_back(
    positions: dict[str, StreamPosition], lineages: dict[int, str]
) -> None:
    text = json.dumps(offset_of(positions, lineages))
    assert positions_of(json.loads(text)) == positions
    assert lineages_of(json.loads(text)) == lineages
    backwards = dict(reversed(positions.items())), dict(reversed(lineages.items()))
    assert json.dumps(offset_of(*backwards)) == text  # Spark compares the text


def test_an_offset_of_before_lineages_were_known_has_none() -> None:
    assert lineages_of({"version": 1, "segments": {}}) == {}


@pytest.mark.parametrize("offset", [{}, {"version": "x"}, {"version": 1, "segments": {"a": 3}}])
def test_what_is_no_offset_is_refused(offset: dict[str, Any]) -> None:
    with pytest.raises(CorruptDataError, match="not one of this source where=checkpoint"):
        positions_of(offset)


@pytest.mark.parametrize("lineages", [3, {"x": LINEAGE}])
def test_what_are_no_lineages_is_refused(lineages: object) -> None:
    with pytest.raises(CorruptDataError, match="not one of this source where=checkpoint"):
        lineages_of({"version": 1, "segments": {}, "lineages": lineages})


def test_a_newer_version_is_refused() -> None:
    with pytest.raises(FormatError, match="unknown version found=2 known=1"):
        positions_of({"version": 2, "segments": {}})


@given(st.dictionaries(st.text(max_size=3), st.integers(1, 500), max_size=8), st.integers(1, 2_000))
def test_bytes_are_shared(backlogs: dict[str, int], budget: int) -> None:
    shares = share_bytes(backlogs, budget)
    assert shares.keys() == backlogs.keys()
    assert all(1 <= shares[name] <= backlogs[name] for name in backlogs)
    # No more than the budget, except one byte each; and all of it if there is that much.
    total = sum(shares.values())
    assert total <= max(budget, len(backlogs))
    assert total >= min(budget, sum(backlogs.values())) - len(backlogs)
    cut = [shares[name] for name in backlogs if shares[name] < backlogs[name]]
    assert not cut or max(cut) - min(cut) <= 1
    assert share_bytes(backlogs, None) == backlogs
