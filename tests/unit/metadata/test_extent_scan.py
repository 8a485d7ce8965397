"""Pages of the extents of all segments: in order, from one place on, and only extents."""

from __future__ import annotations

import pytest

from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent
from siltstone.core.records.layout import Layout
from siltstone.metadata import changes
from siltstone.metadata.extent_scan import scan_extents
from siltstone.metadata.tables import Tables

PLACES = [(3, 0), (3, 10), (3, 2**40), (4, 0), (2**40, 0), (2**40, 70)]
"""Segments and starts, in order."""


def extent(segment_id: int, start: int) -> Extent:
    return Extent(segment_id=segment_id, start=start, chunk_id=9, chunk_offset=5, length=10)


EXTENTS = [extent(*place) for place in PLACES]


@pytest.fixture
def filled(tables: Tables) -> Tables:
    entries = [changes.put_extent(found) for found in reversed(EXTENTS)]
    chunk = Chunk(chunk_id=9, name="c", epoch=7, length=99)
    entries += [changes.put_chunk(chunk), changes.put_layout(Layout(segment_id=3))]
    tables.acknowledge([tables.assign(entries)], 0)
    return tables


@pytest.mark.parametrize("limit", [1, 2, 5, 6, 99])
def test_pages_follow_each_other(filled: Tables, limit: int) -> None:
    found: list[Extent] = []
    segment_id, start = 0, 0
    while page := scan_extents(filled, segment_id, start, limit):
        assert len(page) <= limit
        found += page
        segment_id, start = page[-1].segment_id, page[-1].start + 1
    assert found == EXTENTS


@pytest.mark.parametrize(
    ("segment_id", "start", "first"),
    [(0, 0, 0), (3, 0, 0), (3, 1, 1), (3, 10, 1), (3, 11, 2), (4, 0, 3), (4, 1, 4), (5, 0, 4)],
)
def test_a_page_begins_where_it_is_asked_for(
    filled: Tables, segment_id: int, start: int, first: int
) -> None:
    assert scan_extents(filled, segment_id, start, 99) == EXTENTS[first:]


def test_nothing_is_found_after_the_last_extent(filled: Tables) -> None:
    assert scan_extents(filled, 2**40, 71, 99) == []
    assert scan_extents(filled, 2**40 + 1, 0, 99) == []


def test_what_is_only_assigned_is_left_out(filled: Tables) -> None:
    filled.assign([changes.put_extent(extent(3, 20)), changes.remove_extent(EXTENTS[0])])
    assert scan_extents(filled, 0, 0, 99) == EXTENTS
