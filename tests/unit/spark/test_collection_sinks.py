"""Streams into collections by the classes that Spark calls: each batch is appended once."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pyarrow
import pytest
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from siltstone.collections.blocking import Collection, Collections
from siltstone.collections.upload_ticket import upload_rows
from siltstone.core.errors import (
    CollectionNotFoundError,
    CollectionSequenceError,
    SettingsError,
    StoreNotFoundError,
)
from siltstone.spark.data_source import SegmentSource
from tests.support.spark.collection_fixtures import collections, folder, gusts, parts, shown
from tests.support.spark.collection_world import (
    GUSTS,
    NAME,
    StreamedByHand,
    multiset,
    some_gusts,
)

__all__ = ["collections", "folder", "gusts"]

STATION, GUST = StructField("station", StringType()), StructField("gust", DoubleType())
FRAME = StructType([STATION, GUST])


def frame(count: int, first: int = 0) -> pyarrow.RecordBatch:
    """Rows in the form that Spark gives them."""
    columns = some_gusts(count, first).combine_chunks().columns
    return pyarrow.RecordBatch.from_arrays(
        [column.combine_chunks() for column in columns], names=GUSTS.names
    )


@pytest.mark.parametrize("seed", range(3))
def test_batches_of_queries_are_appended_once_whatever_spark_repeats(
    folder: Path, gusts: Collection, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = Random(seed)
    queries = {name: StreamedByHand(folder, FRAME, monkeypatch, name) for name in ("q1", "q2")}
    numbers = dict.fromkeys(queries, 0)
    wanted: Counter[tuple[Any, ...]] = Counter()
    for turn in range(6):
        name = chance.choice(sorted(queries))
        query, number = queries[name], numbers[name]
        rows = [frame(chance.randrange(4), 100 * turn + 10 * task) for task in range(2)]
        fates = chance.choices(["fails", "crashes", "replays", "aborts"], k=chance.randrange(3))
        for fate in [*fates, "ends"]:
            messages = query.batch(*rows)
            if fate == "fails":
                query.ending().abort([None, messages[1]], number)
                continue
            query.ending().commit(messages, number)  # After a crash Spark plans it again.
            if fate == "replays":
                query.ending().commit(messages, number)
            if fate == "aborts":
                query.ending().abort(messages, number)
        wanted += multiset(pyarrow.Table.from_batches(rows))
        numbers[name] += 1
        assert shown(gusts) == wanted
    gusts.sweep()
    assert gusts.sweep() == 0
    assert parts(folder) == len(gusts.snapshot().files().files), "nothing is left that has no name"
    assert {row.name for row in gusts.info().writers} <= {"q1", "q2"}


def test_all_rows_of_a_batch_have_one_time_and_the_number_of_the_batch_is_the_sequence(
    folder: Path, gusts: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = StreamedByHand(folder, FRAME, monkeypatch)
    for number in (0, 7):
        query.ending().commit(query.batch(frame(3), frame(5, 100)), number)
    info = gusts.info()
    assert (info.upper, [(row.name, row.sequence) for row in info.writers]) == (2, [("q1", 7)])


def test_a_batch_without_rows_appends_nothing(
    folder: Path, gusts: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = StreamedByHand(folder, FRAME, monkeypatch)
    query.ending().commit(query.batch(frame(0), frame(0)), 0)
    query.ending().commit([], 1)
    query.ending().abort([None], 1)
    assert (gusts.info().upper, gusts.info().writers) == (0, ())


def test_of_several_attempts_of_a_task_one_counts_and_a_sweep_deletes_the_others(
    folder: Path, gusts: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = StreamedByHand(folder, FRAME, monkeypatch)
    first, *others = query.batch(*[frame(10)] * 3)
    lost = query.batch(frame(5))
    query.ending().commit([first, None], 0)
    query.ending().abort(lost, 0)
    assert shown(gusts) == multiset(some_gusts(10))
    assert (len(others), gusts.sweep(), parts(folder)) == (2, 3, 1)


def test_tasks_that_cannot_reach_the_storage_append_nothing_and_the_batch_can_be_repeated(
    folder: Path, gusts: Collection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    query = StreamedByHand(folder, FRAME, monkeypatch)
    done = query.batch(frame(10))
    hidden = tmp_path / "hidden"
    with monkeypatch.context() as patch:
        patch.setattr(
            "siltstone.spark.collection_writer.upload_rows",
            lambda store, *rest: upload_rows(hidden, *rest),
        )
        with pytest.raises(StoreNotFoundError, match="hidden"):
            query.batch(frame(10))
    query.ending().abort([*done, None], 0)
    assert gusts.info().upper == 0
    query.ending().commit(query.batch(frame(10)), 0)
    assert shown(gusts) == multiset(some_gusts(10))
    assert (gusts.sweep(), parts(folder)) == (1, 1), "what the attempt uploaded that was given up"


def test_a_checkpoint_that_was_put_back_appends_nothing(
    folder: Path, gusts: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = StreamedByHand(folder, FRAME, monkeypatch)
    query.ending().commit(query.batch(frame(3)), 4)
    with pytest.raises(CollectionSequenceError, match="sequence=3 last_sequence=4") as caught:
        query.ending().commit(query.batch(frame(9, 100)), 3)
    assert "the checkpoint is a copy or an older one" in caught.value.__notes__[0]
    assert shown(gusts) == multiset(some_gusts(3))


def test_another_collection_of_the_same_name_gets_nothing_of_a_batch(
    folder: Path, collections: Collections, gusts: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = StreamedByHand(folder, FRAME, monkeypatch)
    messages = query.batch(frame(3))
    collections.rename(NAME, "old")
    other = collections.create(NAME, GUSTS, key=["station"])
    with pytest.raises(CollectionNotFoundError, match="another collection"):
        query.ending().commit(messages, 0)
    assert other.info().upper == gusts.info().upper == 0


@pytest.mark.parametrize(
    ("fields", "collection", "message"),
    [
        ([STATION], NAME, "CollectionSchemaError: a column of the collection is missing"),
        ([STATION, StructField("gust", LongType())], NAME, "cast it to DOUBLE"),
        ([STATION, GUST], "storms", "CollectionNotFoundError: no such collection"),
    ],
)
def test_what_does_not_fit_is_refused_when_a_batch_is_planned(
    folder: Path, gusts: Collection, fields: list[StructField], collection: str, message: str
) -> None:
    options = {"store": str(folder), "collection": collection}
    writer = SegmentSource(options).streamWriter(StructType(fields), False)
    with pytest.raises(pickle.PicklingError, match=message):
        pickle.dumps(writer)
    assert gusts.info().writers == ()


@pytest.mark.parametrize(
    ("options", "complete", "message"),
    [
        ({}, True, "output mode 'complete' cannot be written.*only 'append'"),
        ({"Writer": "me"}, False, "option 'writer' is for batches"),
        ({"sequence": "1"}, False, "option 'sequence' is for batches"),
        ({"path": "/x"}, False, "unknown option: 'path'.*takes no path"),
        ({"segment": "s"}, False, "exclude each other"),
        ({"collection": ""}, False, "option 'collection' is missing"),
    ],
)
def test_options_and_modes_that_a_sink_does_not_have_are_named(
    options: dict[str, str], complete: bool, message: str
) -> None:
    given = {"store": "/data/store", "collection": NAME, **options}
    with pytest.raises(SettingsError, match=message):
        SegmentSource(given).streamWriter(FRAME, complete)
