"""Events: encoded events come back however they are cut, and other bytes are never accepted."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone import events
from siltstone.core.checksums import crc32c
from siltstone.events import Event, EventDecoder, MalformedEventError
from tests.support.docs.format_page import example

PAYLOADS = st.lists(st.binary(max_size=40) | st.binary(min_size=300, max_size=400), max_size=20)


def decode(data: bytes) -> list[bytes]:
    decoder = EventDecoder()
    found = [event.payload for event in decoder.feed(data)]
    decoder.finish()
    return found


def test_the_example() -> None:
    data = example("events.md")
    assert decode(data) == [b"hello", b""]
    assert events.encode_many([b"hello", b""]) == data


def test_the_header_is_what_the_page_says() -> None:
    length = struct.pack(">I", 70_000)
    assert (
        events.encode(b"x" * 70_000) == length + struct.pack(">I", crc32c(length)) + b"x" * 70_000
    )


@pytest.mark.slow
@given(PAYLOADS, st.data())
def test_events_come_back_from_any_pieces(payloads: list[bytes], data: st.DataObject) -> None:
    stream = events.encode_many(payloads)
    assert stream == b"".join(map(events.encode, payloads))
    cuts = sorted({0, len(stream), *data.draw(st.lists(st.integers(0, len(stream)), max_size=9))})
    decoder = EventDecoder(1_000)
    found = [event for begin, end in pairwise(cuts) for event in decoder.feed(stream[begin:end])]
    decoder.finish()
    wanted, offset = [], 1_000
    for payload in payloads:
        wanted.append(Event(offset, payload))
        offset += events.HEADER_BYTES + len(payload)
    assert found == wanted
    assert decoder.offset == offset


@pytest.mark.slow
@given(PAYLOADS.filter(bool), st.data())
def test_a_damaged_header_ends_it_where_it_stands(
    payloads: list[bytes], data: st.DataObject
) -> None:
    number = data.draw(st.integers(0, len(payloads) - 1))
    before = events.encode_many(payloads[:number])
    stream = bytearray(events.encode_many(payloads))
    bit = data.draw(st.integers(0, 63))
    stream[len(before) + bit // 8] ^= 1 << bit % 8
    decoder = EventDecoder(7, segment="s")
    found: list[Event] = []

    def feed_all() -> None:
        for begin in range(0, len(stream), 50):
            found.extend(decoder.feed(bytes(stream[begin : begin + 50])))
        decoder.finish()

    with pytest.raises(MalformedEventError, match="no event begins here where=segment s") as caught:
        feed_all()
    assert [event.payload for event in found] == payloads[:number]
    assert (caught.value.segment, caught.value.offset) == ("s", 7 + len(before))


def test_bytes_that_are_no_whole_event_are_told_at_the_end() -> None:
    decoder = EventDecoder()
    decoder.feed(events.encode(b"abc")[:-1])
    with pytest.raises(
        MalformedEventError, match="cut off where=bytes offset=0 bytes=10 needed=11"
    ):
        decoder.finish()


@pytest.mark.parametrize("data", [bytes(8), b"\xff" * 8, b"hello, world", b"\0\0\0\x05hello"])
def test_what_is_no_header_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedEventError):
        EventDecoder().feed(data)


def test_an_event_beyond_the_limit_is_refused_both_ways() -> None:
    length = events.EVENT_BYTES_MAX + 1
    with pytest.raises(ValueError, match="between 0 and 1073741824 bytes"):
        events.header(length)
    with pytest.raises(MalformedEventError):
        EventDecoder().feed(struct.pack(">II", length, events.check_of(length)))
    assert EventDecoder().feed(events.header(events.EVENT_BYTES_MAX)) == []


def test_items_of_a_view_are_counted_as_bytes() -> None:
    view = memoryview(b"abcdefgh").cast("I")
    assert decode(events.encode(view)) == [b"abcdefgh"]
    assert decode(events.encode_many([view])) == [b"abcdefgh"]


def test_a_long_event_in_many_pieces_is_joined_once() -> None:
    stream = events.encode(b"x" * (4 << 20))
    decoder = EventDecoder()
    for begin in range(0, len(stream) - 1024, 1024):
        assert decoder.feed(stream[begin : begin + 1024]) == []
    rest = decoder.feed(stream[-1024:] if len(stream) % 1024 == 0 else stream[begin + 1024 :])
    assert [len(event.payload) for event in rest] == [4 << 20]
