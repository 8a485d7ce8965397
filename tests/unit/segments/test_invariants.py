"""Each invariant holds for right rows, and is named for wrong ones."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from siltstone.core.chunk_storage import ChunkStat
from siltstone.core.errors import CorruptDataError
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent
from siltstone.core.records.layout import Layout
from siltstone.segments import invariants

NAME = "data/c0/e00000000000000000001/s/0-1"


def chunk(length: int = 10, **fields: object) -> Chunk:
    values = {"chunk_id": 1, "name": NAME, "epoch": 1, "length": length} | fields
    return Chunk(**values)  # type: ignore[arg-type]


def extent(start: int, length: int = 10, chunk_id: int = 1, segment_id: int = 1) -> Extent:
    return Extent(
        segment_id=segment_id, start=start, chunk_id=chunk_id, chunk_offset=0, length=length
    )


LAYOUT = Layout(segment_id=1, storage_start=5, storage_length=25, last_chunk_id=1)


def stat(length: int) -> ChunkStat:
    return ChunkStat(name=NAME, length=length, version="")


@pytest.mark.parametrize(
    "check",
    [
        lambda: invariants.check_growth(chunk(), chunk(11, closed=True)),
        lambda: invariants.check_chunk(chunk(), stat(10)),
        lambda: invariants.check_epoch(chunk()),
        lambda: invariants.check_epoch(chunk(adopted=True, epoch=0, name="any")),
        lambda: invariants.check_layout(LAYOUT, [extent(5), extent(15)]),
        lambda: invariants.check_layout(Layout(segment_id=1), []),
        lambda: invariants.check_last_chunk(LAYOUT, [extent(15)], chunk()),
        lambda: invariants.check_last_chunk(Layout(segment_id=1), [], None),
        lambda: invariants.check_sums(chunk(), [1]),
        lambda: invariants.check_names([chunk(), chunk(name="b")]),
        lambda: invariants.check_references(
            {1: chunk(references=2), 2: chunk(references=0)}, [extent(0), extent(10)]
        ),
    ],
    ids=itertools.count(),
)
def test_what_is_right(check: Callable[[], None]) -> None:
    check()


@pytest.mark.parametrize(
    ("number", "check"),
    [
        ("I1", lambda: invariants.check_growth(chunk(), chunk(9))),
        ("I1", lambda: invariants.check_growth(chunk(), chunk(name="b"))),
        ("I1", lambda: invariants.check_growth(chunk(), chunk(epoch=2))),
        ("I1", lambda: invariants.check_growth(chunk(closed=True), chunk(11, closed=True))),
        ("I1", lambda: invariants.check_growth(chunk(closed=True), chunk())),
        ("I2", lambda: invariants.check_chunk(chunk(), stat(9))),
        ("I3", lambda: invariants.check_epoch(chunk(epoch=2))),
        ("I3", lambda: invariants.check_epoch(chunk(adopted=True))),
        ("I6", lambda: invariants.check_layout(LAYOUT, [extent(5), extent(16)])),
        ("I6", lambda: invariants.check_layout(LAYOUT, [extent(5), extent(14)])),
        ("I6", lambda: invariants.check_layout(LAYOUT, [extent(5)])),
        ("I6", lambda: invariants.check_layout(LAYOUT, [extent(15)])),
        ("I6", lambda: invariants.check_layout(LAYOUT, [])),
        ("I6", lambda: invariants.check_layout(LAYOUT, [extent(5), extent(15, segment_id=2)])),
        ("I6", lambda: invariants.check_layout(LAYOUT, [extent(5, 20), extent(25, 0)])),
        ("I6", lambda: invariants.check_last_chunk(LAYOUT, [extent(15)], None)),
        ("I6", lambda: invariants.check_last_chunk(LAYOUT, [extent(15)], chunk(closed=True))),
        ("I6", lambda: invariants.check_last_chunk(LAYOUT, [extent(15)], chunk(11))),
        ("I6", lambda: invariants.check_last_chunk(LAYOUT, [extent(15, chunk_id=2)], chunk())),
        ("I6", lambda: invariants.check_last_chunk(LAYOUT, [], chunk())),
        ("I14", lambda: invariants.check_sums(chunk(), [])),
        ("I14", lambda: invariants.check_sums(chunk(), [1, 2])),
        ("I16", lambda: invariants.check_names([chunk(), chunk(chunk_id=2)])),
        ("I17", lambda: invariants.check_references({}, [extent(0)])),
        ("I17", lambda: invariants.check_references({1: chunk()}, [])),
        ("I17", lambda: invariants.check_references({1: chunk()}, [extent(0), extent(10)])),
        ("I2", lambda: invariants.check_references({1: chunk()}, [extent(0, 11)])),
    ],
    ids=itertools.count(),
)
def test_what_is_wrong(number: str, check: Callable[[], None]) -> None:
    with pytest.raises(CorruptDataError, match=f"^{number}: "):
        check()
