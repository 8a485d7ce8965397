"""What value compaction makes of one record, seen from what a rebuild would find later."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest

from siltstone.objects.compaction_plan import (
    CompactionView,
    CopiedRange,
    PlannedSegment,
    cut_plan,
)
from siltstone.objects.records.footer import HeaderNote
from siltstone.objects.records.head import Head
from siltstone.objects.records.keys import ObjectKey
from siltstone.objects.records.large_place import LargePlace
from siltstone.objects.records.space_rows import ManifestRow, Strategy, ValueStatus
from siltstone.objects.records.value_record import (
    RecordHeader,
    ValueKind,
    decode_header,
    encode_header,
)

TAGS = {"o": Strategy.RECOVR, "x": Strategy.RETAIN}


def header(kind: ValueKind, *, sqn: int = 50, tag: bytes = b"o", ends: int = 0) -> RecordHeader:
    stored = 5 if kind is ValueKind.STANDARD else 0
    key = ObjectKey(tag, b"b", b"k")
    return RecordHeader(kind, sqn, 7, 1_000, stored, bytes(8), ends, key, (), b"", stored)


def segment(first: int, last: int, *, as_of: int = 0) -> ManifestRow:
    sealed = ValueStatus.SEALED
    return ManifestRow(number=first, status=sealed, first_sqn=first, last_sqn=last, as_of=as_of)


@pytest.mark.parametrize(
    ("other", "stays"),
    [
        (segment(1, 20), True),
        (segment(51, 60), False),
        (segment(1, 20, as_of=49), True),
        (segment(1, 20, as_of=50), False),
        (segment(1, 20, as_of=90), False),
    ],
)
@pytest.mark.parametrize("ends", [0, 2_000_000_000])
def test_what_ended_an_object_stays_while_an_older_record_may_be_there(
    other: ManifestRow, ends: int, *, stays: bool
) -> None:
    """The end is a tombstone, or a record whose head was removed when it expired."""
    kind = ValueKind.STANDARD if ends else ValueKind.TOMBSTONE
    after = CompactionView(tags=TAGS, others=(other,)).fate(header(kind, ends=ends), None)
    assert (after is not None) == stays
    assert after is None or (after.kind, after.sqn) == (ValueKind.TOMBSTONE, 50)


def test_a_tag_that_retains_never_has_a_delta_as_its_newest_record() -> None:
    view = CompactionView(tags=TAGS, others=())
    ended = view.fate(header(ValueKind.STANDARD, tag=b"x", ends=2_000_000_000), None)
    assert ended is not None
    assert ended.kind is ValueKind.TOMBSTONE
    tombstone = header(ValueKind.TOMBSTONE, tag=b"x")
    assert view.fate(tombstone, None) == tombstone


def test_a_large_value_is_copied_with_its_place_or_loses_it() -> None:
    place = LargePlace(7, 2**20, 0)
    large = header(ValueKind.STANDARD, tag=b"x")._replace(stored=0, size=2**33, large=place)
    view = CompactionView(tags=TAGS, others=())
    head = Head(50, 7, 1, 0, large.record_length, 2**33, bytes(8), 1_000, 0, (), b"", place)
    assert view.fate(large, head) == large
    for after in (view.fate(large, head._replace(sqn=51, large=None)), view.fate(large, None)):
        assert after is not None
        assert (after.kind, after.stored, after.large) == (ValueKind.KEY_DELTA, 0, None)
        assert decode_header(encode_header(after), where="x") == after


def plan_of(*lengths: int) -> PlannedSegment:
    """Records of one segment with gaps of a byte after every third; a negative one is a header."""
    planned, offset = PlannedSegment(), 0
    for sqn, length in enumerate(lengths):
        note = HeaderNote(b"raw%d" % sqn, sqn, 0, abs(length))
        part = bytes(-length) if length < 0 else CopiedRange(7, offset, offset + length)
        planned.take(part, note)
        offset += abs(length) + (sqn % 3 == 2)
    return planned


def test_parts_of_a_plan_have_its_records_in_order_and_are_no_longer_than_asked() -> None:
    planned = plan_of(10, 20, 30, -5, 40, 100, 7, -6, -4, 9, 9, 9)
    for size in range(1, 260):
        cut = list(cut_plan(planned, size))
        joined = PlannedSegment()
        for part in cut:
            assert part.length == sum(note.record_length for note in part.notes)
            assert part.length <= size or len(part.notes) == 1
            for each, note in zip(single(part), part.notes, strict=True):
                joined.take(each, note)
        assert joined == planned
        for one, other in pairwise(cut):
            assert one.length + other.notes[0].record_length > size


def single(planned: PlannedSegment) -> Iterator[CopiedRange | bytes]:
    """The part of each record."""
    notes = iter(planned.notes)
    for part in planned.parts:
        if isinstance(part, bytes):
            next(notes)
            yield part
            continue
        position = part.start
        while position < part.end:
            position += (length := next(notes).record_length)
            yield CopiedRange(part.number, position - length, position)


def test_a_plan_of_nothing_has_no_parts() -> None:
    assert list(cut_plan(PlannedSegment(), 10)) == []
