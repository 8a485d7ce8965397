"""What value compaction makes of one record, seen from what a rebuild would find later."""

from __future__ import annotations

import pytest

from siltstone.objects.compaction_plan import CompactionView
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
