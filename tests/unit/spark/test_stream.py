"""A stream gives every record once and whole, whatever happens between its batches.

Without Spark: these tests make the calls of Spark to a stream reader, with everything that travels
pickled and every offset written as JSON; a new reader in between stands for a restart.
"""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

import siltstone
from siltstone import events
from siltstone.core.errors import (
    OffsetError,
    SegmentNotFoundError,
    SegmentTruncatedError,
)
from siltstone.events import MalformedEventError
from siltstone.pipelines import open_store
from siltstone.spark import record_ends
from siltstone.spark.stream_options import parse_stream_options
from siltstone.store.store_assembly import assembled
from tests.support.spark.layouts import expected_lines
from tests.support.spark.stream import Stream


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store")
    settings = siltstone.init(path, containers=2)
    with settings.open("a", encoding="utf-8") as file:
        file.write("\nsegments:\n  chunk_size: 64\nflush:\n  age: 1h\n")
    return path


@pytest.fixture(scope="module")
def store(folder: Path) -> Iterator[siltstone.Store]:
    with siltstone.open(folder) as opened:
        yield opened


Make = Callable[..., Stream]


@pytest.fixture
def make(folder: Path, store: siltstone.Store) -> Iterator[Make]:
    """Make streams, and close them at the end."""
    made: list[Stream] = []

    def stream(**options: object) -> Stream:
        made.append(Stream(folder, **options))
        return made[-1]

    yield stream
    for one in made:
        one.reader.stop()
        one.reader.stop()


@pytest.fixture
def segment(store: siltstone.Store, request: pytest.FixtureRequest) -> siltstone.Segment:
    return store.create(f"{request.node.name}/a")


# --- records --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_line_waits_for_its_newline(make: Make, segment: siltstone.Segment) -> None:
    stream = make(segment=segment.name)
    assert stream.values() == []
    segment.append(b"a\nb\nc")
    assert stream.values() == ["a", "b"]
    assert stream.values() == []
    segment.flush()
    segment.append(b"cc\r\n" + "žl".encode()[:3])
    assert stream.values() == ["ccc\r"]
    segment.append("žl".encode()[3:] + b"\nrest")
    assert stream.values() == ["žl"]
    segment.seal()
    assert stream.values() == ["rest"]
    assert stream.offset["segments"][segment.name]["done"]
    assert stream.values() == []


def test_a_line_longer_than_a_look(
    make: Make, segment: siltstone.Segment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_ends, "LOOK_BYTES", 4)
    monkeypatch.setattr(record_ends, "READ_BYTES", 8)
    stream = make(segment=segment.name, maxBytesPerTrigger=5)
    segment.append(b"x" * 100)
    assert stream.values() == []
    segment.append(b"\nab\n" + b"y" * 30 + b"\nc")
    assert [len(row["value"]) for row in stream.drain()] == [100, 2, 30]


@pytest.mark.slow
def test_an_event_waits_for_its_end(make: Make, segment: siltstone.Segment) -> None:
    data = events.encode_many([b"one", b"two" * 20, b"three"])
    stream = make(segment=segment.name, mode="events")
    for end in range(1, len(data) + 1):
        segment.append(data[end - 1 : end])
        found = stream.values()
        if found:
            assert end in (11, 79, len(data))
    assert stream.drain() == []
    stream.restart()
    assert stream.drain() == []


def test_a_block_waits_until_it_is_full(make: Make, segment: siltstone.Segment) -> None:
    stream = make(segment=segment.name, mode="bytes", block_bytes=10)
    segment.append(b"0123456789" * 2 + b"abc")
    assert stream.values() == [b"0123456789"] * 2
    assert stream.values() == []
    segment.append(b"defghijkl")
    assert stream.values() == [b"abcdefghij"]
    segment.seal()
    assert stream.values() == [b"kl"]


def test_a_malformed_event_fails_in_its_task(make: Make, segment: siltstone.Segment) -> None:
    segment.append(events.encode_many([b"a", b"b"]))
    stream = make(segment=segment.name, mode="events")
    assert stream.values() == [b"a", b"b"]
    segment.append(b"no event at all")
    with pytest.raises(MalformedEventError, match=f"segment {segment.name} offset=18"):
        stream.batch()
    stream.restart(badRecords="column", columns="segment,offset,value,error")
    segment.append(events.encode(b"c"))
    found = [(row["value"], row["offset"]) for row in stream.drain()]
    assert found == [(None, 18), (b"c", 33)]
    segment.append(events.encode(b"d"))
    assert stream.values() == [b"d"]


@pytest.mark.slow
@pytest.mark.parametrize("bad", ["fail", "skip", "column"])
def test_events_that_hold_events_are_whole_or_the_batch_fails(
    make: Make, segment: siltstone.Segment, bad: str
) -> None:
    inner = [b"in%d" % number for number in range(12)]
    payloads = [b"first", events.encode_many(inner), b"last"]
    data = events.encode_many(payloads)
    # An append ends inside the second event, at the end of one of the events in it.
    cut = data.index(events.encode(inner[2]))
    for part in (data[:cut], data[cut:]):
        segment.append(part)
        segment.flush()
    options = {"segment": segment.name, "mode": "events", "badRecords": bad}
    with pytest.raises(MalformedEventError, match=r"not end where an append.* option split=none"):
        make(**options, maxBytesPerTrigger=60).drain()
    for more in ({}, {"maxBytesPerTrigger": 60, "split": "none"}):
        assert [row["value"] for row in make(**options, **more).drain()] == payloads


@pytest.mark.parametrize("limit", [20, 25, 10_000])
def test_after_something_malformed_no_batch_begins_inside_an_append(
    make: Make, segment: siltstone.Segment, limit: int
) -> None:
    """With any limit; a batch read skips the whole append, too."""
    segment.append(b"no event, of 20 byte" + events.encode_many([b"inner", b"of it", b"more"]))
    stream = make(segment=segment.name, mode="events", badRecords="skip", maxBytesPerTrigger=limit)
    assert stream.values() == []
    segment.append(events.encode_many([b"good", b"as well"]))
    assert [row["value"] for row in stream.drain()] == [b"good", b"as well"]


# --- limits ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_batches_join_to_what_was_appended(
    make: Make, store: siltstone.Store, segment: siltstone.Segment, seed: int
) -> None:
    """With any appends, flushes, limits, restarts: each segment's records come once, in order."""
    chance = random.Random(seed)
    mode = ["lines", "events", "bytes"][seed % 3]
    folder = segment.name.rpartition("/")[0]
    limits: dict[str, object] = {}
    if chance.random() < 0.7:
        limits["maxBytesPerTrigger"] = chance.randint(1, 300)
    if chance.random() < 0.7:
        limits["maxRowsPerTrigger"] = chance.randint(1, 9)
    if mode == "bytes":
        limits["block_bytes"] = chance.randint(1, 40)
    stream = make(prefix=folder + "/", mode=mode, range_bytes=chance.randint(1, 200), **limits)
    segments, written = [segment], {segment.name: b""}
    found: dict[str, list[Any]] = {}
    for _ in range(25):
        one = chance.choice(segments)
        size = chance.randint(0, 60)
        piece = chance.randbytes(size).replace(b"a", b"\n").replace(b"b", b"\n")
        if mode == "events":
            piece = events.encode_many([piece[:9], piece[9:]])
        elif mode == "lines":
            piece = piece.decode("latin-1").encode()
        one.append(piece)
        written[one.name] += piece
        if chance.random() < 0.3:
            one.flush()
        if chance.random() < 0.1:
            segments.append(store.create(f"{folder}/{len(segments)}"))
            written[segments[-1].name] = b""
        if chance.random() < 0.2:
            stream.restart()
        if chance.random() < 0.5:
            for row in stream.batch():
                found.setdefault(row["segment"], []).append(row["value"])
    for one in segments:
        one.seal()
    for row in stream.drain():
        found.setdefault(row["segment"], []).append(row["value"])
    for name, data in written.items():
        assert found.get(name, []) == _expected(mode, data, stream.options), name


def _expected(mode: str, data: bytes, options: dict[str, str]) -> list[Any]:
    if mode == "lines":
        return [line.decode() for line in expected_lines(data)]
    if mode == "events":
        return [event.payload for event in events.EventDecoder().feed(data)]
    size = int(options["block_bytes"])
    return [data[at : at + size] for at in range(0, len(data), size)]


def test_a_limit_on_rows_is_kept(make: Make, segment: siltstone.Segment) -> None:
    segment.append(b"".join(b"%d\n" % number for number in range(25)))
    stream = make(segment=segment.name, maxRowsPerTrigger=10)
    assert [len(stream.batch()) for _ in range(4)] == [10, 10, 5, 0]


@pytest.mark.slow
def test_a_limit_on_bytes_is_kept_and_shared(
    make: Make, store: siltstone.Store, segment: siltstone.Segment
) -> None:
    other = store.create(segment.name + "b")
    segment.append(b"0123456\n" * 100)
    other.append(b"0123456\n" * 3)
    stream = make(prefix=segment.name, maxBytesPerTrigger=80)
    counts = []
    while rows := stream.batch():
        counts.append((len(rows), len({row["segment"] for row in rows})))
    # The small one has less than its share, and the other one gets the rest.
    assert counts[0] == (10, 2)
    assert set(counts[1:-1]) == {(10, 1)}
    assert sum(count for count, _ in counts) == 103


@pytest.mark.slow
def test_a_limit_on_rows_starves_no_segment(
    make: Make, store: siltstone.Store, segment: siltstone.Segment
) -> None:
    other = store.create(segment.name + "b")
    for one in (segment, other):
        one.append(b"x\n" * 100)
    stream = make(prefix=segment.name, maxRowsPerTrigger=5)
    assert {row["segment"] for _ in range(2) for row in stream.batch()} == {
        segment.name,
        other.name,
    }


def test_everything_that_is_available_is_without_limit(
    make: Make, segment: siltstone.Segment
) -> None:
    segment.append(b"x\n" * 100)
    stream = make(segment=segment.name, maxRowsPerTrigger=5, maxBytesPerTrigger=7)
    end = stream.reader.latestOffset(stream.offset, ReadAllAvailable())
    assert len(stream.rows_between(stream.offset, end)) == 100


@pytest.mark.slow
def test_available_now_ends_where_the_segments_ended_then(
    make: Make, store: siltstone.Store, segment: siltstone.Segment
) -> None:
    segment.append(b"x\n" * 20 + b"begun")
    stream = make(prefix=segment.name, maxRowsPerTrigger=7)
    stream.reader.prepareForTriggerAvailableNow()
    segment.append(b" and ended\nmore\n")
    store.create(segment.name + "later").append(b"later\n")
    assert [row["value"] for row in stream.drain()] == ["x"] * 20
    stream.restart()
    stream.reader.prepareForTriggerAvailableNow()
    assert [row["value"] for row in stream.drain()] == ["begun and ended", "more", "later"]


# --- where it begins ------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_latest_offset_is_after_the_last_whole_record(
    make: Make, store: siltstone.Store, segment: siltstone.Segment
) -> None:
    segment.append(b"old\nbeg")
    stream = make(prefix=segment.name, startingOffsets="latest")
    segment.append(b"un\nnew\n")
    store.create(segment.name + "later").append(b"later\n")
    assert stream.values() == ["begun", "new", "later"]


@pytest.mark.slow
def test_offsets_may_be_named(
    make: Make, store: siltstone.Store, segment: siltstone.Segment
) -> None:
    other = store.create(segment.name + "b")
    for one in (segment, other):
        one.append(b"ab\ncd\nef\n")
    chosen = json.dumps({segment.name: 4})
    stream = make(prefix=segment.name, startingOffsets=chosen)
    assert stream.values() == ["ef", "ab", "cd", "ef"]
    with pytest.raises(OffsetError, match="'startingOffsets' lies beyond the length"):
        make(segment=segment.name, startingOffsets=json.dumps({segment.name: 10}))
    with pytest.raises(siltstone.SettingsError, match="names 'nobody', which is not read"):
        make(prefix=segment.name, startingOffsets=json.dumps({segment.name: 4, "nobody": 4}))
    segment.truncate(5)
    with pytest.raises(SegmentTruncatedError):
        make(segment=segment.name, startingOffsets=chosen)


def test_a_truncated_segment_begins_with_what_is_left(
    make: Make, segment: siltstone.Segment
) -> None:
    segment.append(b"first\nsecond\n")
    segment.truncate(2)
    assert make(segment=segment.name).values() == ["rst", "second"]


@pytest.mark.slow
def test_a_segment_that_is_not_there(make: Make, segment: siltstone.Segment) -> None:
    with pytest.raises(SegmentNotFoundError, match="no such segment"):
        make(segments=json.dumps([segment.name, "nobody"]))
    assert make(prefix="nobody").drain() == []


# --- what is gone ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_bytes_truncated_before_they_were_read(make: Make, segment: siltstone.Segment) -> None:
    segment.append(b"a\nb\nc\nd\n")
    stream = make(segment=segment.name, maxRowsPerTrigger=1)
    assert stream.values() == ["a"]
    segment.truncate(2)
    assert stream.values() == ["b"]  # what was truncated had been read
    segment.truncate(6)
    with pytest.raises(SegmentTruncatedError, match="offset=4 start_offset=6") as caught:
        stream.batch()
    assert "onTruncation=skip" in str(caught.value.__notes__)
    stream.restart(onTruncation="skip")
    assert stream.values() == ["d"]


@pytest.mark.slow
def test_bytes_truncated_between_the_plan_and_a_restart(
    make: Make, segment: siltstone.Segment
) -> None:
    segment.append(b"a\nb\nc\nd\n")
    stream = make(segment=segment.name)
    start, end = stream.plan()
    segment.truncate(4)
    stream.restart()
    with pytest.raises(SegmentTruncatedError):
        stream.rows_between(start, end)
    stream.restart(onTruncation="skip")
    assert [row["value"] for row in stream.rows_between(start, end)] == ["c", "d"]


@pytest.mark.slow
@pytest.mark.parametrize("where", ["earliest", "latest"])
def test_the_first_batch_has_the_same_rows_when_it_is_planned_again(
    make: Make, segment: siltstone.Segment, where: str
) -> None:
    segment.append(b"a\nb\n")
    stream = make(segment=segment.name, startingOffsets=where)
    segment.append(b"c\nd\n")
    start, end = stream.plan()
    before = stream.rows_between(start, end)
    assert [row["value"] for row in before][-2:] == ["c", "d"]
    segment.append(b"e\n")
    stream.restart()
    assert stream.rows_between(stream.first_again(), end) == before
    stream.offset = end
    assert stream.values() == ["e"]


@pytest.mark.slow
def test_bytes_of_a_first_batch_truncated_before_it_is_planned_again(
    make: Make, store: siltstone.Store, segment: siltstone.Segment
) -> None:
    segment.append(b"a\nb\nc\n")
    stream = make(prefix=segment.name)
    _, end = stream.plan()
    later = store.create(segment.name + "later")
    later.append(b"d\ne\n")
    stream.offset = end
    _, second = stream.plan()
    for one in (segment, later):
        one.truncate(2)
    stream.restart()
    for begin, until in ((stream.first_again(), end), (end, second)):
        with pytest.raises(SegmentTruncatedError, match="offset=0 start_offset=2"):
            stream.rows_between(begin, until)
    stream.restart(onTruncation="skip")
    assert [row["value"] for row in stream.rows_between(stream.first_again(), end)] == ["b", "c"]
    assert [row["value"] for row in stream.rows_between(end, second)] == ["e"]


@pytest.mark.slow
def test_a_checkpoint_that_tells_no_beginning_continues(
    make: Make, segment: siltstone.Segment
) -> None:
    segment.append(b"a\nb\n")
    stream = make(segment=segment.name, maxRowsPerTrigger=1)
    assert stream.values() == ["a"]
    del stream.offset["segments"][segment.name]["first"]
    stream.restart()
    assert stream.values() == ["b"]
    assert "first" not in stream.offset["segments"][segment.name]
    assert stream.drain() == []


@pytest.mark.slow
def test_a_segment_deleted_before_it_was_read(
    make: Make, store: siltstone.Store, segment: siltstone.Segment
) -> None:
    segment.append(b"a\nb\n")
    stream = make(prefix=segment.name, maxRowsPerTrigger=1)
    assert stream.values() == ["a"]
    start, end = stream.plan()
    segment.delete()
    for ask in (stream.batch, lambda: stream.rows_between(start, end)):
        with pytest.raises(SegmentNotFoundError, match="had not read all of it"):
            ask()
    stream.restart(onTruncation="skip")
    assert stream.rows_between(start, end) == []
    store.create(segment.name).append(b"again\n")
    assert stream.values() == ["again"]


@pytest.mark.slow
def test_options_that_leave_out_a_segment_of_the_checkpoint_are_told(
    make: Make, store: siltstone.Store, segment: siltstone.Segment
) -> None:
    segment.append(b"a\nb\n")
    other = store.create(segment.name + "b")
    other.append(b"c\n")
    stream = make(segment=segment.name, maxRowsPerTrigger=1)
    assert stream.values() == ["a"]
    start, end = stream.plan()
    del stream.options["segment"]
    stream.restart(prefix=other.name)
    for ask in (stream.batch, lambda: stream.rows_between(start, end)):
        with pytest.raises(SegmentNotFoundError, match="options leave out the segment, and the st"):
            ask()
    stream.restart(onTruncation="skip")
    assert stream.values() == ["c"]


@pytest.mark.slow
def test_a_sealed_segment_that_was_read_may_go(
    make: Make, store: siltstone.Store, segment: siltstone.Segment
) -> None:
    segment.append(b"a\nb")
    segment.seal()
    stream = make(prefix=segment.name)
    assert stream.values() == ["a", "b"]
    segment.delete()
    assert stream.values() == []
    assert stream.offset["segments"] == {}
    store.create(segment.name).append(b"again\n")
    assert stream.values() == ["again"]


def test_a_store_that_lost_what_was_read(make: Make, segment: siltstone.Segment) -> None:
    segment.append(b"a\nb\n")
    stream = make(segment=segment.name)
    stream.batch()
    stream.offset["segments"][segment.name]["offset"] = 99
    with pytest.raises(OffsetError, match="shorter than what the stream has read"):
        stream.batch()


# --- restarts -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_batch_is_the_same_when_it_is_planned_again(
    make: Make, store: siltstone.Store, segment: siltstone.Segment
) -> None:
    for number in range(20):
        segment.append(b"line %d\n" % number * 3 + b"begun")
    stream = make(segment=segment.name, maxBytesPerTrigger=150)
    stream.batch()
    start, end = stream.plan()
    rows = stream.rows_between(start, end)
    assert rows
    segment.append(b"more\n")
    assert stream.rows_between(start, end) == rows
    segment.flush()
    stream.restart(range_bytes=7)
    assert stream.rows_between(start, end) == rows
    source = store.create(segment.name + "-source")
    source.append(b"joined\n")
    source.seal()
    segment.concat(source)
    store.flush()
    stream.restart()
    assert stream.rows_between(start, end) == rows


def test_what_travels_holds_no_store(make: Make, segment: siltstone.Segment) -> None:
    segment.append(b"a\n")
    stream = make(segment=segment.name)
    stream.batch()
    assert stream.reader._made is not None
    copy = pickle.loads(pickle.dumps(stream.reader))
    assert copy._made is None
    assert len(pickle.dumps(stream.reader)) < 3_000


@pytest.mark.slow
def test_the_store_is_opened_once(
    make: Make, segment: siltstone.Segment, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[object] = []
    plain = assembled

    def counted(*given: Any) -> Any:
        opened.append(given)
        return plain(*given)

    monkeypatch.setattr(open_store, "assembled", counted)
    stream = make(segment=segment.name)
    for number in range(5):
        segment.append(b"%d\n" % number)
        assert len(stream.batch()) == 1
    assert len(opened) == 1


def test_options_of_a_stream() -> None:
    needed = {"store": "/s", "segment": "a"}
    for given, message in (
        ({"from": "1"}, "option 'from' is for batches; a stream has 'startingOffsets'"),
        ({"startingOffsets": "now"}, "'startingOffsets' is earliest, latest, or an object"),
        ({"startingOffsets": '{"b": 1}'}, "'startingOffsets' names 'b', which is not read"),
        ({"onTruncation": "ignore"}, "option 'onTruncation' is fail or skip, not 'ignore'"),
        ({"maxBytesPerTrigger": "0"}, "'maxBytesPerTrigger' must be between 1 and"),
        ({"maxRowsPerTrigger": "x"}, "'maxRowsPerTrigger' is a whole number of rows"),
        ({"triggers": "x"}, "unknown option: 'triggers'; known are store.*startingOffsets"),
    ):
        with pytest.raises(siltstone.SettingsError, match=message):
            parse_stream_options({**needed, **given})
    found = parse_stream_options({**needed, "startingOffsets": " Latest ", "onTruncation": "SKIP"})
    assert replace(found, read=found.read) == found
