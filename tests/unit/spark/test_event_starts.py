"""Events are found where following them one by one finds them, whatever their content."""

from __future__ import annotations

import random

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone import events
from siltstone.events import HEADER_BYTES, EventDecoder, MalformedEventError
from siltstone.pipelines import event_starts
from siltstone.pipelines.event_starts import EventStarts, find_events

LEAD = b"\0\0\0\0 lead"


def by_steps(data: bytes) -> tuple[list[int], int, bool]:
    """Where the decoder of the package finds events and where it stops; whether that is damage."""
    decoder = EventDecoder()
    starts: list[int] = []
    try:
        starts += [event.offset for event in decoder.feed(data)]
        decoder.feed(b"")
        decoder.finish()
    except MalformedEventError as error:
        return starts, decoder.offset, "no event begins here" in str(error)
    return starts, decoder.offset, False


def check(data: bytes) -> EventStarts:
    buffer = bytearray(LEAD + data + LEAD)
    found = find_events(buffer, len(LEAD), len(LEAD) + len(data))
    starts, end, malformed = by_steps(data)
    assert (found.starts - len(LEAD)).tolist() == starts
    assert (found.end - len(LEAD), found.malformed) == (end, malformed)
    stops = [*starts, end][1:]
    wanted = [stop - start - HEADER_BYTES for start, stop in zip(starts, stops, strict=True)]
    assert found.lengths.tolist() == wanted
    return found


def payloads_of(kind: str, chance: random.Random, count: int) -> list[bytes]:
    sizes = [chance.randint(0, 200) for _ in range(count)]
    match kind:
        case "text":
            return [b"x" * size for size in sizes]
        case "zeros":
            return [bytes(size) for size in sizes]
        case "random":
            return [chance.randbytes(size) for size in sizes]
        case "empty":
            return [b""] * count
        case "of one size":
            return [b"y" * 92] * count
        case "now and then a long one":
            return [b"z" * (size if size != 7 else 9_000) for size in sizes]
        case "events in events":
            inner = [chance.randbytes(size // 8) for size in sizes]
            return [events.encode_many(inner[n : n + 4]) for n in range(0, count, 2)]
    raise AssertionError(kind)


KINDS = [
    "text",
    "zeros",
    "random",
    "empty",
    "of one size",
    "now and then a long one",
    "events in events",
]


@pytest.mark.parametrize("kind", KINDS)
def test_many_events(kind: str) -> None:
    chance = random.Random(kind)
    data = events.encode_many(payloads_of(kind, chance, 4_000))
    check(data)
    for _ in range(12):
        check(data[: chance.randrange(len(data))])


@pytest.mark.parametrize("kind", KINDS)
def test_damage_among_many_events(kind: str) -> None:
    chance = random.Random(kind)
    data = bytearray(events.encode_many(payloads_of(kind, chance, 3_000)))
    starts = by_steps(bytes(data))[0]
    for _ in range(12):
        damaged = bytearray(data)
        place = chance.choice(starts) + chance.randrange(8)
        damaged[place] ^= 1 << chance.randrange(8)
        assert check(bytes(damaged)).malformed


def test_wrong_guesses_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every event contains an event, and the guesses are the inner ones."""
    inner = events.encode(b"i" * 40)
    data = events.encode_many([b"ab" + inner] * 3_000)

    def misled(buffer: bytearray, _: object, begin: int, end: int, size: int) -> numpy.ndarray:
        places = [begin, *range(begin + 10, end - 200, 58 * 7)]
        assert all(buffer[place : place + 8] == inner[:8] for place in places[1:])
        return numpy.array(places, dtype=numpy.int64)

    monkeypatch.setattr(event_starts, "_guess", misled)
    check(data)


@pytest.mark.slow
@given(st.lists(st.binary(max_size=30), max_size=12), st.integers(0, 400))
@settings(max_examples=200)
def test_few_events(payloads: list[bytes], cut: int) -> None:
    check(events.encode_many(payloads)[:cut])


@given(st.binary(max_size=60))
def test_any_bytes(data: bytes) -> None:
    check(data)


@given(st.integers(0, 2**32 - 1))
def test_the_tables_know_every_check(length: int) -> None:
    high, low = event_starts._check_tables()
    assert int(high[length >> 16] ^ low[length & 0xFFFF]) == events.check_of(length)


def test_needed_says_how_much_is_missing() -> None:
    whole = events.encode(b"x" * 100)
    assert check(whole[:50]).needed == 108
    assert check(whole[:5]).needed == 8
    assert check(events.encode(b"a") * 3_000 + whole[:50]).needed == 108
