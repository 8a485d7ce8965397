"""Parts of objects, and records of them, as Hypothesis draws them; and bytes that are damaged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypothesis import strategies as st

from siltstone.objects.records.footer import HeaderNote, note_of
from siltstone.objects.records.head import Head
from siltstone.objects.records.keys import IndexEntry, ObjectKey
from siltstone.objects.records.large_place import LargePlace
from siltstone.objects.records.value_record import (
    RecordHeader,
    ValueKind,
    decode_header,
    encode_header,
    encode_value_sum,
)

U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
PARTS = st.binary(max_size=6) | st.text(alphabet="\0\x01\xff", max_size=4).map(
    lambda text: text.encode("latin-1")
)
"""Half of them of the bytes that keys of rows escape."""

KEYS = st.builds(ObjectKey, PARTS, PARTS, PARTS, PARTS)
ENTRIES = st.lists(st.builds(IndexEntry, PARTS, PARTS), max_size=4).map(tuple)

PLACES = st.none() | st.builds(LargePlace, U64, st.integers(1, 2**32 - 1), U32)
"""Of large values, for half of the objects."""

HEADS = st.builds(
    Head,
    sqn=U64,
    previous=U64,
    number=U32,
    offset=U64,
    length=U32,
    size=U64,
    value_hash=st.binary(min_size=8, max_size=8),
    modified_ms=U64,
    expires_s=U32,
    entries=ENTRIES,
    metadata=st.binary(max_size=40),
    large=PLACES,
)


@st.composite
def records(draw: st.DrawFn) -> tuple[RecordHeader, bytes]:
    """A header, and the value of the record."""
    kind = draw(st.sampled_from(ValueKind))
    large = draw(PLACES) if kind is ValueKind.STANDARD else None
    has_value = kind is ValueKind.STANDARD and large is None
    value = draw(st.binary(max_size=40)) if has_value else b""
    header = RecordHeader(
        kind=kind,
        sqn=draw(U64),
        previous=draw(U64),
        modified_ms=draw(U64),
        size=len(value) if has_value else draw(U64),
        value_hash=draw(st.binary(min_size=8, max_size=8)),
        expires_s=draw(U32),
        key=draw(KEYS),
        entries=draw(ENTRIES),
        metadata=draw(st.binary(max_size=40)),
        stored=len(value),
        large=large,
    )
    return header, value


def standard(sqn: int, value: bytes, *, name: bytes = b"k", metadata: bytes = b"") -> RecordHeader:
    """The header of a plain put."""
    return RecordHeader(
        kind=ValueKind.STANDARD,
        sqn=sqn,
        previous=sqn - 1,
        modified_ms=1_700_000_000_000 + sqn,
        size=len(value),
        value_hash=bytes(range(8)),
        expires_s=0,
        key=ObjectKey(b"o", b"bucket", name),
        entries=(IndexEntry(b"city", b"oslo"), IndexEntry(b"day", b"2026-01-02")),
        metadata=metadata,
        stored=len(value),
    )


def encoded(header: RecordHeader, value: bytes) -> bytes:
    """The whole record."""
    raw = encode_header(header)
    return raw + value + encode_value_sum(value) if header.has_value else raw


def notes(headers: Sequence[RecordHeader]) -> list[HeaderNote]:
    """What a footer takes of these records."""
    raws = [encode_header(header) for header in headers]
    return [note_of(raw, decode_header(raw, where="x")) for raw in raws]


def flipped(data: bytes) -> Iterator[bytes]:
    """``data`` with each of its bits changed, one at a time."""
    for place in range(len(data)):
        for bit in range(8):
            yield data[:place] + bytes((data[place] ^ 1 << bit,)) + data[place + 1 :]


def cuts(data: bytes) -> Iterator[bytes]:
    """Each beginning of ``data`` but all of it."""
    for length in range(len(data)):
        yield data[:length]
