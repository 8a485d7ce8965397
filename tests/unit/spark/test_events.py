"""Every event of a segment comes once, for any layout; other bytes are told with their place."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from siltstone import events
from siltstone.events import EventDecoder, MalformedEventError
from siltstone.pipelines import byte_source, event_starts
from siltstone.spark import ranges, rows
from siltstone.spark.columns import arrow_schema
from siltstone.spark.options import BadRecords, Mode, ReadOptions, Split
from siltstone.spark.ranges import RecordRange
from siltstone.spark.rows import RowShape
from tests.support.spark.layouts import LaidOut, options

PAYLOADS = [b"", b"a", b"\0\0\0\0\0", b"line\nline", "žluťoučký".encode(), b"x" * 40, b"", b"end"]
ALL = ("segment", "offset", "value")


def wanted(**others: Any) -> ReadOptions:
    return options(mode=Mode.EVENTS, columns=ALL, **others)


def expected(data: bytes, start: int = 0) -> list[dict[str, Any]]:
    """The rows of ``data`` from ``start`` on, as the package's own decoder finds them."""
    decoder = EventDecoder(start)
    found = decoder.feed(data[start:])
    decoder.finish()
    return [{"segment": "s", "offset": one.offset, "value": one.payload} for one in found]


def read(segment: LaidOut, given: ReadOptions, cores: int = 2) -> list[dict[str, Any]]:
    return [row for part in segment.plan(given, cores) for row in segment.rows(part, given)]


def starts_of(payloads: list[bytes]) -> list[int]:
    return [event.offset for event in EventDecoder().feed(events.encode_many(payloads))]


@pytest.mark.parametrize("chunk_bytes", [1, 3, 8, 25, 1000])
@pytest.mark.parametrize("borders_each", [1, 3, 100])
def test_events_are_those_of_the_decoder(chunk_bytes: int, borders_each: int) -> None:
    data = events.encode_many(PAYLOADS)
    borders = starts_of(PAYLOADS)[::borders_each]
    for tail in (0, 1, 20, 1000):
        flushed = max(0, len(data) - tail)
        cuts = [*range(chunk_bytes, flushed, chunk_bytes), flushed] if flushed else []
        segment = LaidOut(data, cuts, borders=borders)
        for range_bytes in (1, 7, 30, None):
            assert read(segment, wanted(range_bytes=range_bytes)) == expected(data)


@pytest.mark.slow
@given(data=st.data())
@settings(max_examples=120)
def test_any_layout_any_ranges_any_start(data: st.DataObject) -> None:
    payloads = data.draw(st.lists(st.binary(max_size=12) | st.just(bytes(9)), max_size=12))
    text = events.encode_many(payloads)
    starts = [*starts_of(payloads), len(text)]
    flushed = data.draw(st.integers(0, len(text)))
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, flushed)))) | {flushed})
    cuts = [cut for cut in cuts if 0 < cut <= flushed]
    # Some of these are no borders of appends: a flush cut an append there.
    borders = data.draw(st.sets(st.sampled_from(starts) | st.integers(0, len(text))))
    segment = LaidOut(
        text,
        cuts,
        start=data.draw(st.sampled_from(starts)),
        borders=sorted(borders),
        foreign=data.draw(st.booleans()),
    )
    begin = data.draw(st.sampled_from([at for at in starts if at >= segment.start]))
    stop = data.draw(st.integers(begin, len(text)))
    given = wanted(
        start=begin,
        stop=stop,
        range_bytes=data.draw(st.integers(1, 60) | st.none()),
        split=data.draw(st.sampled_from(Split)),
        bad_records=data.draw(st.sampled_from([BadRecords.FAIL, BadRecords.SKIP])),
    )
    found = read(segment, given)
    assert found == [row for row in expected(text, begin) if row["offset"] < stop]


def test_ranges_begin_where_appends_do() -> None:
    data = events.encode_many([b"x" * 12] * 20)
    segment = LaidOut(data, [400], borders=[20, 100, 205, 240, 380])
    parts = segment.plan(wanted(range_bytes=60))
    # No event begins at 205, so no append of whole events can have begun there.
    assert [(part.start, part.stop, part.joined) for part in parts] == [
        (0, 100, True),
        (100, 240, True),
        (240, 380, True),
        (380, 400, False),
    ]
    assert len(segment.plan(wanted(range_bytes=60, split=Split.NONE))) == 1


def test_events_that_do_not_meet_are_told_and_never_given() -> None:
    """An append border inside an event of events: the guess of the plan is wrong."""
    inner = events.encode_many([b"abc"] * 6)
    data = events.encode_many([b"first", inner, b"last"])
    inside = 13 + 8 + 11
    segment = LaidOut(data, [len(data)], borders=[inside])
    given = wanted(range_bytes=5)
    first, second = segment.plan(given)
    assert (first.stop, second.start) == (inside, inside)
    with pytest.raises(MalformedEventError, match="read it with the option split=none") as caught:
        segment.rows(first, given)
    assert caught.value.offset == 13 + 8 + len(inner)
    assert read(segment, wanted(split=Split.NONE)) == expected(data)


def damaged(payloads: list[bytes], *numbers: int) -> bytes:
    data = bytearray(events.encode_many(payloads))
    for number in numbers:
        data[starts_of(payloads)[number] + 3] ^= 1
    return bytes(data)


def test_a_malformed_event_fails_and_is_named() -> None:
    data = damaged(PAYLOADS, 3)
    segment = LaidOut(data, [len(data)])
    with pytest.raises(MalformedEventError, match="no event begins here where=segment s") as caught:
        read(segment, wanted())
    assert (caught.value.segment, caught.value.offset) == ("s", starts_of(PAYLOADS)[3])


@pytest.mark.parametrize("range_bytes", [1, 40, None])
def test_a_tolerant_read_continues_where_the_next_append_begins(range_bytes: int | None) -> None:
    payloads = [b"%d" % number for number in range(40)]
    starts = starts_of(payloads)
    data = damaged(payloads, 7, 8, 21)
    segment = LaidOut(data, [len(data)], borders=starts[::5])
    found = read(segment, wanted(range_bytes=range_bytes, bad_records=BadRecords.SKIP))
    left = [*range(7), *range(10, 21), *range(25, 40)]
    assert [row["value"] for row in found] == [payloads[number] for number in left]
    assert [row["offset"] for row in found] == [starts[number] for number in left]


def test_a_tolerant_read_may_tell_of_what_it_passes_over() -> None:
    payloads = [b"%d" % number for number in range(10)]
    starts = starts_of(payloads)
    data = damaged(payloads, 2)
    segment = LaidOut(data, [len(data)], borders=[starts[5]])
    columns = ("value", "offset", "error")
    given = options(mode=Mode.EVENTS, bad_records=BadRecords.COLUMN, columns=columns)
    found = read(segment, given)
    (bad,) = [row for row in found if row["error"] is not None]
    passed = starts[5] - starts[2]
    assert bad == {
        "value": None,
        "offset": starts[2],
        "error": f"no event begins here: segment s offset {starts[2]}, {passed} bytes passed over",
    }
    assert [row["value"] for row in found] == [b"0", b"1", None, *payloads[5:]]


def test_a_segment_that_ends_inside_an_event() -> None:
    data = events.encode_many([b"a", b"b" * 30])[:-1]
    segment = LaidOut(data, [12, len(data)])
    with pytest.raises(MalformedEventError, match="event is cut off") as caught:
        read(segment, wanted())
    assert caught.value.offset == 9
    found = read(segment, wanted(bad_records=BadRecords.SKIP))
    assert [row["value"] for row in found] == [b"a"]


def test_a_read_that_begins_inside_an_event_is_told() -> None:
    segment = LaidOut(events.encode_many([b"abc"] * 5), [40])
    with pytest.raises(MalformedEventError):
        read(segment, wanted(start=3))


def test_an_older_length() -> None:
    data = events.encode_many(PAYLOADS)
    starts = starts_of(PAYLOADS)
    segment = LaidOut(data, [50, len(data)])
    found = read(segment, wanted(at_length={"s": starts[4]}))
    assert found == expected(data[: starts[4]])
    with pytest.raises(MalformedEventError, match="cut off"):
        read(segment, wanted(at_length={"s": starts[4] - 1}))


def test_one_giant_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "RANGE_BYTES_MIN", 1 << 18)
    payloads = [b"a", bytes(9 << 20), b"b"]
    data = events.encode_many(payloads)
    segment = LaidOut(data, [1 << 20, 5 << 20, len(data) - 4])
    for chosen in (wanted(), wanted(range_bytes=1 << 20)):
        assert [len(row["value"]) for row in read(segment, chosen)] == [1, 9 << 20, 1]


@pytest.mark.slow
def test_small_events_in_large_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reads are as in a task, so many events are followed at a time."""
    followed: list[int] = []
    plain = event_starts._follow_many

    def counted(*arguments: Any) -> event_starts.EventStarts:
        followed.append(1)
        return plain(*arguments)

    monkeypatch.setattr(event_starts, "_follow_many", counted)
    monkeypatch.setattr(rows, "EVENT_READ_BYTES", 1 << 18)
    monkeypatch.setattr(byte_source, "READ_BYTES", 1 << 18)
    payloads = [b"%d" % number * (number % 40) for number in range(12_000)]
    data = events.encode_many(payloads)
    segment = LaidOut(data, [300_000, 700_001, len(data) - 50_000], borders=starts_of(payloads))
    for chosen in (wanted(), wanted(range_bytes=400_000)):
        assert read(segment, chosen) == expected(data)
    assert len(followed) > 5


@pytest.mark.slow
def test_batches_are_small_where_reads_are_large() -> None:
    payloads = [b"x" * (200 + number % 9) for number in range(12_000)]
    data = events.encode_many([*payloads, bytes(3 << 20), *payloads])
    segment = LaidOut(data, [len(data)])
    assert read(segment, wanted()) == expected(data)  # ``rows`` looks at the size of each


def test_every_range_proves_the_next_one() -> None:
    payloads = [b"x" * (number % 7) for number in range(60)]
    data = events.encode_many(payloads)
    segment = LaidOut(data, [len(data)], borders=starts_of(payloads))
    parts = segment.plan(wanted(range_bytes=70))
    assert len(parts) > 5
    assert [part.joined for part in parts] == [True] * (len(parts) - 1) + [False]
    for before, following in pairwise(parts):
        assert before.stop == following.start


def test_a_text_of_events_may_be_a_string() -> None:
    data = events.encode_many(["žluťoučký".encode(), b"kun"])
    segment = LaidOut(data, [5, len(data)])
    chosen = options(mode=Mode.EVENTS)
    parts: list[RecordRange] = segment.plan(chosen)
    schema = StructType().add("value", "string")
    assert [row["value"] for row in segment.rows(parts[0], chosen, schema)] == ["žluťoučký", "kun"]


@pytest.mark.slow
@given(st.lists(st.binary(max_size=9), max_size=9), st.integers(1, 60))
@settings(max_examples=60)
def test_a_string_holds_the_bytes_of_any_event(payloads: list[bytes], range_bytes: int) -> None:
    """Whatever its bytes are: as with lines, UTF-8 is not checked."""
    data = events.encode_many(payloads)
    segment = LaidOut(data, [len(data)] if data else [], borders=starts_of(payloads))
    chosen = options(mode=Mode.EVENTS, range_bytes=range_bytes)
    schema = arrow_schema(chosen, StructType().add("value", "string"))
    shape = RowShape(options=chosen, schema=schema)
    found = [
        value
        for part in segment.plan(chosen)
        for batch in shape.read(segment.storage, part, segment.window)
        for value in batch.column(0).view("binary").to_pylist()
    ]
    assert found == payloads


def test_only_offsets() -> None:
    data = events.encode_many(PAYLOADS)
    segment = LaidOut(data, [len(data)])
    found = read(segment, options(mode=Mode.EVENTS, columns=("offset",)))
    assert [row["offset"] for row in found] == starts_of(PAYLOADS)
