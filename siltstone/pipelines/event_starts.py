"""Finding where events begin in a buffer, without a step of Python for each of them.

A chain of events can only be followed from its beginning. Here many places are guessed to be
headers, and followed all at once; then each piece of the chain has to end exactly where the next
one was guessed to begin, or it is followed step by step. So a guess makes it fast, never wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy

from siltstone.events import EVENT_BYTES_MAX, HEADER_BYTES, check_of

Numbers = Any
"""A numpy array of int64: numpy says of its arrays only that they are arrays."""

GUESSED_EVENT_BYTES_MAX: Final = 1_024
"""A buffer holds so few larger events that following them one by one is as fast."""

SAMPLE: Final = 32
BUFFER_BYTES_MIN: Final = 1 << 16

TURN_STEPS: Final = 8
"""Steps of all chains between two checks for those that have ended."""
NOWHERE: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class EventStarts:
    """The whole events in a part of a buffer.

    Attributes:
        starts: index of the header of each, ascending: int64[n].
        lengths: bytes of each payload: int64[n].
        end: index after the last whole one.
        malformed: there is no header at ``end``, though there is room for one.
        needed: bytes from ``end`` on that the event there has, if its header is whole.
    """

    starts: Numbers
    lengths: Numbers
    end: int
    malformed: bool = False
    needed: int = HEADER_BYTES


@cache
def _check_tables() -> tuple[Numbers, Numbers]:
    """The check of a length as ``high[length >> 16] ^ low[length & 0xFFFF]``: a CRC is linear."""
    zero = check_of(0)

    def of_byte(place: int) -> Numbers:
        values = [check_of(byte << 8 * place) ^ zero for byte in range(256)]
        return numpy.array(values, dtype=numpy.uint32)

    # ``check_of`` is remembered for each length, and these are none that occur.
    high = (of_byte(3)[:, None] ^ of_byte(2)[None, :]).reshape(-1)
    low = (of_byte(1)[:, None] ^ of_byte(0)[None, :]).reshape(-1) ^ numpy.uint32(zero)
    return high, low


def _words(buffer: bytearray) -> Numbers:
    """The big-endian number at every index of a buffer."""
    return numpy.ndarray((max(0, len(buffer) - 3),), ">u4", buffer, 0, (1,))


def _have_checks(words: Numbers, starts: Numbers, lengths: Numbers) -> Numbers:
    """Which of the headers at ``starts``, that state ``lengths``, have the check of these."""
    high, low = _check_tables()
    checks = words[starts + 4]
    if len(lengths) and lengths.max() > 0xFFFF:
        known = high[lengths >> 16] ^ low[lengths & 0xFFFF]
        return (checks == known) & (lengths <= EVENT_BYTES_MAX)
    return checks == low[lengths]


def find_events(buffer: bytearray, begin: int, end: int) -> EventStarts:
    """Find the whole events in ``[begin, end)`` of a buffer; one begins at ``begin``."""
    sample = _follow(buffer, begin, end, SAMPLE)
    count = len(sample.starts)
    if count < SAMPLE or end - sample.end < BUFFER_BYTES_MIN:
        return _joined(sample, _follow(buffer, sample.end, end)) if count == SAMPLE else sample
    size = (sample.end - begin) // count
    if size > GUESSED_EVENT_BYTES_MAX:
        return _joined(sample, _follow(buffer, sample.end, end))
    return _follow_many(buffer, begin, end, max(16, size))


def _follow(buffer: bytearray, begin: int, end: int, count: int | None = None) -> EventStarts:
    """Follow the chain step by step, ``count`` steps at most."""
    starts: list[int] = []
    lengths: list[int] = []
    position, malformed, needed = begin, False, HEADER_BYTES
    while end - position >= HEADER_BYTES and len(starts) != count:
        length = int.from_bytes(buffer[position : position + 4])
        check = int.from_bytes(buffer[position + 4 : position + 8])
        if length > EVENT_BYTES_MAX or check != check_of(length):
            malformed = True
            break
        behind = position + HEADER_BYTES + length
        if behind > end:
            needed += length
            break
        starts.append(position)
        lengths.append(length)
        position = behind
    return EventStarts(
        numpy.array(starts, dtype=numpy.int64),
        numpy.array(lengths, dtype=numpy.int64),
        position,
        malformed,
        needed,
    )


def _joined(first: EventStarts, rest: EventStarts) -> EventStarts:
    return EventStarts(
        numpy.concatenate((first.starts, rest.starts)),
        numpy.concatenate((first.lengths, rest.lengths)),
        rest.end,
        rest.malformed,
        rest.needed,
    )


def _guess(buffer: bytearray, words: Numbers, begin: int, end: int, size: int) -> Numbers:
    """Places that look like headers, one in some 60 events; ``begin`` is the first."""
    step = min(max(60 * size, 2_048), 32_768)
    width = min(2 * size, step)
    # As many as fit, so that no piece is much longer than the others: all take a turn for each
    # step of the longest. Every window and its headers lie below ``end``.
    rows = (end - begin - width - HEADER_BYTES) // step
    if rows <= 0:
        return numpy.array([begin], dtype=numpy.int64)
    windows = numpy.ndarray((rows, width), numpy.uint8, buffer, begin + step, (step, 1))
    # Lengths below 16 MiB begin with a zero: few places of a text do.
    found = numpy.flatnonzero(windows == 0)
    row = found // width
    places = begin + step + row * step + (found - row * width)
    good = _have_checks(words, places, words[places].astype(numpy.int64))
    places, row = places[good], row[good]
    first = numpy.ones(len(row), dtype=bool)
    first[1:] = row[1:] != row[:-1]
    return numpy.concatenate(([begin], places[first]))


def _follow_many(buffer: bytearray, begin: int, end: int, size: int) -> EventStarts:
    words = _words(buffer)
    guesses = _guess(buffer, words, begin, end, size)
    limits = numpy.append(guesses[1:], end - HEADER_BYTES + 1)
    table = _walk(words, guesses, limits)
    inside = table < limits[:, None]
    ends = table[numpy.arange(len(table)), numpy.count_nonzero(inside, axis=1)]
    wrong = numpy.flatnonzero(ends[:-1] != guesses[1:])
    sure = len(guesses) if not len(wrong) else int(wrong[0]) + 1
    found = _checked(words, table[:sure][inside[:sure]], int(ends[sure - 1]), end)
    if sure == len(guesses) or found.malformed or found.needed > HEADER_BYTES:
        return found
    return _joined(found, _follow(buffer, found.end, end))


def _walk(words: Numbers, begins: Numbers, limits: Numbers) -> Numbers:
    """Follow some chains at once, and give a row of places for each, ascending.

    One of them is no less than the chain's limit; what stands after that one means nothing.
    """
    last = len(words) - 1
    which, at, until = numpy.arange(len(begins)), begins, limits
    turns: list[tuple[Numbers, Numbers]] = []
    while len(which):
        turn = numpy.empty((TURN_STEPS, len(which)), dtype=numpy.int64)
        for here in turn:
            numpy.add(at, words[numpy.minimum(at, last)], out=here)
            here += HEADER_BYTES
            at = here
        turns.append((which, turn))
        inside = at < until
        # Chains that have ended stay until they are the half: that costs less than removing them
        # each time.
        if 2 * numpy.count_nonzero(inside) <= len(which):
            which, at, until = (one.compress(inside) for one in (which, at, until))
    table = numpy.full((len(begins), 1 + len(turns) * TURN_STEPS), NOWHERE, dtype=numpy.int64)
    table[:, 0] = begins
    for number, (rows, turn) in enumerate(turns):
        columns = slice(1 + number * TURN_STEPS, 1 + (number + 1) * TURN_STEPS)
        if len(rows) == len(begins):
            table[:, columns] = turn.T
        else:
            table[rows, columns] = turn.T
    return table


def _checked(words: Numbers, starts: Numbers, behind: int, end: int) -> EventStarts:
    """Keep what is before the first place that is no header, or whose event is not whole.

    The lengths that are stated lead from each of ``starts`` to the next, and to ``behind``.
    """
    lengths = numpy.empty_like(starts)
    numpy.subtract(starts[1:], starts[:-1] + HEADER_BYTES, out=lengths[:-1])
    lengths[-1] = behind - int(starts[-1]) - HEADER_BYTES
    good = _have_checks(words, starts, lengths)
    if not good.all():
        bad = int(numpy.flatnonzero(~good)[0])
        return EventStarts(starts[:bad], lengths[:bad], int(starts[bad]), malformed=True)
    if behind > end:
        last = int(starts[-1])
        return EventStarts(starts[:-1], lengths[:-1], last, needed=behind - last)
    return EventStarts(starts, lengths, behind)
