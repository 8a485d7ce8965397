"""Events written into segments and read back."""

from __future__ import annotations

import pytest

import siltstone
from siltstone import events
from siltstone.events import MalformedEventError, append_events, read_events

PAYLOADS = [b"%d" % number * (number % 40) for number in range(2_000)]


def payloads(segment: siltstone.Segment, offset: int | None = None) -> list[bytes]:
    return [event.payload for event in read_events(segment, offset)]


@pytest.mark.slow
def test_events_of_a_writer_are_read_back(segment: siltstone.Segment) -> None:
    told: list[siltstone.DurableEvents] = []
    with events.Writer(segment, on_durable=told.append) as writer:
        assert [writer.write(payload) for payload in PAYLOADS] == list(range(len(PAYLOADS)))
        assert writer.flush() == len(events.encode_many(PAYLOADS))
        assert writer.written_count == writer.durable_count == len(PAYLOADS)
        assert writer.pending() == []
        assert segment.name in repr(writer)
    assert payloads(segment) == PAYLOADS
    assert told[0].offset == 0
    assert sum(len(batch.lengths) for batch in told) == len(PAYLOADS)


def test_a_read_begins_after_any_event(segment: siltstone.Segment) -> None:
    assert append_events(segment, PAYLOADS) == 0
    found = list(read_events(segment))
    assert payloads(segment, found[700].end) == PAYLOADS[701:]
    assert payloads(segment, found[-1].end) == []
    before = list(read_events(segment, end=found[700].offset + 1))
    assert before == found[:701]


def test_an_event_longer_than_a_read(segment: siltstone.Segment) -> None:
    append_events(segment, [b"a", b"x" * (3 << 20), b"b"])
    segment.flush()
    assert [len(payload) for payload in payloads(segment)] == [1, 3 << 20, 1]


def test_a_truncated_segment_begins_with_its_first_event(segment: siltstone.Segment) -> None:
    append_events(segment, PAYLOADS)
    third = list(read_events(segment))[3]
    segment.truncate(third.offset)
    assert payloads(segment) == PAYLOADS[3:]
    segment.truncate(third.offset + 1)
    with pytest.raises(MalformedEventError, match=f"no event begins here.*{third.offset + 1}"):
        payloads(segment)


def test_a_segment_that_ends_inside_an_event(segment: siltstone.Segment) -> None:
    segment.append(events.encode(b"whole") + events.encode(b"torn")[:-1])
    found = read_events(segment)
    assert next(found).payload == b"whole"
    with pytest.raises(MalformedEventError, match="event is cut off") as caught:
        next(found)
    assert caught.value.segment == segment.name
    assert caught.value.offset == 13


def test_an_append_elsewhere_is_refused(segment: siltstone.Segment) -> None:
    with pytest.raises(siltstone.OffsetError):
        append_events(segment, [b"a"], expected_offset=5)


def test_a_follower_decodes_what_arrives(segment: siltstone.Segment) -> None:
    append_events(segment, PAYLOADS)
    segment.seal()
    decoder = events.EventDecoder(segment=segment.name)
    found = [event.payload for piece in segment.follow() for event in decoder.feed(piece)]
    decoder.finish()
    assert found == PAYLOADS
