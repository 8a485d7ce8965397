"""Runs of events are cut into similar parts that miss nothing."""

from __future__ import annotations

import numpy
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from siltstone.events import HEADER_BYTES
from siltstone.pipelines.event_runs import EventRun

BEGIN = 7


def run_of(sizes: list[int]) -> EventRun:
    lengths = numpy.array(sizes, dtype=numpy.int64)
    starts = BEGIN + numpy.cumsum(lengths + HEADER_BYTES) - lengths - HEADER_BYTES
    return EventRun(base=0, buffer=bytearray(), starts=starts, lengths=lengths)


@pytest.mark.slow
@given(
    sizes=st.lists(st.integers(0, 50) | st.integers(0, 3_000), min_size=1, max_size=60),
    size_bytes=st.integers(1, 500),
)
@example(sizes=[0], size_bytes=1)
@example(sizes=[3_000, 1, 1], size_bytes=100)
@example(sizes=[1, 1, 3_000], size_bytes=100)
def test_parts_hold_each_event_once_and_are_not_much_too_long(
    sizes: list[int], size_bytes: int
) -> None:
    run = run_of(sizes)
    parts = list(run.parts(size_bytes))
    assert numpy.concatenate([part.starts for part in parts]).tolist() == run.starts.tolist()
    assert numpy.concatenate([part.lengths for part in parts]).tolist() == sizes
    mean = HEADER_BYTES + sum(sizes) / len(sizes)
    for part in parts:
        assert len(part.starts)
        length = int(part.starts[-1] + part.lengths[-1] - part.starts[0])
        assert length <= 1.5 * size_bytes + mean or len(part.starts) == 1


def test_parts_are_alike() -> None:
    run = run_of([92] * 450)  # four and a half times as long as a part
    counts = [len(part.starts) for part in run.parts(10_000)]
    assert len(counts) in (4, 5)
    assert max(counts) - min(counts) <= len(counts)
