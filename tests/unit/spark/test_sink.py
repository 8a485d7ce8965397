"""Writes by the classes that Spark calls: exactly once, whatever Spark repeats or gives up."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    MapType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

import siltstone
from siltstone.spark.data_source import SegmentSource
from siltstone.spark.sink import SegmentStreamWriter
from tests.support.soak import shared
from tests.support.spark.sink_world import KEYED, SCHEMA, Sink, new_sink, sent

ROUNDS = 20
SOAK_ROUNDS = 400


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[Sink]:
    with new_sink(tmp_path) as made:
        yield made


def rows(chance: Random, label: str) -> list[str]:
    return [f"{label}-{number}" for number in range(chance.randrange(8))]


def play_batch(sink: Sink, chance: Random, label: str) -> list[str]:
    """A job with repeated, losing and dead attempts; return what it has to append."""
    writer = sink.planned()
    wanted, messages = [], []
    for partition in range(chance.randrange(1, 4)):
        mine = rows(chance, f"{label}.{partition}")
        attempts = [sink.task(writer, partition, mine) for _ in range(chance.randrange(1, 3))]
        messages.append(chance.choice(attempts))
        wanted += mine
    fate = chance.choice(["commit", "commit", "abort", "repeat", "abort after", "shuffled"])
    if fate == "abort":
        sent(writer).abort([*messages[1:], None])
        return []
    if fate == "shuffled":
        chance.shuffle(messages)
    sent(writer).commit(messages)
    if fate == "repeat":
        sent(writer).commit(messages)
    if fate == "abort after":
        sent(writer).abort(messages)
    return wanted


def play_batches(sink: Sink, chance: Random, rounds: int) -> None:
    expected = []
    for number in range(rounds):
        expected += play_batch(sink, chance, str(number))
    assert sink.content() == expected
    assert sink.left() == [], "orphans were removed"


@pytest.mark.slow
def test_batches_are_written_once(sink: Sink) -> None:
    with sink.held_open():
        play_batches(sink, Random(1), ROUNDS)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_many_batches_are_written_once(sink: Sink) -> None:
    play_batches(sink, Random(2), len(shared(range(SOAK_ROUNDS))))


def play_stream(sink: Sink, chance: Random, rounds: int) -> None:
    """Batches of two streams; each may fail, be aborted or replayed, before and after its end."""
    expected = []
    numbers = {"q1": 0, "q2": 0}
    for label in range(rounds):
        query = chance.choice(sorted(numbers))
        number = numbers[query]
        mine = [[f"{label}.{part}.{n}" for n in range(chance.randrange(1, 4))] for part in "ab"]
        fates = chance.choices(["fails", "crashes", "aborts", "replays"], k=chance.randrange(3))
        for fate in [*fates, "ends"]:
            # Spark plans again each time, and ends the batch with a fresh writer.
            writer = sent(sink.ending())
            messages = [
                sink.task(writer, part, some, query=query) for part, some in enumerate(mine)
            ]
            if fate == "fails":
                sink.ending().abort([None, messages[1]], number)
                continue
            sink.ending().commit(messages, number)
            if fate == "aborts":
                sink.ending().abort(messages, number)
            if fate == "replays":
                sink.ending().commit(messages, number)
        expected += [row for part in mine for row in part]
        numbers[query] += 1
    assert sink.content() == expected
    assert sink.left() == []


@pytest.mark.slow
def test_batches_of_streams_are_written_once(sink: Sink) -> None:
    with sink.held_open():
        play_stream(sink, Random(3), ROUNDS)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_many_batches_of_streams_are_written_once(sink: Sink) -> None:
    play_stream(sink, Random(4), len(shared(range(SOAK_ROUNDS))))


@pytest.mark.slow
def test_a_copy_of_a_checkpoint_is_told_and_no_batch_is_passed_over(sink: Sink) -> None:
    def batch(number: int, row: str, segment: str = "s") -> None:
        writer = sent(sink.ending(segment=segment))
        message = sink.task(writer, 0, [row], query="q")
        sink.ending(segment=segment).commit([message], number)

    batch(0, "a")
    batch(1, "b")
    batch(1, "b")  # planned again, as by Spark after a crash
    for number, segment in ((0, "s"), (1, "other"), (0, "other")):
        told = f"with a new checkpoint .*batch={number} segment={segment} newest_batch=1"
        with pytest.raises(siltstone.ImportSessionError, match=told):
            batch(number, "new", segment)
    batch(2, "c", "other")
    assert sink.content() == ["a", "b"]
    assert sink.content("other") == ["c"]
    assert sink.left() == []


@pytest.mark.slow
@pytest.mark.parametrize("took_place", [True, False])
def test_an_end_of_unknown_outcome_is_asked_again(
    sink: Sink, monkeypatch: pytest.MonkeyPatch, took_place: bool
) -> None:
    plain, calls = siltstone.Store.commit_import, []

    def lost(store: siltstone.Store, *given: Any, **more: Any) -> object:
        calls.append(store)
        if took_place or len(calls) > 1:
            result = plain(store, *given, **more)
        if len(calls) == 1:
            raise siltstone.OutcomeUnknownError("the log failed")
        return result

    monkeypatch.setattr(siltstone.Store, "commit_import", lost)
    writer = sink.planned()
    writer.commit([sink.task(writer, 0, ["row"])])
    assert sink.content() == ["row"]
    assert len(calls) == len(set(map(id, calls))) == 2


@pytest.mark.parametrize(
    ("error", "count"), [(siltstone.OutcomeUnknownError, 2), (siltstone.StoreError, 1)]
)
def test_an_end_that_fails_is_told_as_it_is(
    sink: Sink, monkeypatch: pytest.MonkeyPatch, error: type[Exception], count: int
) -> None:
    calls = []

    def failing(store: siltstone.Store, *_: Any, **__: Any) -> object:
        calls.append(store)
        raise error("as it is")

    writer = sink.planned()
    message = sink.task(writer, 0, ["row"])
    monkeypatch.setattr(siltstone.Store, "commit_import", failing)
    with pytest.raises(error, match="as it is"):
        writer.commit([message])
    assert len(calls) == count


@pytest.mark.slow
def test_a_store_that_does_not_close_after_the_end_fails_no_job(
    sink: Sink, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    writer = sink.planned()
    message = sink.task(writer, 0, ["row"])
    plain = siltstone.Store.close

    def failing(store: siltstone.Store) -> None:
        plain(store)
        raise siltstone.LogError("the log failed")

    with monkeypatch.context() as patch:
        patch.setattr(siltstone.Store, "close", failing)
        writer.commit([message])
    assert "what was written is there" in caplog.text
    assert sink.content() == ["row"]


def end_and_die(writer: Any, ending: tuple[Any, ...], delay_s: float) -> None:
    """End a write, and die after this many seconds, or after the end, before Spark notes it."""
    if delay_s >= 0:
        threading.Timer(delay_s, os.kill, (os.getpid(), signal.SIGKILL)).start()
    writer.commit(*ending)
    os.kill(os.getpid(), signal.SIGKILL)


def killed(writer: object, ending: tuple[object, ...], delay_s: float) -> None:
    """End a write in a process that is killed meanwhile."""
    drivers = multiprocessing.get_context("forkserver")
    # Imports take longer than the end of a write.
    drivers.set_forkserver_preload([__name__])
    driver = drivers.Process(target=end_and_die, args=(writer, ending, delay_s))
    driver.start()
    driver.join(120)
    assert driver.exitcode == -signal.SIGKILL


def play_killed(sink: Sink, delays: Iterable[float]) -> None:
    expected = []
    for number, delay in enumerate(delays):
        row = f"stream {number}"
        writer = sent(sink.ending())
        message = sink.task(writer, 0, [row], query="q")
        killed(writer, ([message], number), delay)
        replayed = sink.task(sent(sink.ending()), 0, [row], query="q")
        sink.ending().commit([replayed], number)
        expected.append(row)
        batch = sink.planned()
        message = sink.task(batch, 0, [f"batch {number}"])
        killed(batch, ([message],), delay)
        # The end of the same job is repeated, in whatever state it was left.
        sent(batch).commit([message])
        expected.append(f"batch {number}")
    assert sink.content() == expected


def instants(chance: Random, rounds: int) -> Iterator[float]:
    """When drivers die, in seconds; every fourth one after the end of its write."""
    return (-1.0 if number % 4 == 0 else chance.uniform(0, 0.5) for number in range(rounds))


@pytest.mark.slow
def test_drivers_that_are_killed_write_once(sink: Sink) -> None:
    play_killed(sink, instants(Random(5), ROUNDS))


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_many_drivers_that_are_killed_write_once(sink: Sink) -> None:
    play_killed(sink, instants(Random(6), len(shared(range(100)))))


@pytest.mark.slow
def test_an_overwrite_puts_the_new_content_in_place_of_the_old(sink: Sink) -> None:
    first = sink.planned()
    first.commit([sink.task(first, 0, ["old", "older"])])
    second = sink.planned(overwrite=True)
    messages = [sink.task(second, part, [f"new {part}"]) for part in (0, 1)]
    assert sink.content() == ["old", "older"], "until the end"
    second.commit(messages[::-1])
    assert sink.content() == ["new 0", "new 1"], "in the order of the partitions"
    second.commit(messages)
    nothing = sink.planned(overwrite=True)
    nothing.commit([])
    assert sink.content() == []


def appended(sink: Sink, segment: str, row: str) -> None:
    with siltstone.open(sink.folder) as store:
        store.create(segment, exist_ok=True).append(row.encode() + b"\n")


@pytest.mark.slow
@pytest.mark.parametrize("held", [["old"], []], ids=["old", "none"])
def test_an_overwrite_takes_no_bytes_away_that_came_while_it_ran(
    sink: Sink, held: list[str]
) -> None:
    for row in held:
        appended(sink, "s", row)
    job = sink.planned(overwrite=True)
    message = sink.task(job, 0, ["new"])
    appended(sink, "s", "acknowledged")
    with pytest.raises(siltstone.ConditionFailedError, match="appended to"):
        job.commit([message])
    job.abort([message])
    assert sink.content() == [*held, "acknowledged"]
    again = sink.planned(overwrite=True)
    again.commit([sink.task(again, 0, ["new"])])
    assert sink.content() == ["new"]


@pytest.mark.slow
def test_an_overwrite_does_not_replace_what_took_the_name_while_it_ran(sink: Sink) -> None:
    appended(sink, "s", "one")
    first, second = sink.planned(overwrite=True), sink.planned(overwrite=True)
    second.commit([sink.task(second, 0, ["two"])])
    with pytest.raises(siltstone.ConditionFailedError, match="made again"):
        first.commit([sink.task(first, 0, ["six"])])
    assert sink.content() == ["two"]
    third = sink.planned(overwrite=True)
    with siltstone.open(sink.folder) as store:
        store.segment("s").delete()
    third.commit([sink.task(third, 0, ["three"])])
    assert sink.content() == ["three"], "a deleted segment has no bytes to lose"


@pytest.mark.slow
def test_an_overwrite_of_keys_looks_at_those_that_it_replaces(sink: Sink) -> None:
    for key in "ab":
        appended(sink, f"keys/{key}", "old")
    job = sink.planned(overwrite=True, key="k", segment="keys")
    messages = [sink.task(job, 0, ["new"], keys=["a"])]
    appended(sink, "keys/b", "acknowledged")
    job.commit(messages)
    job = sink.planned(overwrite=True, key="k", segment="keys")
    messages = [sink.task(job, 0, ["newer", "newer"], keys=["a", "c"])]
    appended(sink, "keys/c", "acknowledged")
    with pytest.raises(siltstone.ConditionFailedError, match="keys/c"):
        job.commit(messages)
    assert [sink.content(f"keys/{key}") for key in "abc"] == [
        ["new"],
        ["old", "acknowledged"],
        ["acknowledged"],
    ]


@pytest.mark.slow
def test_a_batch_of_a_complete_stream_takes_no_bytes_away_that_came_while_it_ran(
    sink: Sink,
) -> None:
    def planned() -> SegmentStreamWriter:
        return sent(sink.ending(overwrite=True))

    for number in range(2):
        messages = [sink.task(planned(), 0, [f"batch {number}"], query="q")]
        sink.ending(overwrite=True).commit(messages, number)
        assert sink.content() == [f"batch {number}"]
    messages = [sink.task(planned(), 0, ["batch 2"], query="q")]
    appended(sink, "s", "acknowledged")
    with pytest.raises(siltstone.ConditionFailedError):
        sink.ending(overwrite=True).commit(messages, 2)
    assert sink.content() == ["batch 1", "acknowledged"]


@pytest.mark.slow
def test_each_partition_or_key_gets_a_segment_of_its_own(sink: Sink) -> None:
    parts = sink.planned(outputs="partition", segment="parts")
    parts.commit([sink.task(parts, number, [f"row {number}"]) for number in (0, 2)])
    assert sink.content("parts/00000") == ["row 0"]
    assert sink.content("parts/00002") == ["row 2"]
    for expected in (1, 2):
        keyed = sink.planned(key="k", segment="keys")
        messages = [
            sink.task(keyed, 0, ["1", "2", "3", "4"], keys=["a", "b", "a", "c/d"]),
            sink.task(keyed, 1, ["5"], keys=["a"]),
        ]
        keyed.commit(messages)
        assert sink.content("keys/a") == ["1", "3", "5"] * expected
    assert sink.content("keys/b") == ["2", "2"]
    assert sink.content("keys/c/d") == ["4", "4"]
    assert sink.left() == []


@pytest.mark.parametrize(
    "kind", [ArrayType(LongType()), StructType(), MapType(LongType(), LongType()), VariantType()]
)
def test_a_key_without_a_text_is_refused_before_any_task_runs(sink: Sink, kind: DataType) -> None:
    schema = StructType([*SCHEMA, StructField("k", kind)])
    with pytest.raises(siltstone.SettingsError, match=r"key column 'k' is .* has no text"):
        SegmentSource(sink.options(key="k")).writer(schema, overwrite=False)


@pytest.mark.parametrize(
    "kind", [BinaryType(), BooleanType(), DateType(), DecimalType(), DoubleType(), TimestampType()]
)
def test_keys_of_simple_types_are_taken(sink: Sink, kind: DataType) -> None:
    schema = StructType([*SCHEMA, StructField("k", kind)])
    SegmentSource(sink.options(key="k")).writer(schema, overwrite=False)


@pytest.mark.slow
def test_several_segments_must_share_a_container(tmp_path: Path) -> None:
    with new_sink(tmp_path, containers=3) as sink:
        with pytest.raises(siltstone.SettingsError, match=r"such as '\{keys\}'"):
            sink.planned(key="k", segment="keys")
        keyed = sink.planned(key="k", segment="{keys}")
        keyed.commit([sink.task(keyed, 0, ["1", "2", "3"], keys=["a", "b", "c"])])
        assert sink.content("{keys}/b") == ["2"]


@pytest.mark.slow
def test_a_live_owner_is_named_before_any_task_runs(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("siltstone.spark.sink.PLAN_WAIT_S", 0.2)
    monkeypatch.setattr("siltstone.spark.sink.END_WAIT_S", 0.2)
    writer = sink.planned()
    message = sink.task(writer, 0, ["row"])
    with siltstone.open(sink.folder) as store:
        with pytest.raises(siltstone.StoreInUseError, match=f"pid={os.getpid()}"):
            sink.planned()
        with pytest.raises(pickle.PicklingError, match="StoreInUseError"):
            sent(sink.ending())
        with pytest.raises(siltstone.StoreInUseError):
            writer.commit([message])
        sink.task(writer, 1, ["tasks need no claim"])
        assert [*store.list()] == []
    writer.commit([message])
    assert sink.content() == ["row"]


@pytest.mark.slow
def test_a_sealed_segment_is_refused_before_any_task_runs(sink: Sink) -> None:
    def batch() -> None:
        writer = sent(sink.ending())
        sink.ending().commit([sink.task(writer, 0, ["row"], query="q")], 0)

    batch()
    with siltstone.open(sink.folder) as store:
        store.segment("s").seal()
    with pytest.raises(siltstone.SegmentSealedError, match="segment is sealed segment=s"):
        sink.planned()
    sink.planned(overwrite=True)
    sink.planned(outputs="partition")
    batch()  # of a stream: it was published earlier
    assert sink.content() == ["row"]


@pytest.mark.slow
def test_a_failed_task_tells_why_and_nothing_is_published(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = sink.planned(key="k")
    with pytest.raises(ValueError, match="key in column 'k' is null"):
        sink.task(writer, 0, ["a"], keys=[None])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="value is null"):
        sink.task(writer, 0, [None], keys=["a"])  # type: ignore[list-item]
    with pytest.raises(siltstone.SegmentNameError):
        sink.task(writer, 0, ["a"], keys=["x" * 2_000])
    writer.abort([None])
    monkeypatch.setattr("siltstone.spark.task_writer.HELD_BYTES_MAX", 4)
    other = sink.planned(key="k")
    names = [str(number % 3) for number in range(30)]
    other.commit([sink.task(other, 0, [str(n) for n in range(30)], keys=names)])
    assert sink.content("s/1") == [str(number) for number in range(1, 30, 3)]


def test_a_store_that_executors_do_not_see_is_told(sink: Sink) -> None:
    writer = sink.planned()
    (sink.folder / "chunks" / "system" / "store").rename(sink.folder / "elsewhere")
    with pytest.raises(siltstone.StoreNotFoundError, match="holds no store"):
        sink.task(writer, 0, ["row"])
    (sink.folder / "elsewhere").rename(sink.folder / "chunks" / "system" / "store")


def test_what_travels_holds_no_secret(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = sink.folder / "siltstone.yaml"
    text = settings.read_text().replace("path: ./chunks", "path: ./${PLACE}")
    settings.write_text(text)
    monkeypatch.setenv("PLACE", "chunks")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "do-not-tell")
    writer = sink.planned()
    stream = sink.ending()
    message = sink.task(writer, 0, ["row"])
    for thing in (writer, stream, message):
        data = pickle.dumps(thing)
        assert b"do-not-tell" not in data
        assert b"PLACE" not in data
        assert len(data) < 2_000
    assert isinstance(sent(stream), SegmentStreamWriter)
    assert SCHEMA != KEYED
